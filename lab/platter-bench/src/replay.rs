//! Replays of traces on devices, real or simulated: the implementation of `platter trace replay`.
//!
//! A [`Reader`] makes of each I/O of a trace what is asked for: which device gets it, where on it ([`Fit`]), and whether it
//! is replayed as it is, changed or skipped. The player (`replay/player.rs`) decides when each starts, from its time in the trace or from
//! completions, and keeps the account ([`ReplayReport`]): how late each was, what was changed, how many were in flight. On real
//! devices the trace is read on the caller's thread, a bounded number of I/Os ahead of the player's; on simulated ones
//! everything runs on one thread in virtual time, where no I/O is late, and the same seed gives the same report except for values
//! of the host ([`HOST_KEYS`]).
//!
//! With [`Mode::Dependency`] an I/O starts when all those have completed whose completion came before its arrival in the trace, and as
//! long after the last of them as it did there. That is how hfplayer infers what applications wait for (Haghdoost, He, Fredin, Du, "On the
//! Accuracy and Scalability of Intensive I/O Workload Replay", FAST '17), without its guess which of them mattered.
//!
//! ```
//! use core::sync::atomic::AtomicBool;
//! use platter_bench::io::Hooks;
//! use platter_bench::replay::{self, ReplayOptions, Reader, Routes};
//! use platter_disk::device::Device;
//! use platter_traces::{Arrivals, Format, Input, Merged};
//!
//! let csv = "5,W,4096,8192,10\n5,R,0,4096,30\n";
//! let mut arrivals = Arrivals::new(Merged::new(vec![Input::new("a.csv", Format::Alibaba, csv.as_bytes())], false)?, None)?;
//! let (devices, options) = ([Device::null(1 << 30)?], ReplayOptions::default());
//! let mut reader = Reader::new(&mut arrivals, &options, &devices, Routes::new(&[None], &[]), None)?;
//! let report = replay::run(&mut reader, &options, &devices, Hooks::none(&AtomicBool::new(false)))?;
//! assert_eq!((report.ios, report.errors), (2, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod account;
mod aim;
mod buffers;
mod depths;
mod error;
mod fit;
mod json;
mod options;
mod page;
mod player;
mod reader;
mod real;
mod report;
mod routes;
mod run;
mod simulated;
mod step;
mod survey;
mod text;

pub use account::{Count, Fates};
pub use depths::Depths;
pub use error::ReplayError;
pub use fit::{Fit, Fitting};
pub use json::HOST_KEYS;
pub use options::{Discards, Mode, ReplayOptions, Writes};
pub use reader::Reader;
pub use report::{Lateness, ReplayDevice, ReplayReport, Replayed};
pub use routes::Routes;
pub use run::run;
pub use survey::Survey;
