//! A server: devices, exports and clients.

use crate::clients::{Clients, MAX_MEMORY};
use crate::error::ServeError;
use crate::events::Log;
use crate::export::{Export, Options, Start};
use crate::served::{Devices, Served};
use crate::table;
use platter_block::text::excerpt;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Most clients of a server, unless told otherwise.
pub const MAX_CLIENTS: usize = 1024;

/// How long flushes have, at least, if exports have taken all of the time.
pub(crate) const LEAST_FLUSH: Duration = Duration::from_secs(5);

/// Longest name in a message, in characters.
const MOST_SHOWN: usize = 60;

/// Devices, and the exports that serve them. One that is dropped stops without waiting: its devices are closed when the last of
/// its connections has ended. [`stop`](Server::stop) waits for that.
pub struct Server {
    devices: Arc<Devices>,
    clients: Arc<Clients>,
    exports: Vec<Running>,
    log: Log,
}

struct Running {
    name: String,
    kind: &'static str,
    export: Box<dyn Export>,
}

/// What operators see of a running export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportInfo {
    /// Its name in the server.
    pub name: String,
    /// Its kind, such as `nbd`.
    pub kind: &'static str,
    /// Where clients reach it.
    pub address: String,
}

impl Default for Server {
    fn default() -> Server {
        Server::new(MAX_CLIENTS)
    }
}

impl Server {
    /// A server for at most `clients` clients, without devices and exports.
    pub fn new(clients: usize) -> Server {
        Server::with_memory(clients, MAX_MEMORY)
    }

    /// The same with a limit of memory for the data of all clients, in bytes. Above it each client has one request at a time.
    pub fn with_memory(clients: usize, bytes: usize) -> Server {
        let log: Log = Arc::new(|_| {});
        let clients = Clients::with_memory(clients, bytes);
        Server { devices: Arc::default(), clients, exports: Vec::new(), log }
    }

    /// Calls `log` for each event of exports that are started from now on.
    pub fn set_log(&mut self, log: Log) {
        self.log = log;
    }

    /// Its devices.
    pub fn devices(&self) -> &Arc<Devices> {
        &self.devices
    }

    /// Its clients.
    pub fn clients(&self) -> &Arc<Clients> {
        &self.clients
    }

    /// Starts an export of a kind under a name made of the kind and a number. Returns its address.
    ///
    /// # Errors
    /// As for [`start_named`](Server::start_named).
    pub fn start(&mut self, kind: &str, address: &str, options: &Options) -> Result<String, ServeError> {
        let free = (1..).map(|number| format!("{kind}{number}")).find(|name| self.position(name).is_none());
        self.start_named(&free.unwrap_or_default(), kind, address, options)
    }

    /// Starts an export of a kind. Returns its address.
    ///
    /// # Errors
    /// There is no such kind; an export has this name; the address is wrong, in use or not permitted.
    pub fn start_named(
        &mut self,
        name: &str,
        kind: &str,
        address: &str,
        options: &Options,
    ) -> Result<String, ServeError> {
        let row = table::find(kind).ok_or_else(|| no_kind(kind))?;
        if self.position(name).is_some() {
            return Err(ServeError::usage(format!("there is already an export of the name {name:?}")));
        }
        let (devices, clients) = (Arc::clone(&self.devices), Arc::clone(&self.clients));
        let export = (row.start)(&Start { address, devices, clients, log: Arc::clone(&self.log), options })?;
        let address = export.address();
        self.exports.push(Running { name: name.to_owned(), kind: row.name, export });
        Ok(address)
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.exports.iter().position(|running| running.name == name)
    }

    /// All exports, in the order in which they were started.
    pub fn exports(&self) -> Vec<ExportInfo> {
        let info = |running: &Running| ExportInfo {
            name: running.name.clone(),
            kind: running.kind,
            address: running.export.address(),
        };
        self.exports.iter().map(info).collect()
    }

    /// Stops an export. Requests that its clients have sent are answered.
    ///
    /// # Errors
    /// There is none of this name; it has not ended within `limit`, but takes no more clients.
    pub fn stop_export(&mut self, name: &str, limit: Duration) -> Result<(), ServeError> {
        let Some(at) = self.position(name) else {
            let names: Vec<&str> = self.exports.iter().map(|running| running.name.as_str()).collect();
            let name = excerpt(name, MOST_SHOWN);
            let message = format!("there is no export called {name:?}; {}", there_are(&names));
            return Err(ServeError::usage(message));
        };
        let mut running = self.exports.remove(at);
        running.export.begin_stop();
        running.finish(Instant::now() + limit).map_err(ServeError::system)
    }

