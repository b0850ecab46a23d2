//! The Network Block Device protocol: a server for any client that speaks it.
//!
//! - [`negotiation`]: the handshake as a state machine without I/O;
//! - [`terms`]: which requests the agreed terms allow;
//! - `session`: the transmission phase, by one thread for each connection.

mod connection;
mod link;
pub mod negotiation;
mod session;
pub mod terms;

use crate::error::ServeError;
use crate::export::{Export, ExportType, Start};
use crate::stream::{Protocol, address, server};

/// The row of the table of exports.
pub const TYPE: ExportType = ExportType {
    name: "nbd",
    summary: "a Network Block Device server, over TCP or a Unix socket",
    address: address::FORM,
    start,
};

pub(crate) static PROTOCOL: Protocol = Protocol {
    kind: TYPE.name,
    name: "NBD",
    exposed: "NBD without TLS neither encrypts nor authenticates: require TLS",
    run: connection::run,
};

fn start(start: &Start<'_>) -> Result<Box<dyn Export>, ServeError> {
    server::start(start, start.options.insecure_plaintext || start.options.encrypts_all(), &PROTOCOL)
}
