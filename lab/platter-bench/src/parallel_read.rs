//! Sequential reads of several devices at once, with a thread for each: the test with which Lincoln Dale
//! compared ways of reading in July 2002. The implementation of `platter bench parallel-read`.
//!
//! The ways are those of his mail: `normal` reads of 512 bytes through a cache, `direct` reads of 4 MiB, and
//! reads of 4 MiB as a raw device of Linux 2.4 carried them out ([`Mode`]). Each round reopens the devices,
//! so that no cache is warm.
//!
//! ```
//! use core::sync::atomic::AtomicBool;
//! use platter_bench::parallel_read::{Disk, Mode, Opened, Options, run};
//! use platter_disk::device::Device;
//!
//! let open = |_| Ok(Opened::Device(Device::ram(64 << 20)?));
//! let disks = [Disk::new("ram", open)];
//! let options = Options { modes: vec![Mode::Direct], repeat: 1, ..Options::default() };
//! let report = run(&disks, &options, &AtomicBool::new(false), &mut |_| {})?;
//! assert_eq!(report.results[0].rounds[0].bytes, 64 << 20);
//! # Ok::<(), platter_bench::parallel_read::ParallelReadError>(())
//! ```

mod error;
mod options;
mod report;
mod round;
mod run;
mod text;

pub use error::ParallelReadError;
pub use options::{Disk, Mode, Open, Opened, Options, RAW_RUNG};
pub use report::{Report, Round, Runs};
pub use run::{Progress, run};
