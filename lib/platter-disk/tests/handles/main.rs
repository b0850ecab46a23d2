//! Handles: positions, sharing, errors and reads from memory, on a device that stands in for a cache.

mod cached;
mod cost;
#[path = "../allocations/counting.rs"]
mod counting;
mod memory;
mod signed;
mod streams;
