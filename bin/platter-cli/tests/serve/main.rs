//! `platter serve` from outside.

mod crowded;
mod killed;
mod page;
mod restarted;
#[allow(dead_code, reason = "each suite uses a part of it")]
#[path = "../shared/running.rs"]
mod running;
mod vhost;
