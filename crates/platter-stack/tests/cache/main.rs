//! What `cache` promises, under everything that can go wrong below it.

mod errors;
mod killed;
mod life;
mod limits;
mod model;
mod order;
mod rig;
mod schedule;
mod stacked;
mod stamp;
mod threads;
mod workload;
