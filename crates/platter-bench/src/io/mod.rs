//! The general workload: what `platter bench io` runs, with fio's options and meanings.
//!
//! Each job is a thread with a channel of its own that keeps `iodepth` bios in flight. The bios and their
//! buffers are made once and used again; the buffers lie in one region that drivers register. The loop hands
//! over a batch and takes a batch back, without a lock, an allocation or a table look-up that hashes.
//!
//! Latency is counted per I/O from the moment its batch was handed over to the moment the batch it came back
//! with was seen: one reading of the clock per batch. With `rate_iops` it is counted from the moment the I/O
//! was meant to start.
//!
//! On simulated devices the same jobs run on one thread in virtual time; the same seed gives the same report but for
//! what it says of the host ([`HOST_KEYS`]).
//!
//! As with fio, the first I/O that fails ends its job; blocks that do not verify are counted and the job goes on.
//!
//! ```
//! use core::sync::atomic::AtomicBool;
//! use platter_bench::io::{self, Hooks};
//! use platter_bench::workload::{JobOptions, Rw};
//! use platter_disk::device::Device;
//!
//! let disk = Device::null(1 << 40)?;
//! let job = JobOptions { rw: Rw::RandRead, iodepth: 32, number_ios: Some(1000), ..JobOptions::default() };
//! let report = io::run(&job, &[disk], 1, Hooks::none(&AtomicBool::new(false)))?;
//! assert_eq!((report.ios, report.errors()), (1000, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod careful;
mod desk;
mod error;
mod gate;
mod job;
mod json;
mod plan;
mod report;
mod run;
mod simulated;
mod tally;
mod text;
pub mod trace;
mod usage;
mod verify;
mod worker;

pub use error::IoError;
pub(crate) use gate::StartGate;
pub use json::HOST_KEYS;
pub(crate) use json::put_latency;
pub use report::{DeviceReport, DirectionReport, IoReport, LatencySummary, Stamps};
pub use run::{Hooks, Progress, run};
pub use simulated::Simulated;
pub use usage::Usage;
