//! Exports whose clients come over stream sockets: the threads that accept connections, the connections that there are,
//! and the parts of a connection that do not depend on the protocol.

pub(crate) mod address;
pub(crate) mod copies;
pub(crate) mod inbox;
pub(crate) mod server;
pub(crate) mod shared;
pub(crate) mod sleep;
pub(crate) mod socket;

use shared::Place;

/// A protocol over stream sockets.
pub(crate) struct Protocol {
    /// The name of the export, which also begins the names of threads.
    pub(crate) kind: &'static str,
    /// The name of the protocol in messages.
    pub(crate) name: &'static str,
    /// Why a connection from another host is a risk, and what helps, for a message.
    pub(crate) exposed: &'static str,
    /// Serves a connection until it ends.
    pub(crate) run: fn(&Place),
}
