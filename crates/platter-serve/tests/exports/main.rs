//! One suite for all exports, through a client of each: the contract of devices, random lives beside the oracle, and power
//! cuts of the disks below.

mod agreed;
mod contract;
mod cuts;
mod fuse_way;
mod judge;
mod lives;
mod nbd_way;
mod power;
mod stacks;
mod ways;
