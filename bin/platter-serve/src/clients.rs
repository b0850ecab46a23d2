//! The clients of a server: what operators see of them, and how they are disconnected.

use crate::age::{Ages, Mark, Ticker};
use crate::buffers::Budget;
use crate::served::{Devices, Served};
use platter_block::bio::Op;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Most memory for the data of all clients, in bytes, unless told otherwise.
pub const MAX_MEMORY: usize = 1 << 30;

/// What a client has done. Each count is written by the threads of one client and may be read at any time.
#[derive(Default)]
pub struct Counts {
    /// Reads completed.
    pub reads: AtomicU64,
    /// Bytes read.
    pub read_bytes: AtomicU64,
    /// Writes completed.
    pub writes: AtomicU64,
    /// Bytes written.
    pub written_bytes: AtomicU64,
    /// Flushes completed.
    pub flushes: AtomicU64,
    /// Discards and write-zeroes completed.
    pub discards: AtomicU64,
    /// Requests that were answered with an error.
    pub errors: AtomicU64,
    /// Bytes of payload that the server has copied between its own buffers (NBD), without those of the TLS library.
    pub copied_bytes: AtomicU64,
    /// Requests that have not been answered.
    pub in_flight: AtomicU64,
}

/// Adds to a count.
pub(crate) fn add(count: &AtomicU64, by: u64) {
    count.fetch_add(by, Ordering::Relaxed);
}

/// Adds to a count that only this thread writes, which saves an atomic addition.
pub(crate) fn add_alone(count: &AtomicU64, by: u64) {
    count.store(count.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

impl Counts {
    /// A request has succeeded. `bytes`: those read or written; `add`: [`add`] or [`add_alone`].
    #[inline]
    pub(crate) fn completed(&self, op: Op, bytes: u64, add: impl Fn(&AtomicU64, u64)) {
        match op {
            Op::Read => {
                add(&self.reads, 1);
                add(&self.read_bytes, bytes);
            }
            Op::Write => {
                add(&self.writes, 1);
                add(&self.written_bytes, bytes);
            }
            Op::Flush => add(&self.flushes, 1),
            _ => add(&self.discards, 1),
        }
    }
}

/// A connected client.
pub struct Client {
    /// Its number, unique in the server.
    pub id: u64,
    /// The kind of export through which it came, such as `nbd`.
    pub export: &'static str,
    /// The name of the device that it uses.
    pub device: String,
    /// Its address, or what is known of it.
    pub peer: String,
    /// Since when.
    pub since: Instant,
    /// What it has done.
    pub counts: Counts,
    ages: Ages,
    /// Of the requests that have arrived, those that have not been admitted.
    waiting: Arc<AtomicU32>,
    ticker: Arc<Ticker>,
    memory: Arc<Budget>,
    disconnect: Box<dyn Fn() + Send + Sync>,
}

impl Client {
    /// Ends the connection. Requests that a driver has taken still run.
    pub fn disconnect(&self) {
        (self.disconnect)();
    }

    /// What the memory for its data is a part of.
    pub(crate) fn memory(&self) -> &Arc<Budget> {
        &self.memory
    }

    /// Counts a request that has arrived, for [`oldest`](Client::oldest).
    #[inline]
    pub fn begin(&self) -> Mark {
        self.ages.begin(&self.ticker)
    }

    /// A request has been answered.
    #[inline]
    pub fn end(&self, mark: Mark) {
        self.ages.end(mark);
    }

    /// The age of the oldest request that has not been answered, to about a second; `None`: all have been.
    pub fn oldest(&self, now: Instant) -> Option<Duration> {
        self.ages.oldest(&self.ticker, now)
    }

    /// For a queue of requests, which tells the client how many of them wait to be admitted.
    pub(crate) fn waiting(&self) -> Waiting {
        Waiting { all: Arc::clone(&self.waiting), here: 0 }
    }

    /// How many requests have been admitted and not answered. While the client's share admits nothing it is never too
    /// small, but for requests of a queue that ends.
    #[cfg(any(feature = "daemon", test))]
    pub(crate) fn admitted(&self) -> u32 {
        // In this order: a request that arrives meanwhile and waits is counted too often, not too rarely.
        let waiting = self.waiting.load(Ordering::Acquire);
        self.ages.unanswered().saturating_sub(waiting)
    }
}

/// How many requests of one queue have arrived and wait to be admitted. Dropping it counts none.
pub(crate) struct Waiting {
    all: Arc<AtomicU32>,
    here: u32,
}

impl Waiting {
    /// So many wait, of those that [`Client::begin`] has counted.
    #[inline]
    pub(crate) fn set(&mut self, count: u32) {
        if count != self.here {
            // The difference may be negative, and wraps around to the right sum.
            self.all.fetch_add(count.wrapping_sub(self.here), Ordering::Release);
            self.here = count;
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// The clients of a server.
pub struct Clients {
    most: usize,
    next: AtomicU64,
    ticker: Arc<Ticker>,
    memory: Arc<Budget>,
    refused: Mutex<Refused>,
    list: Mutex<BTreeMap<u64, Arc<Client>>>,
}

/// How many clients were refused since the server was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// There were as many as allowed.
    pub full: u64,
    /// There were too few descriptors.
    pub descriptors: u64,
    /// There was no memory, or no thread.
    pub memory: u64,
    /// When it happened last.
    pub last: Option<Instant>,
}

/// What a client was refused for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    Places,
    Descriptors,
    Memory,
}

/// Why a client was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// The server has this many clients, which is its limit.
    Full(usize),
    /// Its device was removed after it had chosen it.
    Removed,
}

impl fmt::Display for NotTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotTaken::Full(most) => write!(f, "there are {most} clients, as many as allowed"),
            NotTaken::Removed => f.write_str("its device was removed"),
        }
    }
}

