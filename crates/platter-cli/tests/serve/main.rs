//! `platter serve` from outside.

mod crowded;
mod killed;
mod page;
mod restarted;
mod vhost;
