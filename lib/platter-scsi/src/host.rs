//! The host's side of a logical unit, without I/O: what drivers of SCSI disks have in common, whatever carries the commands.
//!
//! - [`encode`]: ordinary requests as commands;
//! - [`found`]: the questions that a logical unit is asked, and the geometry that follows from its answers;
//! - [`queued`]: a program's command as a bio carries it;
//! - [`verdict`]: what an answer means: done, to be sent again, or failed with an errno.
//!
//! A driver sends what these make, and hands back what it receives.

pub mod encode;
pub mod found;
pub mod queued;
pub mod verdict;
