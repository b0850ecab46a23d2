//! Addresses of servers, and the sockets that listen at them.

use super::Protocol;
use crate::error::ServeError;
use crate::inherited::{Accepted, Inherited};
use crate::unix_socket::{self, UnixSocket};
use rustix::net::{Shutdown, shutdown, sockopt};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// The form of an address, for help.
pub(crate) const FORM: &str = "HOST:PORT with a numeric HOST ([::1] for IPv6; port 0: any), unix:PATH, or systemd:NAME for an inherited socket";

/// How long an idle TCP connection is left alone before the kernel asks whether the peer is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 6;

/// Buffers of a Unix socket in the kernel, in each direction: a few large requests.
const UNIX_BUFFER_BYTES: usize = 1 << 20;

/// A socket that listens.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixSocket),
    /// One that a service manager keeps.
    Inherited(Inherited),
}

impl Listener {
    /// Listens at `address`. `plaintext_anywhere`: also at addresses that other hosts reach.
    pub(crate) fn bind(
        address: &str,
        plaintext_anywhere: bool,
        protocol: &Protocol,
    ) -> Result<Listener, ServeError> {
        if let Some(path) = address.strip_prefix("unix:") {
            if path.is_empty() {
                return Err(ServeError::usage(format!(
                    "unix: needs a path; an address of {} is {FORM}",
                    protocol.name
                )));
            }
            return Ok(Listener::Unix(UnixSocket::bind(Path::new(path))?));
        }
        if let Some(found) = Inherited::find(address) {
            let inherited = found?;
            if let Some(socket) = inherited.host().filter(|_| !plaintext_anywhere) {
                check_loopback(socket, protocol)?;
            }
            return Ok(Listener::Inherited(inherited));
        }
        let wrong = || {
            let name = protocol.name;
            ServeError::usage(format!("{address:?} is not an address of {name}: give {FORM}"))
        };
        let socket: SocketAddr = address.parse().map_err(|_| wrong())?;
        if !plaintext_anywhere {
            check_loopback(socket, protocol)?;
        }
        let listener = TcpListener::bind(socket)
            .map_err(|error| ServeError::system(format!("cannot listen at {address}: {error}")))?;
        Ok(Listener::Tcp(listener))
    }

    /// Where it listens, with a port that the system chose.
    pub(crate) fn address(&self) -> String {
        match self {
            Listener::Tcp(listener) => {
                listener.local_addr().map_or_else(|error| error.to_string(), |address| address.to_string())
            }
            Listener::Unix(socket) => format!("unix:{}", socket.path().display()),
            Listener::Inherited(inherited) => inherited.address(),
        }
    }

    /// Waits for the next connection: its socket, and the peer's address.
    pub(crate) fn accept(&self) -> io::Result<(OwnedFd, String)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                Ok(from_tcp(stream, peer))
            }
            Listener::Inherited(inherited) => Ok(match inherited.accept()? {
                Accepted::Tcp(stream, peer) => from_tcp(stream, peer),
                Accepted::Unix(stream) => {
                    enlarge(&stream);
                    let peer = unix_socket::peer(&stream);
                    (stream.into(), peer)
                }
            }),
            Listener::Unix(socket) => {
                let (stream, peer) = socket.accept()?;
                enlarge(&stream);
                Ok((stream, peer))
            }
        }
    }

    /// Ends the waiting in [`Listener::accept`], which fails from now on, and removes the file of the socket.
    pub(crate) fn close(&self) {
        match self {
            Listener::Inherited(inherited) => inherited.close(),
            Listener::Tcp(listener) => {
                // A listening socket that is shut down fails its accept(2); nothing is left to report.
                let _ = shutdown(listener, Shutdown::Both);
            }
            Listener::Unix(socket) => socket.close(),
        }
    }
}

/// A connection over TCP: its socket, and the peer's address.
fn from_tcp(stream: TcpStream, peer: SocketAddr) -> (OwnedFd, String) {
    prepare(&stream);
    (stream.into(), peer.to_string())
}

/// More data on its way means fewer wake-ups. The system limits the sizes; TCP finds them itself.
fn enlarge(stream: &impl AsFd) {
    let _ = sockopt::set_socket_send_buffer_size(stream, UNIX_BUFFER_BYTES);
    let _ = sockopt::set_socket_recv_buffer_size(stream, UNIX_BUFFER_BYTES);
}

/// Refuses an address that other hosts reach.
fn check_loopback(socket: SocketAddr, protocol: &Protocol) -> Result<(), ServeError> {
    if is_loopback(socket.ip()) {
        return Ok(());
    }
    Err(ServeError::usage(format!(
        "{socket} can be reached by other hosts, and {}, give a loopback address or unix:PATH, or permit it with \
         --insecure-plaintext",
        protocol.exposed
    )))
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// Replies are sent at once, and a peer that has vanished is noticed. The connection works without these options.
fn prepare(stream: &std::net::TcpStream) {
    let _ = sockopt::set_tcp_nodelay(stream, true);
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE);
    let _ = sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL);
    let _ = sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(address: &str) -> ServeError {
        Listener::bind(address, false, &crate::nbd::PROTOCOL).err().expect("refused")
    }

    #[test]
    fn addresses_are_checked_before_anything_listens() {
        for wrong in [
            "",
            "localhost:10809",
            "127.0.0.1",
            "10809",
            "unix:",
            "[::1]",
            "127.0.0.1:99999",
            "systemd",
            "systemd:a",
        ] {
            assert!(refused(wrong).is_usage(), "{wrong}");
        }
        let other = refused("0.0.0.0:0");
        assert!(other.is_usage() && other.to_string().contains("--insecure-plaintext"), "{other}");
        assert!(refused("[::]:0").is_usage());
        let listener = Listener::bind("127.0.0.1:0", false, &crate::nbd::PROTOCOL).unwrap();
        assert!(!listener.address().ends_with(":0"), "{}", listener.address());
        assert!(
            Listener::bind(&listener.address(), false, &crate::nbd::PROTOCOL)
                .is_err_and(|error| !error.is_usage())
        );
    }
}
