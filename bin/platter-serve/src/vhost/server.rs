//! The export: a socket at which one front end at a time is served.

use super::link::Socket;
use super::session::{Session, Start as SessionStart};
use crate::clients::Clients;
use crate::error::ServeError;
use crate::events::{Event, Log};
use crate::export::{Export, Start};
use crate::served::{Devices, Served};
use crate::unix_socket::UnixSocket;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The name of the export.
pub(super) const KIND: &str = "vhost-user-blk";

/// The form of an address, for help.
pub(super) const FORM: &str = "PATH of a socket for the first device, or NAME=PATH for another one";

/// How long to wait before accepting again when the process has no free descriptor.
const NO_DESCRIPTOR_PAUSE: Duration = Duration::from_millis(50);

struct Shared {
    devices: Arc<Devices>,
    clients: Arc<Clients>,
    log: Log,
    depth: usize,
    handshake_timeout: Duration,
    listener: UnixSocket,
    /// The name of the device; empty: the first one.
    device: String,
    server: u64,
    stopping: AtomicBool,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// The front end that is served.
    session: Option<(Arc<Socket>, String)>,
    has_ended: bool,
}

struct VhostExport {
    address: String,
    shared: Arc<Shared>,
}

/// The name of the device and the path of the socket.
fn parse(address: &str) -> Result<(&str, &Path), ServeError> {
    let (name, path) = match address.split_once('=') {
        Some((name, path)) if !name.contains('/') => (name, path),
        _ => ("", address),
    };
    // As in the addresses of the other exports.
    let path = path.strip_prefix("unix:").unwrap_or(path);
    if path.is_empty() {
        return Err(ServeError::usage(format!("{address:?} is not an address of {KIND}: give {FORM}")));
    }
    Ok((name, Path::new(path)))
}

/// A number that no other process has had, with overwhelming probability.
fn identity() -> u64 {
    let mut bytes = [0; 8];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = clock.map_or(0, |since| since.as_nanos() as u64);
    let random =
        if filled.is_ok() { u64::from_ne_bytes(bytes) } else { nanos ^ u64::from(std::process::id()) };
    random.max(1)
}

/// Starts an export.
pub(super) fn start(start: &Start<'_>) -> Result<Box<dyn Export>, ServeError> {
    let (name, path) = parse(start.address)?;
    if start.devices.find(name).is_none() {
        let message = format!("{:?}: there is no device of the name {name:?}", start.address);
        return Err(ServeError::usage(message));
    }
    let shared = Arc::new(Shared {
        devices: Arc::clone(&start.devices),
        clients: Arc::clone(&start.clients),
        log: Arc::clone(&start.log),
        depth: start.options.depth,
        handshake_timeout: start.options.handshake_timeout,
        listener: UnixSocket::bind(path)?,
        device: name.to_owned(),
        server: identity(),
        stopping: AtomicBool::new(false),
        state: Mutex::default(),
        ended: Condvar::new(),
    });
    let its = Arc::clone(&shared);
    let thread = thread::Builder::new().name("vhost-session".to_owned()).spawn(move || its.serve_all());
    thread.map_err(|error| {
        shared.listener.close();
        ServeError::system(format!("no thread can be started for {}: {error}", start.address))
    })?;
    Ok(Box::new(VhostExport { address: start.address.to_owned(), shared }))
}

/// Marks the export as ended, also after a panic.
struct AtEnd<'a>(&'a Shared);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.ended.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    fn serve_all(&self) {
        let _end = AtEnd(self);
        let mut impaired = false;
        while !self.is_stopping() {
            match self.listener.accept() {
                Ok((fd, peer)) => {
                    impaired = false;
                    self.serve(fd, &peer);
                }
                Err(_) if self.is_stopping() => return,
                Err(error) => {
                    let why = format!("cannot accept connections: {error}");
                    if !std::mem::replace(&mut impaired, true) {
                        (self.log)(&Event::Impaired { export: KIND, why: &why });
                    }
                    if error.kind() != io::ErrorKind::ConnectionAborted {
                        thread::sleep(NO_DESCRIPTOR_PAUSE);
                    }
                }
            }
        }
    }

    fn serve(&self, fd: OwnedFd, peer: &str) {
        let socket = Arc::new(Socket::new(fd, self.handshake_timeout));
        {
            let mut state = self.lock();
            // A stop after this finds the session.
            if self.is_stopping() {
                return;
            }
            state.session = Some((Arc::clone(&socket), peer.to_owned()));
        }
        if let Err(why) = self.serve_session(&socket, peer) {
            (self.log)(&Event::Refused { export: KIND, peer, why: &why });
        }
        self.lock().session = None;
    }

    fn serve_session(&self, socket: &Arc<Socket>, peer: &str) -> Result<(), String> {
        let served: Arc<Served> = self.devices.find(&self.device).ok_or("its device was removed")?;
        let disconnect = Arc::clone(socket);
        // The peer sees the end when the device is done with its requests.
        let device = (&*self.devices, &served);
        let client = self.clients.connect_to(device, KIND, peer, move || disconnect.stop_receiving());
        let client = Arc::new(client.map_err(|why| why.to_string())?);
        let session = Session::new(SessionStart {
            served,
            client: Arc::clone(&client),
            log: Arc::clone(&self.log),
            depth: self.depth,
            socket: Arc::clone(socket),
            server: self.server,
            first_message: self.handshake_timeout,
        })?;
        (self.log)(&Event::Connected(&client));
        let why = session.run(&self.stopping);
        (self.log)(&Event::Disconnected(&client, &why));
        Ok(())
    }
}

impl Export for VhostExport {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn begin_stop(&mut self) {
        let state = self.shared.lock();
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.shared.listener.close();
        if let Some((socket, _)) = &state.session {
            socket.stop_receiving();
        }
    }

    fn finish_stop(&mut self, until: Instant) -> Result<(), String> {
        let mut state = self.shared.lock();
        while !state.has_ended {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let peer = state.session.as_ref().map_or("", |(_, peer)| peer.as_str());
                return Err(format!(
                    "requests of a guest ({peer}) have not ended: its device does not answer"
                ));
            }
            let waited = self.shared.ended.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}

impl Drop for VhostExport {
    fn drop(&mut self) {
        if !self.shared.is_stopping() {
            self.begin_stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_a_device_or_none() {
        let parts = |address: &str| parse(address).map(|(name, path)| (name.to_owned(), path.to_owned()));
        assert_eq!(parts("/run/a=b.sock"), Ok((String::new(), "/run/a=b.sock".into())));
        assert_eq!(parts("disk=/run/a=b.sock"), Ok(("disk".to_owned(), "/run/a=b.sock".into())));
        assert_eq!(parts("unix:/run/a.sock"), Ok((String::new(), "/run/a.sock".into())));
        assert_eq!(parts("a.sock"), Ok((String::new(), "a.sock".into())));
        for wrong in ["", "disk=", "=", "unix:"] {
            assert!(parts(wrong).is_err_and(|error| error.is_usage()), "{wrong}");
        }
    }
}
