//! The connection as a session uses it: plain, or through TLS.

use super::socket::{Mode, Socket};
use rustix::io::Errno;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

pub(super) struct Link {
    socket: Arc<Socket>,
}

impl Link {
    /// A link without encryption.
    pub(super) fn plain(socket: Arc<Socket>) -> Link {
        Link { socket }
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Receives into `parts`; 0: the peer has closed its side.
    #[inline]
    pub(super) fn receive(&mut self, parts: &mut [IoSliceMut<'_>], mode: Mode) -> Result<usize, Errno> {
        self.socket.receive(parts, mode)
    }

    /// Sends as much of `parts` as the connection takes.
    #[inline]
    pub(super) fn send(&mut self, parts: &[IoSlice<'_>], mode: Mode) -> Result<usize, Errno> {
        self.socket.send(parts, mode)
    }
}
