//! The writing of a CD, as a workload for commands: a program sends WRITE (10) commands to a simulated writer, whose laser must
//! not wait.
//!
//! "Linux block IO: present and future" (J. Axboe, 2004) names CD writing as the reason for commands that are mapped straight to
//! the program's memory instead of being copied, and gives no number. So this is an illustration: the inputs are
//! chosen, not published. Time is virtual, and underruns are the same on every machine; processor time is that of this machine.

#![forbid(unsafe_code)]

mod program;
mod report;

pub use program::{CdError, Settings, Stall, run};
pub use report::{Report, Run};

use platter_block::command::MemoryUse;

/// The ways in which the writer gets at the program's memory.
pub const WAYS: [(&str, MemoryUse); 2] = [("mapped", MemoryUse::Mapped), ("copied", MemoryUse::Copied)];
