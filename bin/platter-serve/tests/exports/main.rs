//! One suite for all exports, through a client of each: the contract of devices, random lives beside the oracle, and power
//! cuts of the disks below.

mod agreed;
mod contract;
mod cuts;
mod fuse_way;
#[cfg(feature = "vhost")]
#[allow(dead_code, reason = "the suite of the export uses the rest")]
#[path = "../vhost/guest.rs"]
mod guest;
#[cfg(feature = "iscsi")]
#[allow(dead_code, reason = "the suite of the export uses the rest")]
#[path = "../iscsi/initiator.rs"]
mod initiator;
#[cfg(feature = "iscsi")]
mod iscsi_way;
mod judge;
mod lives;
#[path = "../../../../lib/platter-disk/tests/drivers/loops.rs"]
mod loops;
mod losses;
mod nbd_way;
mod power;
mod stacks;
#[cfg(feature = "ublk")]
mod ublk_way;
#[cfg(feature = "vhost")]
mod vhost_way;
mod ways;
