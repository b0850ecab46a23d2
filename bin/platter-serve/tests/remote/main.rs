//! The contract of devices, over the NBD client and server: what is written arrives whichever way it is called, and
//! random lives beside a model, with servers that are killed and come back.

#[path = "../../../../lib/platter-disk/tests/device/callers.rs"]
mod callers;
mod kinds;
mod life;
#[path = "../../../../lib/platter-disk/tests/device/memory.rs"]
mod memory;
// The rig is shared with other suites, which use more of it.
#[allow(unused, reason = "the other tests use all of it")]
#[path = "../../../../lib/platter-disk/tests/device/rig.rs"]
mod rig;

#[path = "../../../../lib/platter-disk/tests/device/allocation.rs"]
mod allocation;
#[path = "../../../../lib/platter-disk/tests/device/concurrency.rs"]
mod concurrency;
#[path = "../../../../lib/platter-disk/tests/device/data.rs"]
mod data;
