//! The layers, each by itself, and what the kit gives them.

mod deadlines;
mod events;
mod extents;
mod filter;
mod filter_end;
mod host_lane;
mod mirrors;
mod partition;
mod snapshot;
mod snapshot_late;
mod snapshot_merge;
mod status;
mod table;
mod tables;
mod task;