/// A client as its export holds it. Dropping it removes the client from the list.
pub struct Connected {
    clients: Arc<Clients>,
    client: Arc<Client>,
}

impl Connected {
    /// A reference that may outlive it.
    pub(crate) fn shared(&self) -> Arc<Client> {
        Arc::clone(&self.client)
    }
}

impl std::ops::Deref for Connected {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        let mut list = self.clients.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.remove(&self.client.id);
    }
}

impl Clients {
    /// No clients, and room for `most`.
    pub fn new(most: usize) -> Arc<Clients> {
        Clients::with_memory(most, MAX_MEMORY)
    }

    /// No clients, and room for `most`, whose data takes at most `bytes` of memory, and beyond it one request of each.
    pub fn with_memory(most: usize, bytes: usize) -> Arc<Clients> {
        Arc::new(Clients {
            most,
            next: AtomicU64::new(1),
            ticker: Arc::default(),
            memory: Budget::new(bytes),
            refused: Mutex::default(),
            list: Mutex::default(),
        })
    }

    /// The memory for the data of all clients.
    pub(crate) fn memory(&self) -> &Arc<Budget> {
        &self.memory
    }

    /// Bytes of memory that the data of all clients takes.
    pub fn memory_bytes(&self) -> usize {
        self.memory.used_bytes()
    }

