//! What `cache` promises, under everything that can go wrong below it.

mod life;
mod model;
mod rig;
mod stamp;
mod workload;
