//! The microbenchmark DM of "Improving Linux Block I/O for Enterprise Workloads" (Wong and others, OLS 2002),
//! run on all rungs of the [ladder](crate::ladder): one worker for each disk, sequential reads of 64
//! KiB, `read` and `readv` (16 buffers of 4 KiB).
//!
//! Every rung is measured several times, in rounds through all rungs in rotating order, so that changes of
//! the machine over time affect all of them; results are medians. A cell of the table is one rung with one
//! call on one kind of disk. The number of its reads is determined in a warm-up and is then the same in every
//! round.

#![forbid(unsafe_code)]

mod call;
mod cell;
mod disks;
mod error;
#[cfg(test)]
mod example;
mod html;
mod json;
pub(crate) mod machine;
mod options;
mod paper;
mod results;
mod run;
mod tables;
mod text;

pub use call::Call;
pub use disks::{Disks, OpenDisk, ram_disk};
pub use error::DmError;
pub use html::html;
pub use json::json;
pub use options::{MAX_DISKS, MAX_READS, MAX_REPEAT, Options, PAPER_DISKS, PAPER_READS, READ_BYTES};
pub use results::{Cell, Medium, Report};
pub use run::{Progress, run};
pub use text::text;

pub(crate) use run::describe;
pub(crate) use tables::{change, short, spread};
