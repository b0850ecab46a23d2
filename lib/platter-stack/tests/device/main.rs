//! The contract of devices, over layers: every row of the table, and stacks of them.

#[path = "../../../platter-disk/tests/device/callers.rs"]
mod callers;
mod kinds;
#[path = "../../../platter-disk/tests/device/memory.rs"]
mod memory;
#[path = "../layers/mirrors.rs"]
mod mirrors;
#[path = "../../../platter-disk/tests/device/rig.rs"]
mod rig;

#[path = "../../../platter-disk/tests/device/allocation.rs"]
mod allocation;
#[path = "../../../platter-disk/tests/device/concurrency.rs"]
mod concurrency;
#[path = "../../../platter-disk/tests/device/data.rs"]
mod data;
mod flushes;
mod input;
mod wakeups;
