//! Sockets that never block, and the descriptor by which other threads wait for a channel.

use super::error::NbdError;
use super::memory::Batch;
#[cfg(feature = "tls")]
use super::secure::{ClientTls, Encrypted};
use crate::nbd::uri::{Address, Uri};
use platter_block::time::Span;
use platter_wait::{PollFlags, is_ready, wait_ready};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, shutdown, socket_with, sockopt,
};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
#[cfg(feature = "tls")]
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// An address that can be connected to without a look-up, and how the connection is encrypted.
#[derive(Clone, Debug)]
pub(super) struct Place {
    at: At,
    #[cfg(feature = "tls")]
    tls: Option<Arc<ClientTls>>,
}

#[derive(Clone, Debug)]
enum At {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Place {
    /// Whether connections are encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }
}

/// Looks an address up and reads certificates. May block, so it is done once, when a disk is opened.
pub(super) fn resolve(uri: &Uri) -> Result<Vec<Place>, NbdError> {
    #[cfg(not(feature = "tls"))]
    if uri.tls {
        let why = "this program was built without TLS (feature `tls` of platter-remote)";
        return Err(NbdError::Unfit(why.to_owned()));
    }
    #[cfg(feature = "tls")]
    let tls = if uri.tls { Some(Arc::new(ClientTls::load(uri)?)) } else { None };
    let place = |at| Place {
        at,
        #[cfg(feature = "tls")]
        tls: tls.clone(),
    };
    match &uri.address {
        Address::Unix(path) => Ok(vec![place(At::Unix(path.clone()))]),
        Address::Tcp(host, port) => {
            let found = (host.as_str(), *port).to_socket_addrs()?;
            let places: Vec<Place> = found.map(|address| place(At::Tcp(address))).collect();
            if places.is_empty() {
                return Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address").into());
            }
            Ok(places)
        }
    }
}

/// A connected socket, or one that connects.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    /// What was lost with the connection is known.
    ended: AtomicBool,
    /// See [`Socket::is_unclean`].
    unclean: AtomicBool,
    /// Set once the connection is encrypted. Only the thread that drives the connection uses it.
    #[cfg(feature = "tls")]
    tls: OnceLock<Mutex<Encrypted>>,
}

impl Socket {
    /// A socket that is connected, or connects.
    pub(super) fn new(fd: OwnedFd) -> Socket {
        Socket {
            fd,
            ended: AtomicBool::new(false),
            unclean: AtomicBool::new(false),
            #[cfg(feature = "tls")]
            tls: OnceLock::new(),
        }
    }

