//! Compares elevators under mixes of processes, in one table.
//!
//! Each cell is an elevator and a mix ([`MIXES`]), on a device opened for it. On a simulated device a cell is a world of
//! its own in virtual time, so cells run side by side on threads, and their results do not depend on how many; on a
//! real device they run one after the other in real time.

#![forbid(unsafe_code)]

mod mixes;
mod run;
mod show;

pub use mixes::{MIXES, Mix, Site, by_name};
pub use run::{Cell, Opener, Options, ProcessRow, Progress, Report, SchedulerError, jain, run};
