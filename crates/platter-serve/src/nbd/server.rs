//! A running NBD server: the thread that accepts, and the connections that there are.

use super::address::Listener;
use super::connection;
use super::socket::Socket;
use crate::clients::Clients;
use crate::error::ServeError;
use crate::events::{Event, Log};
use crate::export::{Export, Options, Start};
use crate::served::Devices;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The name of the export.
pub(super) const KIND: &str = "nbd";

/// Connections that may be negotiating when there are as many clients as allowed: a client that reconnects is told
/// so, and none has to wait for the negotiations of others.
const HANDSHAKES: usize = 64;

/// How long to wait before accepting again when the process has no free descriptor.
const NO_DESCRIPTOR_PAUSE: Duration = Duration::from_millis(50);

/// What all connections of a server share.
pub(super) struct Shared {
    pub(super) devices: Arc<Devices>,
    pub(super) clients: Arc<Clients>,
    pub(super) log: Log,
    pub(super) options: Options,
    pub(super) stopping: AtomicBool,
    connections: Mutex<BTreeMap<u64, Connection>>,
    gone: Condvar,
    next: AtomicU64,
    listener: Listener,
}

struct Connection {
    socket: Arc<Socket>,
    peer: String,
    /// The number of the client, once the negotiation is over.
    client: Option<u64>,
}

impl Shared {
    fn connections(&self) -> MutexGuard<'_, BTreeMap<u64, Connection>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The negotiation of a connection is over. `false`: the server stops.
    pub(super) fn is_client(&self, connection: u64, client: u64) -> bool {
        let mut connections = self.connections();
        if let Some(entry) = connections.get_mut(&connection) {
            entry.client = Some(client);
        }
        !self.stopping.load(Ordering::Relaxed)
    }

    pub(super) fn refuse(&self, peer: &str, why: &str) {
        (self.log)(&Event::Refused { export: KIND, peer, why });
    }

    fn accept_all(self: &Arc<Shared>) {
        let mut impaired = false;
        while !self.stopping.load(Ordering::Relaxed) {
            match self.listener.accept() {
                Ok((fd, peer)) => {
                    impaired = false;
                    self.begin(Arc::new(Socket::new(fd)), peer);
                }
                Err(_) if self.stopping.load(Ordering::Relaxed) => return,
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

    /// Starts the thread of a connection.
    fn begin(self: &Arc<Shared>, socket: Arc<Socket>, peer: String) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let most = self.clients.most() + HANDSHAKES;
        let mut connections = self.connections();
        if self.stopping.load(Ordering::Relaxed) {
            return;
        }
        if connections.len() >= most {
            drop(connections);
            return self.refuse(&peer, &format!("there are {most} connections already"));
        }
        let entry = Connection { socket: Arc::clone(&socket), peer: peer.clone(), client: None };
        connections.insert(number, entry);
        drop(connections);
        let (shared, known) = (Arc::clone(self), peer.clone());
        let work = move || {
            let _leaving = Leaving { shared: &shared, number };
            connection::run(&shared, number, &socket, &known);
        };
        if let Err(error) = thread::Builder::new().name("nbd-client".to_owned()).spawn(work) {
            self.connections().remove(&number);
            self.refuse(&peer, &format!("no thread can be started: {error}"));
        }
    }
}

/// Removes a connection when its thread ends, also by a panic.
struct Leaving<'a> {
    shared: &'a Shared,
    number: u64,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.shared.connections().remove(&self.number);
        self.shared.gone.notify_all();
    }
}

struct NbdExport {
    address: String,
    shared: Arc<Shared>,
    accepting: Option<thread::JoinHandle<()>>,
}

/// Starts a server.
pub(super) fn start(start: &Start<'_>) -> Result<Box<dyn Export>, ServeError> {
    let listener = Listener::bind(start.address, start.options.insecure_plaintext)?;
    let address = listener.address();
    let shared = Arc::new(Shared {
        devices: Arc::clone(&start.devices),
        clients: Arc::clone(&start.clients),
        log: Arc::clone(&start.log),
        options: start.options.clone(),
        stopping: AtomicBool::new(false),
        connections: Mutex::default(),
        gone: Condvar::new(),
        next: AtomicU64::new(1),
        listener,
    });
    let server = Arc::clone(&shared);
    let accepting = thread::Builder::new()
        .name("nbd-accept".to_owned())
        .spawn(move || server.accept_all())
        .map_err(|error| {
        shared.listener.close();
        ServeError::system(format!("no thread can be started for {address}: {error}"))
    })?;
    Ok(Box::new(NbdExport { address, shared, accepting: Some(accepting) }))
}

impl Export for NbdExport {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn begin_stop(&mut self) {
        let connections = self.shared.connections();
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.shared.listener.close();
        for connection in connections.values() {
            match connection.client {
                Some(_) => connection.socket.stop_receiving(),
                None => connection.socket.disconnect(),
            }
        }
    }

    fn finish_stop(&mut self, until: Instant) -> Result<(), String> {
        if let Some(accepting) = self.accepting.take() {
            // It has been woken, and starts no more connections.
            let _ = accepting.join();
        }
        let mut connections = self.shared.connections();
        while !connections.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let stuck = self.stuck(&connections);
                connections.values().for_each(|connection| connection.socket.disconnect());
                return Err(stuck);
            }
            let (guard, _) =
                self.shared.gone.wait_timeout(connections, left).unwrap_or_else(PoisonError::into_inner);
            connections = guard;
        }
        Ok(())
    }
}

impl NbdExport {
    /// A sentence about the connections that are left.
    fn stuck(&self, connections: &BTreeMap<u64, Connection>) -> String {
        let clients = self.shared.clients.list();
        let texts: Vec<String> = connections
            .values()
            .map(|connection| {
                let client = clients.iter().find(|client| Some(client.id) == connection.client);
                let in_flight = client.map_or(0, |client| client.counts.in_flight.load(Ordering::Relaxed));
                format!("{} ({in_flight} requests unanswered)", connection.peer)
            })
            .collect();
        format!(
            "disconnected while it did not read its replies or the device did not answer: {}",
            texts.join(", ")
        )
    }
}

impl Drop for NbdExport {
    fn drop(&mut self) {
        if self.accepting.is_some() {
            self.begin_stop();
        }
    }
}
