//! How a remote disk is used.

use crate::reconnect::Bounds;
use platter_block::time::Span;

/// How a remote disk is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NbdOptions {
    /// Whether writes are allowed.
    pub write: bool,
    /// Most connections at once, at least 1. More than one needs a server whose flush covers all of them.
    pub connections: u32,
    /// Most requests of a connection at once.
    pub depth: u32,
    /// Time for connecting and negotiating.
    pub connect_timeout: Span,
    /// Time after which a TCP connection is broken whose peer does not acknowledge data.
    pub peer_timeout: Span,
    /// How long I/O is held while there is no connection; zero: it fails at once.
    pub reconnect: Span,
    /// Most bytes of writes since the last flush that are kept to be written again after a lost connection. With 0 none
    /// are kept, and after a lost connection the next flush fails if there were any.
    pub replay: u64,
}

platter_block::setters! {
    NbdOptions {
        write, with_write: bool;
        connections, with_connections: u32;
        depth, with_depth: u32;
        connect_timeout, with_connect_timeout: Span;
        peer_timeout, with_peer_timeout: Span;
        reconnect, with_reconnect: Span;
        replay, with_replay: u64;
    }
}

impl Default for NbdOptions {
    fn default() -> NbdOptions {
        NbdOptions {
            write: false,
            connections: 1,
            depth: 128,
            connect_timeout: Span::from_secs(10),
            peer_timeout: Span::from_secs(30),
            reconnect: Span::from_secs(60),
            replay: 0,
        }
    }
}

impl NbdOptions {
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
