//! The socket of a connection.

use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recvmsg, sendmsg, shutdown,
};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Whether a call may sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Sleep until something happens, at most as long as the timeouts of the socket allow.
    Wait,
    /// Fail with [`Errno::AGAIN`] instead.
    Try,
}

/// A connected socket. The list of clients shares it, to disconnect.
pub(super) struct Socket(OwnedFd);

impl Socket {
    pub(super) fn new(fd: OwnedFd) -> Socket {
        Socket(fd)
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        &self.0
    }

    /// Receives into `parts`; 0: the peer has closed its side.
    #[inline]
    pub(super) fn receive(&self, parts: &mut [IoSliceMut<'_>], mode: Mode) -> Result<usize, Errno> {
        let flags = if mode == Mode::Try { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
        loop {
            match recvmsg(&self.0, parts, &mut RecvAncillaryBuffer::default(), flags) {
                Err(Errno::INTR) => {}
                received => return received.map(|message| message.bytes),
            }
        }
    }

    /// Sends as much of `parts` as the socket takes.
    #[inline]
    pub(super) fn send(&self, parts: &[IoSlice<'_>], mode: Mode) -> Result<usize, Errno> {
        let wait = if mode == Mode::Try { SendFlags::DONTWAIT } else { SendFlags::empty() };
        loop {
            match sendmsg(&self.0, parts, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL | wait) {
                Err(Errno::INTR) => {}
                sent => return sent,
            }
        }
    }

    /// How long sending and receiving in [`Mode::Wait`] sleep at most; `None`: without limit.
    pub(super) fn set_timeouts(
        &self,
        send: Option<Duration>,
        receive: Option<Duration>,
    ) -> Result<(), Errno> {
        sockopt::set_socket_timeout(&self.0, Timeout::Send, send)?;
        sockopt::set_socket_timeout(&self.0, Timeout::Recv, receive)
    }

    /// Ends the connection; a thread that sleeps on it wakes up.
    pub(super) fn disconnect(&self) {
        // Fails only if the peer is gone already.
        let _ = shutdown(&self.0, Shutdown::Both);
    }

    /// What has arrived can still be received; after that the connection looks closed to this side.
    pub(super) fn stop_receiving(&self) {
        let _ = shutdown(&self.0, Shutdown::Read);
    }
}
