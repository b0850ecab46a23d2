//! A server: devices, exports and clients.

use crate::clients::Clients;
use crate::error::ServeError;
use crate::events::Log;
use crate::export::{Export, Options, Start};
use crate::served::Devices;
use crate::table;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most clients of a server, unless told otherwise.
pub const MAX_CLIENTS: usize = 1024;

/// Devices, and the exports that serve them.
pub struct Server {
    devices: Arc<Devices>,
    clients: Arc<Clients>,
    exports: Vec<Running>,
    log: Log,
}

struct Running {
    kind: &'static str,
    export: Box<dyn Export>,
}

impl Default for Server {
    fn default() -> Server {
        Server::new(MAX_CLIENTS)
    }
}

impl Server {
    /// A server for at most `clients` clients, without devices and exports.
    pub fn new(clients: usize) -> Server {
        let log: Log = Arc::new(|_| {});
        Server { devices: Arc::default(), clients: Clients::new(clients), exports: Vec::new(), log }
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

    /// Starts an export of the kind `name`. Returns its address.
    ///
    /// # Errors
    /// There is no such kind; the address is wrong, in use or not permitted.
    pub fn start(&mut self, name: &str, address: &str, options: &Options) -> Result<String, ServeError> {
        let Some(row) = table::find(name) else {
            let names: Vec<&str> = table::TABLE.iter().map(|row| row.name).collect();
            let message = format!("there is no export called {name:?}; there are {}", names.join(", "));
            return Err(ServeError::usage(message));
        };
        let (devices, clients) = (Arc::clone(&self.devices), Arc::clone(&self.clients));
        let export = (row.start)(&Start { address, devices, clients, log: Arc::clone(&self.log), options })?;
        let address = export.address();
        self.exports.push(Running { kind: row.name, export });
        Ok(address)
    }

    /// The kind and address of each export.
    pub fn exports(&self) -> Vec<(&'static str, String)> {
        self.exports.iter().map(|running| (running.kind, running.export.address())).collect()
    }

    /// Stops all exports, then flushes all devices. Requests that clients have sent are answered.
    ///
    /// # Errors
    /// What has not ended within `limit`, or could not be flushed, one sentence each. All else has been done.
    pub fn stop(mut self, limit: Duration) -> Result<(), Vec<String>> {
        let until = Instant::now() + limit;
        let mut problems = Vec::new();
        self.exports.iter_mut().for_each(|running| running.export.begin_stop());
        for running in &mut self.exports {
            if let Err(stuck) = running.export.finish_stop(until) {
                problems.push(format!("{} at {}: {stuck}", running.kind, running.export.address()));
            }
        }
        for served in self.devices.list() {
            if served.is_read_only() {
                continue;
            }
            if let Err(error) = served.device().flush() {
                problems.push(format!("cannot flush {}: {error}", served.device().name()));
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}
