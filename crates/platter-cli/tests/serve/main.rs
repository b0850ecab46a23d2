//! `platter serve` from outside.

mod killed;
mod page;
mod restarted;
mod vhost;
