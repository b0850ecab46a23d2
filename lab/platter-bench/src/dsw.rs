//! The decision-support workload (DSW) of "Improving Linux Block I/O for Enterprise Workloads" (Wong and others, OLS 2002) on
//! this machine: the reads of queries that were recorded from a database, replayed on all rungs of the
//! [ladder](crate::ladder) by agents that also spend the processor time that the queries took.
//!
//! The paper's queries and database are not published. A [`Recording`] is of queries of TPC-H on SQLite instead; what the
//! paper says of its own is kept: data is spread over all disks, and agents prefetch with `readv`.
//!
//! ```
//! use platter_bench::dsw::{Query, Read, Recording};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let reads = (0..20).map(|page| Read { page, compute_ns: 1_000 }).collect();
//! let queries = vec![Query { name: "scan".into(), reads }];
//! let recording = Recording::new(0.01, 4096, 20, queries)?;
//! assert_eq!(Recording::from_bytes(&recording.to_bytes())?, recording);
//! # Ok(())
//! # }
//! ```

mod agent;
mod call;
mod json;
mod options;
mod paper;
mod recording;
mod results;
mod run;
#[cfg(test)]
mod tests;
mod text;

pub use call::{Call, PREFETCH_BYTES};
pub use json::json;
pub use options::{MAX_AGENTS, MAX_COMPUTE, MAX_DISKS, MAX_REPEAT, Options};
pub use recording::{BadRecording, MAX_PAGE_BYTES, MIN_PAGE_BYTES, Query, Read, Recording};
pub use results::{Cell, Medium, Report};
pub use run::{Progress, run};
pub use text::text;

pub use crate::dm::{Disks, DmError as DswError, OpenDisk};
