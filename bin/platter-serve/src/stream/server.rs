//! A running server: the thread that accepts connections, and the threads that serve them.

use super::Protocol;
use super::address::Listener;
use super::shared::Shared;
use super::socket::Socket;
use crate::clients::Lack;
use crate::descriptors::is_of_reserve;
use crate::error::ServeError;
use crate::events::Event;
use crate::export::{Export, Start};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How long to wait before accepting again when the process has no free descriptor.
const NO_DESCRIPTOR_PAUSE: Duration = Duration::from_millis(50);

struct StreamExport {
    address: String,
    shared: Arc<Shared>,
    accepting: Option<thread::JoinHandle<()>>,
}

/// Starts a server.
pub(crate) fn start(
    start: &Start<'_>,
    plaintext_anywhere: bool,
    protocol: &'static Protocol,
) -> Result<Box<dyn Export>, ServeError> {
    let listener = Listener::bind(start.address, plaintext_anywhere, protocol)?;
    let address = absolute(listener.address());
    let shared = Shared::new(start, listener, protocol);
    let server = Arc::clone(&shared);
    let accepting =
        thread::Builder::new().name(format!("{}-accept", protocol.kind)).spawn(move || accept_all(&server));
    let accepting = accepting.map_err(|error| {
        shared.listener.close();
        ServeError::system(format!("no thread can be started for {address}: {error}"))
    })?;
    Ok(Box::new(StreamExport { address, shared, accepting: Some(accepting) }))
}

/// An address of a Unix socket with an absolute path: clients may run in another directory.
fn absolute(address: String) -> String {
    let path = address.strip_prefix("unix:").and_then(|path| std::path::absolute(path).ok());
    path.map_or(address, |path| format!("unix:{}", path.display()))
}

fn accept_all(shared: &Arc<Shared>) {
    let mut impaired = false;
    while !shared.is_stopping() {
        match shared.listener.accept() {
            Ok((fd, peer)) => {
                if is_of_reserve(&fd) {
                    let why = "too few descriptors are left (RLIMIT_NOFILE)";
                    shared.clients.refuse(Lack::Descriptors);
                    (shared.log)(&Event::Refused { export: shared.protocol.kind, peer: &peer, why });
                    continue;
                }
                impaired = false;
                begin(shared, Arc::new(Socket::new(fd)), peer);
            }
            Err(_) if shared.is_stopping() => return,
            Err(error) => {
                let why = format!("cannot accept connections: {error}");
                if matches!(
                    error.raw_os_error().map(Errno::from_raw_os_error),
                    Some(Errno::MFILE | Errno::NFILE)
                ) {
                    shared.clients.refuse(Lack::Descriptors);
                }
                if !std::mem::replace(&mut impaired, true) {
                    (shared.log)(&Event::Impaired { export: shared.protocol.kind, why: &why });
                }
                if error.kind() != io::ErrorKind::ConnectionAborted {
                    thread::sleep(NO_DESCRIPTOR_PAUSE);
                }
            }
        }
    }
}

/// Starts the thread of a connection.
fn begin(shared: &Arc<Shared>, socket: Arc<Socket>, peer: String) {
    let Some(place) = shared.add(socket, peer.clone()) else { return };
    let (run, export) = (shared.protocol.run, shared.protocol.kind);
    let started = thread::Builder::new().name(format!("{export}-client")).spawn(move || run(&place));
    if let Err(error) = started {
        let why = format!("no thread can be started: {error}");
        shared.clients.refuse(Lack::Memory);
        (shared.log)(&Event::Refused { export, peer: &peer, why: &why });
    }
}

impl Export for StreamExport {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn begin_stop(&mut self) {
        self.shared.begin_stop();
    }

    fn finish_stop(&mut self, until: Instant) -> Result<(), String> {
        if let Some(accepting) = self.accepting.take() {
            // It has been woken, and starts no more connections.
            let _ = accepting.join();
        }
        self.shared.await_end(until)
    }
}

impl Drop for StreamExport {
    fn drop(&mut self) {
        if self.accepting.is_some() {
            self.begin_stop();
        }
    }
}
