//! How a disk at a target is used.

use crate::reconnect::Bounds;
use platter_block::time::Span;

/// The name by which the initiator logs in, unless another one is given.
pub(super) const INITIATOR: &str = "iqn.2026-11.localhost.platter:initiator";

/// How a disk at a target is used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IscsiOptions {
    /// Whether writes are allowed.
    pub write: bool,
    /// Most connections at once, at least 1. Each is a session of its own.
    pub connections: u32,
    /// Most commands of a connection at once.
    pub depth: u32,
    /// Time for connecting and logging in.
    pub connect_timeout: Span,
    /// Time after which a connection is broken whose target does not acknowledge data, or does not answer an abort.
    pub peer_timeout: Span,
    /// How long I/O is held while there is no connection; zero: it fails at once.
    pub reconnect: Span,
    /// The name by which the initiator logs in.
    pub initiator: String,
}

platter_block::setters! {
    IscsiOptions {
        write, with_write: bool;
        connections, with_connections: u32;
        depth, with_depth: u32;
        connect_timeout, with_connect_timeout: Span;
        peer_timeout, with_peer_timeout: Span;
        reconnect, with_reconnect: Span;
        initiator, with_initiator: String;
    }
}

impl Default for IscsiOptions {
    fn default() -> IscsiOptions {
        IscsiOptions {
            write: false,
            connections: 1,
            depth: 128,
            connect_timeout: Span::from_secs(10),
            peer_timeout: Span::from_secs(30),
            reconnect: Span::from_secs(60),
            initiator: INITIATOR.to_owned(),
        }
    }
}

impl IscsiOptions {
    pub(super) fn bounds(&self) -> Bounds {
        Bounds {
            connections: self.connections,
            depth: self.depth,
            connect_timeout: self.connect_timeout,
            peer_timeout: self.peer_timeout,
            reconnect: self.reconnect,
        }
    }
}
