//! The benchmark of "Disk I/O in Linux" (C. Staelin, HPL-2002-352): chunks at random positions, each read
//! sequentially, from single disks and from striped arrays, with the requests that several systems of the
//! time would issue.
//!
//! A [`Cell`] is a point of a figure: a [`Personality`], some disks, a stripe, a size of requests.
//! [`measure`] measures one as lmbench does, [`run`] many of them; a [`Plan`] has those of the paper's
//! figures. On simulated disks time is virtual, and a point is the same on every machine.
//!
//! The personalities:
//! - `jbod`: a process for each disk, with one request at a time.
//! - `csraid-sync`, `csraid-async`, `csraid-posix`: one process on a striped array in user space (the layer
//!   `raid0`), with one request at a time, with several, and with several of which each disk gets one part at
//!   a time.
//! - `kernel-2.4`: one process on an array whose system reads one stripe after the other and one stripe
//!   ahead.
//! - `csraid-aio`: like `csraid-async`, with the requests for each disk made by POSIX aio, as in the paper, on
//!   Platter's own (`platter_aio`); on files and block devices.
//! - `windows`: like `csraid-sync`, with stripes of 1 MiB.
//!
//! Processor time is not modelled: in virtual time a copy costs nothing.

#![forbid(unsafe_code)]

mod array;
mod busy;
mod cell;
mod error;
mod html;
mod kernel;
mod measure;
mod meter;
mod personality;
mod place;
mod plan;
mod process;
mod report;
mod run;
mod serial;

pub use busy::{BUCKETS, Busy};
pub use cell::{Cell, Harness, Pattern, Point};
pub use error::ChunkedError;
pub use html::figures;
pub use measure::measure;
pub use personality::{PERSONALITIES, Personality, PersonalityType, WINDOWS_STRIPE};
pub use plan::Plan;
pub use report::Report;
pub use run::{Opener, Points, Progress, RunOptions, run};
