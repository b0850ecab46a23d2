//! Listening sockets that the process has inherited from a service manager (socket activation, sd_listen_fds(3)).
//!
//! The manager keeps each socket: connections that arrive while no server runs wait in its queue. So closing one here
//! neither shuts it down nor removes its file.

use crate::error::ServeError;
use listenfd::ListenFd;
use platter_wait::EventFd;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_acceptconn;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Begins an address that stands for an inherited socket.
const PREFIX: &str = "systemd";

/// Most sockets that are taken over.
const MOST: usize = 256;

/// What was inherited. Never freed: a socket that one export has given up can be taken by another.
static INHERITED: OnceLock<Vec<Entry>> = OnceLock::new();

struct Entry {
    name: String,
    /// The socket; otherwise a sentence on what is wrong with it.
    socket: Result<Socket, String>,
    taken: Arc<AtomicBool>,
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection.
pub(crate) enum Accepted {
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream),
}

/// Takes over the sockets that LISTEN_FDS, LISTEN_PID and LISTEN_FDNAMES describe, so that the address `systemd:NAME`
/// finds them. It changes the environment: a program calls it once, before it starts threads. Without the call there are
/// none.
pub fn take() {
    INHERITED.get_or_init(read);
}

fn read() -> Vec<Entry> {
    let count = std::env::var("LISTEN_FDS").ok().and_then(|count| count.parse::<usize>().ok());
    // LISTEN_PID says for which process they are: a descendant of that process inherits the variables as well.
    let own = std::env::var("LISTEN_PID").is_ok_and(|pid| pid == std::process::id().to_string());
    if !own || count.is_none_or(|count| count > MOST) {
        return Vec::new();
    }
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut all = ListenFd::from_env();
    (0..all.len())
        .map(|at| {
            let name = names.next().filter(|name| !name.is_empty()).unwrap_or("unknown").to_owned();
            Entry { name, socket: socket(&mut all, at), taken: Arc::default() }
        })
        .collect()
}

fn socket(all: &mut ListenFd, at: usize) -> Result<Socket, String> {
    let socket = match (all.take_unix_listener(at), all.take_tcp_listener(at)) {
        (Ok(Some(unix)), _) => Socket::Unix(unix),
        (_, Ok(Some(tcp))) => Socket::Tcp(tcp),
        _ => return Err("it is neither a TCP socket nor a Unix stream socket".to_owned()),
    };
    let ready = match &socket {
        Socket::Tcp(tcp) => (socket_acceptconn(tcp), tcp.set_nonblocking(true)),
        Socket::Unix(unix) => (socket_acceptconn(unix), unix.set_nonblocking(true)),
    };
    match ready {
        (Ok(true), Ok(())) => Ok(socket),
        (Ok(false), _) => Err("it does not listen; the socket unit must have Accept=no".to_owned()),
        (Err(error), _) => Err(io::Error::from(error).to_string()),
        (_, Err(error)) => Err(error.to_string()),
    }
}

/// An inherited socket in use. Dropping it leaves the socket to the next.
pub(crate) struct Inherited {
    socket: Socket,
    /// An event counter that ends the waiting.
    wake: EventFd,
    closed: AtomicBool,
    taken: Arc<AtomicBool>,
}

impl Drop for Inherited {
    fn drop(&mut self) {
        self.taken.store(false, Ordering::Release);
    }
}

impl Inherited {
    /// The socket that `address` stands for: `systemd:NAME`, or `systemd` for the only one. `None`: it is another kind of
    /// address.
    pub(crate) fn find(address: &str) -> Option<Result<Inherited, ServeError>> {
        let rest = address.strip_prefix(PREFIX)?;
        let name = match rest.strip_prefix(':') {
            Some(name) => Some(name),
            None if rest.is_empty() => None,
            None => return None,
        };
        Some(find(INHERITED.get().map_or(&[][..], Vec::as_slice), name))
    }

    /// Its address in this machine: `IP:PORT` or `unix:PATH`.
    pub(crate) fn address(&self) -> String {
        match &self.socket {
            Socket::Tcp(tcp) => tcp.local_addr().map_or_else(|error| error.to_string(), |at| at.to_string()),
            Socket::Unix(unix) => match unix.local_addr() {
                Ok(at) => {
                    at.as_pathname().map_or("unix".to_owned(), |path| format!("unix:{}", path.display()))
                }
                Err(error) => error.to_string(),
            },
        }
    }

    /// The IP address and port at which it listens; `None`: it is a Unix socket.
    pub(crate) fn host(&self) -> Option<SocketAddr> {
        if let Socket::Tcp(tcp) = &self.socket { tcp.local_addr().ok() } else { None }
    }

