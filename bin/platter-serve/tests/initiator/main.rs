//! The contract of devices, over the iSCSI initiator and the export of this crate: what is written arrives whichever way it is
//! called. libiscsi speaks the protocol of the initiator; without it every test is skipped.

#![cfg(feature = "iscsi")]

mod answers;
mod between;
#[path = "../../../../lib/platter-disk/tests/device/callers.rs"]
mod callers;
mod cancelled;
mod kinds;
mod life;
mod logins;
#[path = "../../../../lib/platter-disk/tests/device/memory.rs"]
mod memory;
mod part;
mod pieces;
mod read_late;
mod reinstated;
// The rig is shared with other suites, which use more of it.
#[allow(unused, reason = "the other tests use all of it")]
#[path = "../../../../lib/platter-disk/tests/device/rig.rs"]
mod rig;
mod several;
mod tgt;

#[path = "../../../../lib/platter-disk/tests/device/concurrency.rs"]
mod concurrency;
#[path = "../../../../lib/platter-disk/tests/device/data.rs"]
mod data;
