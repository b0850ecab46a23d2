//! Runs the command as a user does.

mod activated;
mod attended;
mod copy;
mod copy_ends_early;
mod copy_refused;
mod copy_rescue;
mod daemon;
mod docs;
mod exit_status;
mod idle;
mod info;
mod iscsi;
mod killed;
mod list;
mod map;
mod mirrors;
mod nvme;
mod run;
#[allow(dead_code, reason = "each suite uses a part of it")]
#[path = "../shared/running.rs"]
mod running;
mod scsi;
mod secrets;
mod served;
mod signals;
mod sim;
mod snapshot;
mod soak;
mod specs;
mod statistics;