    /// Waits for the next connection. Fails once the socket is closed.
    pub(crate) fn accept(&self) -> io::Result<Accepted> {
        loop {
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(&self.wake, PollFlags::IN)];
            match poll(&mut fds, None) {
                Err(Errno::INTR) => continue,
                polled => polled?,
            };
            if self.closed.load(Ordering::Acquire) {
                return Err(io::ErrorKind::NotConnected.into());
            }
            let accepted = match &self.socket {
                Socket::Tcp(tcp) => tcp.accept().map(|(stream, peer)| Accepted::Tcp(stream, peer)),
                Socket::Unix(unix) => unix.accept().map(|(stream, _)| Accepted::Unix(stream)),
            };
            match accepted {
                // The peer has given up, or another process was faster.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                accepted => return accepted,
            }
        }
    }

    /// Ends the waiting in [`Inherited::accept`], which fails from now on.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // It fails only when the counter is full, and then the waiting ends as well.
        self.wake.signal();
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(tcp) => tcp.as_fd(),
            Socket::Unix(unix) => unix.as_fd(),
        }
    }
}

fn find(all: &[Entry], name: Option<&str>) -> Result<Inherited, ServeError> {
    let names = || all.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>().join(", ");
    let entry = match (all, name) {
        ([], _) => {
            let message = "there is no inherited socket: start the server by a socket unit of systemd, which sets \
                           LISTEN_FDS and LISTEN_PID";
            return Err(ServeError::usage(message));
        }
        ([only], None) => only,
        (_, None) => {
            let message =
                format!("there are several inherited sockets: write systemd:NAME with one of {}", names());
            return Err(ServeError::usage(message));
        }
        (_, Some(name)) => {
            let named = || all.iter().filter(move |entry| entry.name == name);
            let free = named().find(|entry| !entry.taken.load(Ordering::Acquire)).or_else(|| named().next());
            free.ok_or_else(|| {
                let message = format!(
                    "there is no inherited socket called {name:?}; there are {} (FileDescriptorName= of the socket unit)",
                    names()
                );
                ServeError::usage(message)
            })?
        }
    };
    entry.open()
}

impl Entry {
    fn open(&self) -> Result<Inherited, ServeError> {
        let name = &self.name;
        let cannot =
            |why: String| ServeError::system(format!("cannot use the inherited socket {name}: {why}"));
        let socket = match &self.socket {
            Err(why) => return Err(cannot(why.clone())),
            Ok(Socket::Tcp(tcp)) => tcp.try_clone().map(Socket::Tcp),
            Ok(Socket::Unix(unix)) => unix.try_clone().map(Socket::Unix),
        };
        let socket = socket.map_err(|error| cannot(error.to_string()))?;
        let wake = EventFd::new().map_err(|error| cannot(error.to_string()))?;
        if self.taken.swap(true, Ordering::AcqRel) {
            return Err(cannot("another export uses it".to_owned()));
        }
        Ok(Inherited { socket, wake, closed: AtomicBool::new(false), taken: Arc::clone(&self.taken) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> Entry {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        tcp.set_nonblocking(true).unwrap();
        Entry { name: name.to_owned(), socket: Ok(Socket::Tcp(tcp)), taken: Arc::default() }
    }

    fn refused(all: &[Entry], name: Option<&str>) -> String {
        find(all, name).err().expect("refused").to_string()
    }

    #[test]
    fn sockets_are_found_by_name_and_used_once_at_a_time() {
        let all = [entry("a"), entry("b")];
        assert!(refused(&[], None).contains("no inherited socket"));
        assert!(refused(&all, None).contains("a, b") && refused(&all, Some("c")).contains("a, b"));
        let first = find(&all, Some("a")).unwrap();
        assert!(refused(&all, Some("a")).contains("another export"));
        drop(first);
        assert!(find(&all, Some("a")).is_ok() && find(&all[1..], None).is_ok());
        let wrong = [Entry { socket: Err("why".to_owned()), ..entry("x") }];
        assert!(refused(&wrong, Some("x")).contains("why"));
        assert!(Inherited::find("systemdx").is_none() && Inherited::find("127.0.0.1:0").is_none());
    }

    #[test]
    fn a_socket_that_was_closed_still_listens() {
        let all = [entry("a")];
        let inherited = find(&all, None).unwrap();
        let at = inherited.host().unwrap();
        let first = TcpStream::connect(at).unwrap();
        assert!(matches!(inherited.accept(), Ok(Accepted::Tcp(..))));
        let closing = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| inherited.accept().is_err());
            inherited.close();
            waiting.join().unwrap()
        });
        assert!(closing && inherited.accept().is_err());
        drop((inherited, first));
        let _waits_for_the_next = TcpStream::connect(at).unwrap();
        assert!(matches!(find(&all, None).unwrap().accept(), Ok(Accepted::Tcp(..))));
    }
}
