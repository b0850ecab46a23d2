//! The socket of a connection.

use platter_wait::EventFd;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recvmsg, sendmsg, shutdown,
};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

/// Whether a call may sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Sleep until something happens, at most as long as the timeouts of the socket allow.
    Wait,
    /// Fail with [`Errno::AGAIN`] instead.
    Try,
}

/// A connected socket. The list of clients shares it, to disconnect.
pub(crate) struct Socket {
    fd: OwnedFd,
    /// The connection is to end.
    cut: AtomicBool,
    /// Readable then; made by a thread that sleeps and does not receive.
    cut_event: OnceLock<Option<EventFd>>,
}

impl Socket {
    pub(crate) fn new(fd: OwnedFd) -> Socket {
        Socket { fd, cut: AtomicBool::new(false), cut_event: OnceLock::new() }
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Receives into `parts`; 0: the peer has closed its side.
    #[inline]
    pub(crate) fn receive(&self, parts: &mut [IoSliceMut<'_>], mode: Mode) -> Result<usize, Errno> {
        let flags = if mode == Mode::Try { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
        loop {
            match recvmsg(&self.fd, parts, &mut RecvAncillaryBuffer::default(), flags) {
                Err(Errno::INTR) => {}
                received => return received.map(|message| message.bytes),
            }
        }
    }

    /// Sends as much of `parts` as the socket takes.
    #[inline]
    pub(crate) fn send(&self, parts: &[IoSlice<'_>], mode: Mode) -> Result<usize, Errno> {
        let wait = if mode == Mode::Try { SendFlags::DONTWAIT } else { SendFlags::empty() };
        loop {
            match sendmsg(&self.fd, parts, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL | wait) {
                Err(Errno::INTR) => {}
                sent => return sent,
            }
        }
    }

    /// How long sending and receiving in [`Mode::Wait`] sleep at most; `None`: without limit.
    pub(crate) fn set_timeouts(
        &self,
        send: Option<Duration>,
        receive: Option<Duration>,
    ) -> Result<(), Errno> {
        sockopt::set_socket_timeout(&self.fd, Timeout::Send, send)?;
        sockopt::set_socket_timeout(&self.fd, Timeout::Recv, receive)
    }

    /// Asks for the end of the connection; its thread wakes up. The peer sees the end when the device has nothing of the
    /// connection any more: until then it must not send a request again.
    pub(crate) fn disconnect(&self) {
        self.cut.store(true, Ordering::SeqCst);
        // Either this finds the event of a thread that is about to sleep, or that thread finds the flag.
        fence(Ordering::SeqCst);
        if let Some(Some(event)) = self.cut_event.get() {
            event.signal();
        }
        self.stop_receiving();
    }

    /// Whether the connection is to end at once.
    #[inline]
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    /// A descriptor that becomes readable when the connection is to end. [`is_cut`](Socket::is_cut) is to be asked after
    /// it. `None`: the process has no free descriptor.
    pub(crate) fn cut_event(&self) -> Option<&EventFd> {
        let event = self.cut_event.get_or_init(|| EventFd::new().ok()).as_ref();
        fence(Ordering::SeqCst);
        event
    }

    /// Ends the connection for the peer.
    pub(crate) fn close(&self) {
        // Fails only if the peer is gone already.
        let _ = shutdown(&self.fd, Shutdown::Both);
    }

    /// What has arrived can still be received; after that the connection looks closed to this side.
    pub(crate) fn stop_receiving(&self) {
        let _ = shutdown(&self.fd, Shutdown::Read);
    }
}
