//! Devices against their contract: every kind, every elevator, every way to call.

mod fake;
mod rig;

mod order;
mod wakeups;
