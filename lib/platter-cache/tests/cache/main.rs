//! The guarantees of `cache` under faults of the device below.

mod alone;
mod aside;
mod asked;
mod barriers;
mod commands;
mod dead;
#[allow(dead_code, reason = "shared with another crate's tests, which use all of it")]
#[path = "../../../platter-disk/tests/misfortune/disk.rs"]
mod disk;
mod dropped;
mod early;
mod errors;
mod flood;
mod futures;
mod hand;
mod killed;
mod life;
mod limits;
mod logged;
mod misfortune;
mod model;
mod once;
mod one_flush;
mod order;
mod pressure;
mod resize;
mod rig;
mod schedule;
#[path = "../../../platter-stack/tests/array/script.rs"]
mod script;
mod searches;
mod sharded;
mod share;
mod stacked;
mod stamp;
mod stuck;
mod threads;
mod turns;
mod unlocked;
mod workload;
