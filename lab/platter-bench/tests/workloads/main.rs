//! The workloads: on simulated disks their times are exact, on real ones their counts.

mod chunked;
mod fileio;
mod io;
mod io_simulated;
mod io_trace;
mod ladder;
mod load;
mod parallel_read;
mod processes;
mod replay;
mod schedulers;