    /// Begins to connect.
    pub(super) fn connect(place: &Place, peer_timeout: Span) -> io::Result<Socket> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let open = |family| socket_with(family, SocketType::STREAM, flags, None);
        let (fd, result) = match &place.at {
            At::Unix(path) => {
                let address = SocketAddrUnix::new(path)?;
                let fd = open(AddressFamily::UNIX)?;
                let result = connect(&fd, &address);
                (fd, result)
            }
            At::Tcp(address) => {
                let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
                let fd = open(family)?;
                set_options(&fd, peer_timeout)?;
                let result = connect(&fd, address);
                (fd, result)
            }
        };
        match result {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(Socket::new(fd)),
            Err(error) => Err(error.into()),
        }
    }

    /// Encrypts from now on, as `place` says.
    pub(super) fn encrypt(&self, place: &Place) -> Result<(), NbdError> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &place.tls {
            // A connection is encrypted once.
            let _ = self.tls.set(Mutex::new(Encrypted::begin(tls)?));
        }
        let _ = place;
        Ok(())
    }

    #[cfg(feature = "tls")]
    fn encrypted(&self) -> Option<MutexGuard<'_, Encrypted>> {
        self.tls.get().map(|tls| tls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sends as many of `bytes` as the connection takes, without blocking.
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        #[cfg(feature = "tls")]
        if let Some(mut tls) = self.encrypted() {
            return tls.send(self.as_fd(), bytes);
        }
        Ok(send(&self.fd, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?)
    }

    /// Receives without blocking; 0: the server has closed its side.
    pub(super) fn receive(&self, bytes: &mut [u8]) -> io::Result<usize> {
        #[cfg(feature = "tls")]
        if let Some(mut tls) = self.encrypted() {
            return tls.receive(self.as_fd(), bytes);
        }
        Ok(recv(&self.fd, bytes, RecvFlags::DONTWAIT)?.1)
    }

    /// Receives what is encrypted and is not wanted any more.
    pub(super) fn receive_raw(&self, bytes: &mut [u8]) -> Result<usize, Errno> {
        Ok(recv(&self.fd, bytes, RecvFlags::DONTWAIT)?.1)
    }

    /// Sends the list of `batch`, or a part of it, without blocking. The list is empty afterwards.
    pub(super) fn send_batch(&self, batch: &mut Batch) -> io::Result<usize> {
        #[cfg(feature = "tls")]
        if let Some(mut tls) = self.encrypted() {
            return tls.send_batch(self.as_fd(), batch);
        }
        batch.send(self.as_fd())
    }

    /// Receives into the list of `batch`, and what is left into `input`, without blocking. The list is empty afterwards.
    pub(super) fn receive_batch(&self, batch: &mut Batch, input: &mut [u8]) -> io::Result<usize> {
        #[cfg(feature = "tls")]
        if let Some(mut tls) = self.encrypted() {
            return batch.with_input(input, |batch| tls.receive_batch(self.as_fd(), batch));
        }
        batch.receive(self.as_fd(), input)
    }

    /// Whether something that was taken is not on its way yet: [`Socket::push`] sends it.
    pub(super) fn is_behind(&self) -> bool {
        #[cfg(feature = "tls")]
        if let Some(tls) = self.encrypted() {
            return tls.is_behind();
        }
        false
    }

    /// Sends what is behind, without blocking.
    pub(super) fn push(&self) -> io::Result<()> {
        #[cfg(feature = "tls")]
        if let Some(mut tls) = self.encrypted() {
            return tls.push(self.as_fd());
        }
        Ok(())
    }

    /// The result of connecting, as far as it is known.
    pub(super) fn error(&self) -> io::Result<()> {
        Ok(sockopt::socket_error(&self.fd)??)
    }

    /// Tells the server that nothing more will come.
    pub(super) fn end_output(&self) {
        #[cfg(feature = "tls")]
        if let Some(mut tls) = self.encrypted() {
            tls.close(self.as_fd());
        }
        // If the connection is gone already, that is seen when it is read.
        let _ = shutdown(&self.fd, Shutdown::Write);
    }

    /// Whether the server has closed its side, or the connection is broken, as far as it is known now.
    pub(super) fn is_hung_up(&self) -> bool {
        is_ready(&self.fd, PollFlags::RDHUP)
    }

    /// What was lost with the connection is known from now on. Returns whether that is new.
    pub(super) fn note_end(&self) -> bool {
        !self.ended.swap(true, Ordering::SeqCst)
    }

    /// Whether it is known that the connection has ended, so that what was lost with it has been counted. What the server
    /// had answered before may still be received.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Sending has failed. The system reports the error once; afterwards the connection looks as if the server had closed
    /// it.
    pub(super) fn note_error(&self, error: &io::Error) {
        if !is_of_server(error) {
            self.unclean.store(true, Ordering::SeqCst);
        }
    }

    /// Whether the connection has broken in a way that does not tell what the server does: its end is no sign that the
    /// server is done with it.
    pub(super) fn is_unclean(&self) -> bool {
        #[cfg(feature = "tls")]
        if self.encrypted().is_some_and(|tls| tls.error().is_some_and(|error| !is_of_server(&error))) {
            return true;
        }
        self.unclean.load(Ordering::SeqCst)
    }

    /// Blocks until the socket is readable, or writable if `output` is set, or the time has passed.
    pub(super) fn wait(&self, output: bool, timeout: Option<Span>) {
        let flags = if output { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        wait_ready(&self.fd, flags, timeout);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Whether an error of sending says that the server has closed its side, or does not know the connection any more.
fn is_of_server(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPIPE | libc::ECONNRESET))
}

/// The system notices a peer that is gone: data that is not acknowledged for `peer_timeout` breaks the connection, and
/// so does silence to probes of an idle one.
fn set_options(fd: &OwnedFd, peer_timeout: Span) -> io::Result<()> {
    sockopt::set_tcp_nodelay(fd, true)?;
    sockopt::set_socket_keepalive(fd, true)?;
    let probe = Duration::from_nanos(peer_timeout.0 / 4).max(Duration::from_secs(1));
    sockopt::set_tcp_keepidle(fd, probe)?;
    sockopt::set_tcp_keepintvl(fd, probe)?;
    sockopt::set_tcp_keepcnt(fd, 3)?;
    sockopt::set_tcp_user_timeout(fd, u32::try_from(peer_timeout.as_millis()).unwrap_or(u32::MAX))?;
    Ok(())
}
