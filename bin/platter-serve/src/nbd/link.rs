//! The connection as a session uses it: plain, through TLS, or through buffers.

use crate::stream::socket::{Mode, Socket};
use rustix::io::Errno;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

mod staged;
#[cfg(feature = "tls")]
mod tls;

pub(super) struct Link {
    socket: Arc<Socket>,
    staged: Option<Box<staged::Staged>>,
    #[cfg(feature = "tls")]
    tls: Option<tls::Encrypted>,
}

impl Link {
    /// A link without encryption.
    pub(super) fn plain(socket: Arc<Socket>) -> Link {
        Link {
            socket,
            staged: None,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// Encrypts from now on. `limit` is called before each wait for the peer, and fails when its time is over.
    ///
    /// # Errors
    /// A sentence: the peer breaks the protocol, has no certificate that is accepted, or is gone.
    #[cfg(feature = "tls")]
    pub(super) fn encrypt(
        &mut self,
        tls: &crate::tls::Tls,
        limit: impl Fn(&Socket) -> Result<(), String>,
    ) -> Result<(), String> {
        self.tls = Some(tls::Encrypted::begin(tls, &self.socket, limit)?);
        Ok(())
    }

    /// Passes data through buffers from now on, unless the connection is encrypted, which does so anyway.
    pub(super) fn stage(&mut self) {
        #[cfg(feature = "tls")]
        if self.tls.is_some() {
            return;
        }
        self.staged = Some(Box::new(staged::Staged::new()));
    }

    /// Bytes copied to and from these buffers.
    #[inline]
    pub(super) fn copied_bytes(&self) -> u64 {
        self.staged.as_ref().map_or(0, |staged| staged.copied_bytes())
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Receives into `parts`; 0: the peer has closed its side.
    #[inline]
    pub(super) fn receive(&mut self, parts: &mut [IoSliceMut<'_>], mode: Mode) -> Result<usize, Errno> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            return tls.receive(&self.socket, parts, mode);
        }
        match &mut self.staged {
            Some(staged) => staged.receive(&self.socket, parts, mode),
            None => self.socket.receive(parts, mode),
        }
    }

    /// Sends as much of `parts` as the connection takes.
    #[inline]
    pub(super) fn send(&mut self, parts: &[IoSlice<'_>], mode: Mode) -> Result<usize, Errno> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            return tls.send(&self.socket, parts, mode);
        }
        match &mut self.staged {
            Some(staged) => staged.send(&self.socket, parts, mode),
            None => self.socket.send(parts, mode),
        }
    }

    /// Sends all of `bytes`, sleeping as long as the socket's timeout allows for each part.
    pub(super) fn send_all(&mut self, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            let sent = self.send(&[IoSlice::new(bytes)], Mode::Wait)?;
            bytes = &bytes[sent..];
        }
        self.push(Mode::Wait)
    }

    /// Whether bytes that were taken are not on their way yet: [`Link::push`] sends them.
    #[inline]
    pub(super) fn is_behind(&self) -> bool {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return tls.is_behind();
        }
        self.staged.as_ref().is_some_and(|staged| staged.is_behind())
    }

    /// Sends what is behind.
    #[inline]
    pub(super) fn push(&mut self, mode: Mode) -> Result<(), Errno> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            return tls.push(&self.socket, mode);
        }
        match &mut self.staged {
            Some(staged) => staged.push(&self.socket, mode),
            None => Ok(()),
        }
    }

    /// Tells the peer that nothing follows, if the connection is encrypted.
    pub(super) fn close(&mut self) {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            tls.close(&self.socket);
        }
    }
}
