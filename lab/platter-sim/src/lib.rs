//! Simulated disks in virtual time: models of disks, their contents and their faults.
//!
//! Everything here is a state machine: a disk gets commands and the time, and reports when they complete. One seed
//! determines all random numbers, and times are integers, so the same seed gives the same run on every machine.
//!
//! ```
//! use platter_block::time::{Span, Time};
//! use platter_sim::ideal::Ideal;
//! use platter_sim::{SimDisk, World};
//!
//! let world = World::new(7);
//! let model = Ideal { size: 1 << 30, latency: Span::from_micros(100), depth: 32, write_cache: false };
//! let disk = SimDisk::new(&world, model.into(), None);
//! assert_eq!(disk.geometry().size, 1 << 30);
//! // No command was submitted, so no time has passed.
//! assert_eq!(world.clock().now(), Time(0));
//! ```
//!
//! # Simulated disks and virtual time
//!
//! A simulated disk is a `Disk` like any other (`SimDisk::attach`): its channels are `SimChannel`s, each a `Driver`,
//! and a device with its queues, gate and elevator uses it like a real disk (`Device::from_disk`). Inside, a `Model`
//! decides when each command ends and a `Medium` holds the contents; neither uses the other.
//!
//! The disks of one `World` share a `VirtualClock`, which stands still until a waiting caller advances it:
//! `SimChannel::wait` advances it to the next event of any disk of the world (`World::pass`), a lane that waits for a
//! shared queue to that queue's next wakeup (`DiskLane::sleep_simulated`), the service thread to the lane's. Every
//! handle asks its device for its clock (`Backend::clock`, `Clock::now`) and stamps its batches with it. A program that
//! runs many channels in virtual time polls all of them, tells each that it waits (`Channel::unplug`), then advances
//! the clock to the earliest `Channel::next_wakeup`. All benchmarks and experiments do so by one loop, `Load::run`: a
//! `Work` has channels and timers, and is told what has completed and what has expired. Channels whose devices share a
//! disk are a *port*, which is polled only when one of them has an event. Work that waits while nothing will ever
//! happen ends with `Stuck`. In real time the same works run with a load for each thread.
//!
//! Programs that read, write, walk trees or run transactions are `processes`: a `Process` is a list of `Step`s, and
//! `processes::run` runs any number of them on one device in the device's time, real or virtual. `bench schedulers`
//! runs the `MIXES` against every elevator; `repro` runs published experiments and checks each `Claim` by its `Rule`.
//! `repro/sysbench2004` adds a model of the file systems ext3 (layout and journal) and ext2 to the cache, in virtual
//! time.
//!
//! A world may be run by hand (`World::by_hand`): then no other thread runs its devices, futures make progress only
//! while they are polled, and `Device::run_background` does the work of the service thread.
//!
//! **Invariant:** a simulated disk reads no clock and takes all random numbers from its world's seed; times are
//! integers. A single-threaded use of it gives the same result on every machine.
//!
//! **Invariant:** a `Model` only decides when commands end. It never sees contents, and its results do not depend on
//! them.
//!
//! Faults of a disk are separate from its model, in `Trouble`, which a disk without faults and supply does not have: a
//! `FaultPlan` decides the fate of each command when the disk takes it, a `Supply` cuts the power of several disks, and
//! the medium keeps for each sector the versions that a power cut may leave. Whether the data that a program then reads
//! is correct is decided by the `Oracle`, which knows only what the program saw (simulation (docs/simulation.md)). Two
//! tools use this: `platter_kit::Kit` cuts the power of a program's own storage engine at each of its I/Os (crash
//! testing (docs/crash-testing.md)), and `platter_kit::soak::run` runs random stacks under random faults: a seed gives
//! a `Plan`, a `Run` carries it out on one thread and checks the promises, and `shrink` reduces a failing plan
//! (simulation (docs/simulation.md)). `soak::real` does the same on threads over real drivers, with a `Script` between
//! queue and driver.
//!
//! `docs/architecture-laboratory.md` has the models of disks, the benchmarks and `platter copy`.

#![deny(unsafe_code)]

mod attached;
pub mod bus;
pub mod catalogue;
mod channel;
#[cfg(test)]
mod closed_loop;
pub mod cloud;
pub mod disk;
mod disk_state;
pub mod fault;
pub mod flash;
pub mod host;
pub mod ideal;
pub mod import;
pub mod medium;
pub mod model;
pub mod oracle;
pub mod power;
pub mod rng;
pub mod validate;
mod world;
pub mod wrong;

pub use attached::Attached;
pub use disk_state::{Inside, Options, SimDisk};
pub use world::{Stalled, World};
