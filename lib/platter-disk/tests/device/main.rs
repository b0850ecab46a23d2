//! Devices against their contract: every kind, with every elevator, in every way to call.

mod callers;
mod fake;
mod kinds;
mod memory;
mod rig;

mod alignment;
mod allocation;
mod bad_input;
mod concurrency;
mod data;
mod depth;
mod errors;
mod event_loops;
mod events;
mod files;
mod operations;
mod order;
mod threads;
mod timeouts;
mod wakeups;
