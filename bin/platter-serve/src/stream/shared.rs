//! What all connections of a server share: the connections that there are, devices and clients.

use super::Protocol;
use super::address::Listener;
use super::socket::Socket;
use crate::clients::{Clients, Connected, Lack, NotTaken};
use crate::events::{Event, Log};
use crate::export::{Options, Start};
use crate::served::{Devices, Served};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Connections that may be negotiating when there are as many clients as allowed: a client that comes too late is
/// told so, and does not wait for the negotiations of others.
const HANDSHAKES: usize = 64;

pub(crate) struct Shared {
    pub(crate) protocol: &'static Protocol,
    pub(crate) devices: Arc<Devices>,
    pub(crate) clients: Arc<Clients>,
    pub(crate) log: Log,
    pub(crate) options: Options,
    pub(crate) listener: Listener,
    pub(crate) stopping: AtomicBool,
    connections: Mutex<Connections>,
    gone: Condvar,
}

#[derive(Default)]
struct Connections {
    list: BTreeMap<u64, Connection>,
    /// Number of connections so far.
    count: u64,
    /// A flood of connections is reported once.
    reported: bool,
}

struct Connection {
    socket: Arc<Socket>,
    peer: String,
    /// The number of the client, once the negotiation is over.
    client: Option<u64>,
}

/// A connection in the list. Dropping it removes the connection, also when its thread panics.
pub(crate) struct Place {
    pub(crate) shared: Arc<Shared>,
    pub(crate) socket: Arc<Socket>,
    pub(crate) peer: String,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        // The list of clients may hold the socket for a while.
        self.socket.close();
        self.shared.lock().list.remove(&self.number);
        self.shared.gone.notify_all();
    }
}

impl Place {
    /// Adds the connection to the clients of a device.
    ///
    /// # Errors
    /// As for [`Clients::connect_to`].
    pub(crate) fn connect(&self, served: &Arc<Served>, peer: &str) -> Result<Connected, NotTaken> {
        let (shared, disconnect) = (&self.shared, Arc::clone(&self.socket));
        let device = (&*shared.devices, served);
        shared.clients.connect_to(device, shared.protocol.kind, peer, move || disconnect.disconnect())
    }

    /// The negotiation is over.
    pub(crate) fn is_client(&self, client: u64) {
        if let Some(entry) = self.shared.lock().list.get_mut(&self.number) {
            entry.client = Some(client);
        }
    }

    pub(crate) fn refuse(&self, why: &str) {
        (self.shared.log)(&Event::Refused { export: self.shared.protocol.kind, peer: &self.peer, why });
    }
}

impl Shared {
    pub(crate) fn new(start: &Start<'_>, listener: Listener, protocol: &'static Protocol) -> Arc<Shared> {
        Arc::new(Shared {
            protocol,
            devices: Arc::clone(&start.devices),
            clients: Arc::clone(&start.clients),
            log: Arc::clone(&start.log),
            options: start.options.clone(),
            listener,
            stopping: AtomicBool::new(false),
            connections: Mutex::default(),
            gone: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Adds a connection. `None`: there are too many, or the server stops.
    pub(crate) fn add(self: &Arc<Shared>, socket: Arc<Socket>, peer: String) -> Option<Place> {
        let most = self.clients.most() + HANDSHAKES;
        let mut connections = self.lock();
        if self.is_stopping() {
            return None;
        }
        if connections.list.len() >= most {
            self.clients.refuse(Lack::Places);
            let reported = std::mem::replace(&mut connections.reported, true);
            drop(connections);
            if !reported {
                let why = &format!("there are {most} connections already; further ones are closed silently");
                (self.log)(&Event::Refused { export: self.protocol.kind, peer: &peer, why });
            }
            return None;
        }
        connections.reported = false;
        connections.count += 1;
        let number = connections.count;
        let entry = Connection { socket: Arc::clone(&socket), peer: peer.clone(), client: None };
        connections.list.insert(number, entry);
        drop(connections);
        Some(Place { shared: Arc::clone(self), socket, peer, number })
    }

    /// Accepts no more connections, and receives nothing more from those that there are, except what was sent before.
    pub(crate) fn begin_stop(&self) {
        let connections = self.lock();
        self.stopping.store(true, Ordering::Relaxed);
        self.listener.close();
        connections.list.values().for_each(|connection| connection.socket.stop_receiving());
    }

    /// Waits until there are no connections.
    ///
    /// # Errors
    /// A sentence about those that are left at `until`. They are disconnected.
    pub(crate) fn await_end(&self, until: Instant) -> Result<(), String> {
        let mut connections = self.lock();
        while !connections.list.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                connections.list.values().for_each(|connection| connection.socket.disconnect());
                return Err(self.stuck(&connections));
            }
            let waited = self.gone.wait_timeout(connections, left);
            connections = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    fn stuck(&self, connections: &Connections) -> String {
        let clients = self.clients.list();
        let one = |connection: &Connection| {
            let client = clients.iter().find(|client| Some(client.id) == connection.client);
            let unanswered = client.map_or(0, |client| client.counts.in_flight.load(Ordering::Relaxed));
            format!("{} ({unanswered} requests unanswered)", connection.peer)
        };
        let all: Vec<String> = connections.list.values().map(one).collect();
        format!(
            "disconnected clients that read no replies or whose device does not answer: {}",
            all.join(", ")
        )
    }
}
