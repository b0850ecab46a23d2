//! Processes that issue I/O as programs do: read a file, write one, walk a tree, run transactions.
//!
//! A [`Process`] is a lazily generated list of [`Step`]s and its identity to the elevator. [`run`] runs any
//! number of them on one device through a channel: in real time on a real device, in virtual time on a
//! simulated one, with the same code. Only the engine reads the time.
//!
//! There is no file system. [`Placement`] places files roughly as ext2 does: large files in one piece, small
//! ones in the block group of their directory, with inodes at its beginning.
//!
//! Modelled of the page cache: readahead as a plain window (the next window is requested when the first page
//! of this one has arrived), and buffered writes that become dirty pages, are written back in order in
//! batches once there are enough of them, and throttle their writer above a limit ([`CacheSettings`]). Not
//! modelled: pages that are read twice (except directories and inodes of a tree), memory pressure, write-back
//! by age, and one limit for all processes together.
//!
//! ```
//! use core::sync::atomic::AtomicBool;
//! use platter_bench::processes::{File, Process, ReadPlan, RunLimits, read_file, run};
//! use platter_disk::device::Device;
//!
//! let disk = Device::null(1 << 30)?;
//! let file = File { offset: 0, len: 1 << 20 };
//! let plan = ReadPlan::buffered(128 << 10);
//! let processes = vec![Process::new("cat", 1, read_file(file, plan))];
//! let never = AtomicBool::new(false);
//! let outcome = run(&disk, processes, &RunLimits { time: None, cancel: &never, sync_writes: true, flusher_starts: false })?;
//! assert_eq!(outcome.records[0].bytes, 1 << 20);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod bios;
mod cache;
mod engine;
mod error;
mod files;
mod place;
mod programs;
mod step;
mod task;

pub use cache::CacheSettings;
pub use engine::{Outcome, RunLimits, run};
pub use error::ProcessError;
pub use files::{ReadPlan, WritePlan, random_io, read_file, write_file};
pub use place::{File, GROUP_BYTES, Placement, Tree, TreeFile};
pub use programs::{Transactions, compare_trees, copy_tree, read_tree, transactions};
pub use step::{Process, Step, Steps};
pub use task::Record;
