//! Handles: positions, sharing, errors and what answers from memory, over a device that stands in for a cache.

mod cached;
mod cost;
#[path = "../allocations/counting.rs"]
mod counting;
mod memory;
mod signed;
mod streams;
