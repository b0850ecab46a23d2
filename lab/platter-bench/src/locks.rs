//! Use of the engine's locks under load: what the lock tables of "Improving Linux Block I/O for Enterprise Workloads"
//! (Wong and others, OLS 2002; Tables 5, 6 and 8) show, on the real engine. The implementation of `platter bench locks`.
//!
//! Each thread reads blocks at random positions, one at a time. Every point is measured twice: with the locks
//! unmetered for the rate, the processor time and the context switches, and then with a [`LockMeter`] for the locks,
//! because metering makes the locks slower. Points of several devices alternate, so that they can be compared on a machine
//! with other load.
//!
//! ```
//! use core::sync::atomic::AtomicBool;
//! use core::time::Duration;
//! use platter_bench::locks::{Caller, Options, run};
//! use platter_disk::device::Device;
//!
//! let disk = ("null".to_owned(), Device::null(1 << 30)?);
//! let options = Options::default()
//!     .with_callers(vec![Caller::Sync])
//!     .with_threads(vec![2])
//!     .with_runtime(Duration::from_millis(5))
//!     .with_repeat(1);
//! let report = run(&[disk], &options, &AtomicBool::new(false), &mut |_| {})?;
//! assert!(report.points[0].ios_metered > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`LockMeter`]: platter_disk::lock_meter::LockMeter

mod caller;
mod error;
mod json;
mod options;
mod report;
mod run;
mod text;

pub use caller::Caller;
pub use error::LocksError;
pub use options::Options;
pub use report::{Point, Report};
pub use run::run;
