//! Sockets that never block, and the descriptor by which other threads wait for a channel.

use crate::nbd::uri::Address;
use platter_block::time::Span;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, connect, shutdown, socket_with, sockopt,
};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

/// An address that can be connected to without a look-up.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// Looks an address up. May block, so it is done once, when a disk is opened.
pub(super) fn resolve(address: &Address) -> io::Result<Vec<Place>> {
    match address {
        Address::Unix(path) => Ok(vec![Place::Unix(path.clone())]),
        Address::Tcp(host, port) => {
            let places: Vec<Place> = (host.as_str(), *port).to_socket_addrs()?.map(Place::Tcp).collect();
            if places.is_empty() {
                return Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
            }
            Ok(places)
        }
    }
}

/// A connected socket, or one that connects.
#[derive(Debug)]
pub(super) struct Socket(OwnedFd);

impl Socket {
    /// Begins to connect.
    pub(super) fn connect(place: &Place, peer_timeout: Span) -> io::Result<Socket> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let open = |family| socket_with(family, SocketType::STREAM, flags, None);
        let (fd, result) = match place {
            Place::Unix(path) => {
                let address = SocketAddrUnix::new(path)?;
                let fd = open(AddressFamily::UNIX)?;
                let result = connect(&fd, &address);
                (fd, result)
            }
            Place::Tcp(address) => {
                let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
                let fd = open(family)?;
                set_options(&fd, peer_timeout)?;
                let result = connect(&fd, address);
                (fd, result)
            }
        };
        match result {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(Socket(fd)),
            Err(error) => Err(error.into()),
        }
    }

    /// The result of connecting, as far as it is known.
    pub(super) fn error(&self) -> io::Result<()> {
        Ok(sockopt::socket_error(&self.0)??)
    }

    /// Tells the server that nothing more will come.
    pub(super) fn end_output(&self) {
        // If the connection is gone already, that is seen when it is read.
        let _ = shutdown(&self.0, Shutdown::Write);
    }

    /// Whether the server has closed its side, or the connection is broken, as far as it is known now.
    pub(super) fn is_hung_up(&self) -> bool {
        let mut fds = [PollFd::new(&self.0, PollFlags::RDHUP)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|count| count > 0)
    }

    /// Blocks until the socket is readable, or writable if `output` is set, or the time has passed.
    pub(super) fn wait(&self, output: bool, timeout: Option<Span>) {
        let flags = if output { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        // An interrupted call ends early, as the caller expects.
        let _ = poll(&mut [PollFd::new(&self.0, flags)], timeout.map(timespec).as_ref());
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
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

pub(super) fn timespec(span: Span) -> Timespec {
    Timespec { tv_sec: (span.0 / 1_000_000_000) as i64, tv_nsec: (span.0 % 1_000_000_000) as i64 }
}

/// A descriptor that is readable when a channel has something to do: its socket, or a bell.
#[derive(Debug)]
pub(super) struct Ears {
    epoll: OwnedFd,
    bell: OwnedFd,
}

impl Ears {
    pub(super) fn new() -> io::Result<Ears> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &bell, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        Ok(Ears { epoll, bell })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Listens to a socket. One that is closed leaves by itself.
    pub(super) fn listen(&self, socket: &Socket, output: bool) {
        let flags = match output {
            true => epoll::EventFlags::IN | epoll::EventFlags::OUT,
            false => epoll::EventFlags::IN,
        };
        let data = epoll::EventData::new_u64(1);
        if epoll::modify(&self.epoll, socket, data, flags).is_err() {
            // It is not in the set yet. Without memory for it threads find out when they next look.
            let _ = epoll::add(&self.epoll, socket, data, flags);
        }
    }

    pub(super) fn ring(&self) {
        // Full means that it is readable.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    pub(super) fn silence(&self) {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }
}