    /// Stops all exports, then flushes all devices and lets go of them. Requests that clients have sent are answered.
    ///
    /// # Errors
    /// What has not ended within `limit`, or could not be flushed, one sentence each. All else has been done. A flush
    /// that has not ended still runs, in a thread of its own. If an export has not ended in time, flushes have five seconds
    /// beyond it, because its device may be the only one that does not answer.
    pub fn stop(mut self, limit: Duration) -> Result<(), Vec<String>> {
        let until = Instant::now() + limit;
        let mut problems = Vec::new();
        self.exports.iter_mut().for_each(|running| running.export.begin_stop());
        for running in &mut self.exports {
            problems.extend(running.finish(until).err());
        }
        let flushed_by = match problems.is_empty() {
            true => until,
            false => until.max(Instant::now() + LEAST_FLUSH),
        };
        let flushes: Vec<_> = self.devices.list().into_iter().filter_map(Flush::begin).collect();
        problems.extend(flushes.into_iter().filter_map(|flush| flush.finish(flushed_by).err()));
        // Threads of connections may have ended and not yet let go of the list. The devices are closed here, unless what is
        // stuck uses them.
        self.devices.clear();
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

/// A clause that says which names there are.
pub(crate) fn there_are(names: &[&str]) -> String {
    let shown: Vec<&str> =
        names.iter().map(|name| if name.is_empty() { "\"\" (without a name)" } else { name }).collect();
    match shown[..] {
        [] => "there is none".to_owned(),
        [one] => format!("the only one is {one}"),
        _ => format!("there are {}", shown.join(", ")),
    }
}

fn no_kind(kind: &str) -> ServeError {
    let names: Vec<&str> = table::TABLE.iter().map(|row| row.name).collect();
    ServeError::usage(format!("there is no export called {kind:?}; there are {}", names.join(", ")))
}

impl Running {
    fn finish(&mut self, until: Instant) -> Result<(), String> {
        let stuck = self.export.finish_stop(until);
        stuck.map_err(|stuck| format!("{} at {}: {stuck}", self.kind, self.export.address()))
    }
}

/// A flush of a device with a deadline.
pub(crate) struct Flush {
    served: Arc<Served>,
    result: mpsc::Receiver<Result<(), String>>,
}

impl Flush {
    /// Begins it in a thread of its own, because the caller must not wait for a disk that does not answer. `None`: the
    /// device is read-only.
    pub(crate) fn begin(served: Arc<Served>) -> Option<Flush> {
        if served.is_read_only() {
            return None;
        }
        let (send, result) = mpsc::channel();
        let device = served.device().clone();
        let losses = Arc::clone(served.losses());
        let flush = move || {
            let told = device.flush().map_err(|error| {
                losses.own_flush_failed(&device, &error.to_string());
                format!("cannot flush {}: {error}", device.name())
            });
            // The caller may be the last other owner, which expects the device to be closed when it lets go of it.
            drop(device);
            // The receiver is gone after the deadline.
            let _ = send.send(told);
        };
        if let Err(error) = std::thread::Builder::new().name("platter-flush".to_owned()).spawn(flush) {
            let (send, result) = mpsc::channel();
            let _ = send.send(Err(format!("cannot flush {}: no thread: {error}", served.device().name())));
            return Some(Flush { served, result });
        }
        Some(Flush { served, result })
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It failed, or has not ended by `until`.
    pub(crate) fn finish(self, until: Instant) -> Result<(), String> {
        let left = until.saturating_duration_since(Instant::now());
        match self.result.recv_timeout(left) {
            Ok(result) => result,
            Err(_) => {
                let gauges = self.served.device().statistics().gauges;
                let name = self.served.device().name();
                let wait = format!(
                    "{} requests are with the disk, {} wait",
                    gauges.in_flight,
                    gauges.queued + gauges.held
                );
                Err(format!("the flush of {name} has not ended: {wait}"))
            }
        }
    }
}
