//! Readahead policies on a model of a page cache: which I/Os each of them makes of the same reads.
//!
//! [`run`] takes reads, made up by a [`Workload`] or [read](trace::parse) from a trace, through one policy. Threads
//! take turns in order. A turn is one page of a read: it is looked up, and if it is not there the thread waits for
//! it. An I/O started in one round of turns is complete in the next, or as many later as the machine says.
//! Nothing else takes time. What is counted says how a policy behaves; [`Cost`] makes one number of it.
//!
//! The threads, the turns and the counters are those with which readahead of Linux 2.6 was examined in May 2004.

mod cache;
mod cost;
mod report;
mod run;
pub mod trace;
mod workload;

pub use cost::{Cost, DISK, SSD};
pub use report::Report;
pub use run::{Io, Machine, Outcome, run, run_unless};
pub use trace::TraceError;
pub use workload::{Pattern, Workload};

#[cfg(test)]
mod tests;

/// A read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Who reads.
    pub thread: u32,
    /// The handle: each has a readahead state of its own.
    pub handle: u32,
    /// First byte.
    pub pos: u64,
    /// Length in bytes.
    pub len: u64,
}
