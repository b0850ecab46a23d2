//! Disks for virtual machines: a vhost-user-blk back end.
//!
//! A front end, such as QEMU, connects to a socket and shares the memory of its guest. From then on the guest's driver and
//! this process talk through queues in that memory, without the front end.
//!
//! - `server`, `session` and `wire`: the socket, the front end and its messages, by one thread;
//! - `vring` and `queue`: a queue, and the thread that carries out its requests with a channel of its own;
//! - [`memory`], [`ring`] and [`request`]: what the guest has written, checked;
//! - `inflight`: what the next server needs to go on.

mod common;
mod disk;
mod inflight;
mod link;
pub mod memory;
mod polling;
mod queue;
pub mod request;
pub mod ring;
mod server;
mod session;
mod tally;
mod vring;
pub mod wire;

use crate::export::ExportType;

/// The row of the table of exports.
pub const TYPE: ExportType = ExportType {
    name: server::KIND,
    summary: "a disk for a virtual machine",
    address: server::FORM,
    start: server::start,
};
