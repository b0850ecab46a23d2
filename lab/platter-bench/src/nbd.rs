//! What the NBD server costs, and what copies of its payload would cost. The implementation of `platter bench nbd`.
//!
//! Server and client run in this process, over a Unix socket. Every point is measured in two ways that alternate: as the
//! server is, which sends and receives the memory of the bios, and with all payload passing through two buffers more, as in
//! a server that copies ([`Way`]). The processor time of the server is that of the process without the threads of the
//! clients.
//!
//! ```
//! use core::sync::atomic::AtomicBool;
//! use core::time::Duration;
//! use platter_bench::nbd::{Options, Way, run};
//! use platter_disk::device::Device;
//!
//! let options = Options::default()
//!     .with_blocks(vec![4096])
//!     .with_depths(vec![8])
//!     .with_runtime(Duration::from_millis(20))
//!     .with_repeat(1);
//! let disk = Device::null(1 << 30)?;
//! let report = run("null(1G)", &disk, &options, &AtomicBool::new(false), &mut |_| {})?;
//! let reads = report.points.iter().find(|point| point.way == Way::Direct).unwrap();
//! assert_eq!(reads.copied_per_byte(), 0.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod client;
mod error;
mod options;
mod report;
mod run;
mod show;

pub use error::NbdBenchError;
pub use options::{Options, Transfer, Way};
pub use report::{Point, Report};
pub use run::run;
