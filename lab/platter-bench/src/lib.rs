//! Part of Platter, a block I/O layer in user space.

pub mod about;
mod cache_counts;
pub mod chunked;
pub mod compare;
pub mod device_stats;
pub mod dm;
pub mod dsw;
pub mod fileio;
pub mod io;
pub mod ladder;
pub mod load;
pub mod locks;
pub mod nbd;
pub mod parallel_read;
pub mod processes;
pub mod readahead;
pub mod replay;
pub mod report;
pub mod schedulers;
pub mod stats;
pub mod workload;
