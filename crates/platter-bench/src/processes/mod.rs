//! Processes that issue I/O as programs do: read a file, write one, walk a tree, run transactions.
//!
//! A [`Process`] is a list of [`Step`]s, made as they are needed, and who it is to the elevator. [`run`] lets any
//! number of them work on one device through a channel: in real time on a real device, in virtual time on a
//! simulated one, by the same code. Nothing in it knows what time it is but the engine.
//!
//! There is no file system. [`Placement`] says where files lie, roughly as ext2 puts them: large files in one
//! piece, small ones in the block group of their directory, with inodes at its beginning.
//!
//! What is modelled of the page cache: readahead as a plain window (the next window is asked for when the
//! first page of this one has come); buffered writes that become dirty pages, are written back in order in batches once there are
//! enough of them, and throttle their writer above a limit ([`CacheSettings`]). What is not: pages that are read
//! twice (but directories and inodes of a tree), memory that runs short, pages that are written back because they
//! are old, one limit for all processes together.
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
//! let outcome = run(&disk, processes, &RunLimits { time: None, cancel: &never })?;
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
