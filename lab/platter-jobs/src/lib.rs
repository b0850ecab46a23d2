//! Job files in fio's format: what they say, as data.
//!
//! [`read`] takes job files apart: sections, `[global]`, `include`, variables, sizes and times as fio spells them, arithmetic
//! (computed here, never by a shell). Each option has one [row](option::Row) in a table: its names, what it takes, fio's
//! default, and what it means here. An option that is unknown or refused is a [`JobFileError`] with file, line, option and what to use instead;
//! where fio would silently read a line in another way, a [`Warning`] says what it would have done.
//!
//! [`Plan::new`] resolves the jobs: every option with its value, groups, what each job waits for, and the rules of
//! its I/Os. Nothing here does I/O, except that a caller's [`Surroundings`] read the files.
//!
//! The format and the defaults are those of fio 3.33 to 3.42, as its manual and experiments with it show.
//!
//! ```
//! use platter_jobs::{Plan, Surroundings, read};
//! # use std::{io, path::Path};
//! struct Text(&'static str);
//! impl Surroundings for Text {
//!     fn read(&self, _: &Path) -> io::Result<Vec<u8>> { Ok(self.0.into()) }
//! #   fn variable(&self, _: &str) -> Option<String> { None }
//! #   fn is_device(&self, _: &Path) -> bool { false }
//! #   fn page_size(&self) -> u64 { 4096 }
//! #   fn memory_mib(&self) -> u64 { 1024 }
//! #   fn processors(&self) -> u64 { 2 }
//! }
//! let file = read(&["a.fio"], &Text("[global]\nbs=64k\n[reader]\n[writer]\nrw=write\nstonewall\n"))?;
//! let plan = Plan::new(file, &[])?;
//! assert_eq!(plan.jobs.len(), 2);
//! assert_eq!((plan.jobs[1].group, plan.jobs[1].stage), (1, 1));
//!
//! let error = read(&["a.fio"], &Text("[a]\niodpeth=4\n")).unwrap_err();
//! assert_eq!(error.to_string(), "a.fio:2: iodpeth: fio has no such option; did you mean iodepth?");
//! # Ok::<(), platter_jobs::JobFileError>(())
//! ```

#![forbid(unsafe_code)]

mod complaint;
pub mod engine;
mod job;
mod lines;
mod number;
pub mod option;
mod plan;
mod surroundings;
pub mod value;

pub use complaint::{JobFileError, Place, Warning};
pub use job::{Job, JobFile, read};
pub use number::Unit;
pub use plan::{Group, Ios, Order, Plan, Planned, Sizes};
pub use surroundings::Surroundings;
