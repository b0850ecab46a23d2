//! The Network Block Device protocol: a server for any client that speaks it.
//!
//! - `address`, `server` and `shared`: where it listens, and the connections that there are;
//! - [`negotiation`]: the handshake as a state machine without I/O;
//! - [`terms`]: which requests the agreed terms allow;
//! - `session`: the transmission phase, by one thread for each connection.

mod address;
mod connection;
mod copies;
mod link;
pub mod negotiation;
mod server;
mod session;
mod shared;
mod socket;
pub mod terms;

use crate::export::ExportType;

/// The row of the table of exports.
pub const TYPE: ExportType = ExportType {
    name: "nbd",
    summary: "a Network Block Device server, over TCP or a Unix socket",
    address: address::FORM,
    start: server::start,
};
