//! What `cache` promises, under everything that can go wrong below it.

mod alone;
mod dead;
mod errors;
mod killed;
mod life;
mod limits;
mod misfortune;
mod model;
mod order;
mod pressure;
mod rig;
mod schedule;
#[path = "../array/script.rs"]
mod script;
mod stacked;
mod stamp;
mod threads;
mod turns;
mod workload;
