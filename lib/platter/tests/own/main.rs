//! The layer, driver and elevator of the examples keep the contract of devices, and are known by their names.

#[path = "../../../platter-disk/tests/device/callers.rs"]
mod callers;
mod kinds;
#[path = "../../../platter-disk/tests/device/memory.rs"]
mod memory;
mod names;
#[path = "../../../platter-disk/tests/device/rig.rs"]
mod rig;

#[path = "../../../platter-disk/tests/device/concurrency.rs"]
mod concurrency;
#[path = "../../../platter-disk/tests/device/data.rs"]
mod data;
#[path = "../../../platter-stack/tests/device/input.rs"]
mod input;
#[path = "../../../platter-stack/tests/device/wakeups.rs"]
mod wakeups;