    /// Counts a client that was refused.
    pub(crate) fn refuse(&self, lack: Lack) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let count = match lack {
            Lack::Places => &mut refused.full,
            Lack::Descriptors => &mut refused.descriptors,
            Lack::Memory => &mut refused.memory,
        };
        *count += 1;
        refused.last = Some(Instant::now());
    }

    /// The clients that were refused.
    pub fn refused(&self) -> Refused {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a client. `disconnect` ends its connection when an operator asks for it. `None`: there are as many as the
    /// server takes.
    pub fn connect(
        self: &Arc<Clients>,
        export: &'static str,
        device: &str,
        peer: &str,
        disconnect: impl Fn() + Send + Sync + 'static,
    ) -> Option<Connected> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() >= self.most {
            self.refuse(Lack::Places);
            return None;
        }
        let client = Arc::new(Client {
            id: self.next.fetch_add(1, Ordering::Relaxed),
            export,
            device: device.to_owned(),
            peer: peer.to_owned(),
            since: Instant::now(),
            counts: Counts::default(),
            ages: Ages::default(),
            waiting: Arc::default(),
            ticker: Arc::clone(&self.ticker),
            memory: Arc::clone(&self.memory),
            disconnect: Box::new(disconnect),
        });
        list.insert(client.id, Arc::clone(&client));
        Some(Connected { clients: Arc::clone(self), client })
    }

    /// Adds a client of a device, as [`connect`](Clients::connect) does, if the device is still served.
    ///
    /// # Errors
    /// There are as many clients as the server takes, or the device was removed.
    pub(crate) fn connect_to(
        self: &Arc<Clients>,
        (devices, served): (&Devices, &Arc<Served>),
        export: &'static str,
        peer: &str,
        disconnect: impl Fn() + Send + Sync + 'static,
    ) -> Result<Connected, NotTaken> {
        let client = self.connect(export, served.name(), peer, disconnect);
        let client = client.ok_or(NotTaken::Full(self.most))?;
        // In this order: a removal takes the device out of its list first and then looks for clients. Either it finds this
        // one, or this finds the device gone.
        match devices.has(served) {
            true => Ok(client),
            false => Err(NotTaken::Removed),
        }
    }

    /// Sets what is called when a request arrives after [`tick`](Clients::tick) has returned true.
    pub fn set_waker(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.ticker.set_waker(wake);
    }

    /// Advances the time by which requests' ages are told. Called about once a second, by one thread. Returns true if no
    /// request is unanswered; then the next call is due a second after the waker has been called.
    pub fn tick(&self, now: Instant) -> bool {
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        self.ticker.tick(now, list.values().map(|client| &client.ages))
    }

    /// The most that there may be.
    pub fn most(&self) -> usize {
        self.most
    }

    /// The client of this number.
    pub fn find(&self, id: u64) -> Option<Arc<Client>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// All clients, oldest first.
    pub fn list(&self) -> Vec<Arc<Client>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_disk::device::Device;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn clients_are_bounded_listed_and_removed() {
        let clients = Clients::new(2);
        let asked = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&asked);
        let first =
            clients.connect("nbd", "a", "peer 1", move || flag.store(true, Ordering::Relaxed)).unwrap();
        let second = clients.connect("nbd", "a", "peer 2", || {}).unwrap();
        assert_eq!(clients.refused(), Refused::default());
        assert!(clients.connect("nbd", "a", "peer 3", || {}).is_none());
        assert_eq!(clients.refused().full, 1);
        assert_eq!(clients.list().len(), 2);
        clients.list()[0].disconnect();
        assert!(asked.load(Ordering::Relaxed));
        drop(first);
        assert_eq!(clients.list()[0].id, second.id);
    }

    #[test]
    fn a_device_that_was_removed_gets_no_clients() {
        let (clients, devices) = (Clients::new(1), Devices::default());
        let add = || devices.add(Served::new("a", Device::ram(1 << 20).unwrap()).unwrap()).unwrap();
        let connect = |served: &Arc<Served>| clients.connect_to((&devices, served), "nbd", "peer", || {});
        add();
        let served = devices.find("a").unwrap();
        let client = connect(&served).ok().unwrap();
        assert_eq!(connect(&served).err(), Some(NotTaken::Full(1)));
        drop(client);
        devices.remove("a").unwrap();
        assert_eq!(connect(&served).err(), Some(NotTaken::Removed));
        // Another one of the same name is not the one that was chosen.
        add();
        assert_eq!(connect(&served).err(), Some(NotTaken::Removed));
        assert!(clients.list().is_empty());
        assert!(connect(&devices.find("a").unwrap()).is_ok());
    }

    #[test]
    fn requests_that_wait_are_not_admitted() {
        let clients = Clients::new(1);
        let client = clients.connect("nbd", "a", "peer", || {}).unwrap();
        let (mut one, mut other) = (client.waiting(), client.waiting());
        let marks = [(); 4].map(|()| client.begin());
        assert_eq!(client.admitted(), 4);
        one.set(2);
        other.set(1);
        assert_eq!(client.admitted(), 1);
        one.set(1);
        assert_eq!(client.admitted(), 2);
        drop(one);
        marks.into_iter().for_each(|mark| client.end(mark));
        assert_eq!(client.admitted(), 0, "a queue that has not said yet that none wait");
    }
}
