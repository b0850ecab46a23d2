//! A server that runs by a configuration and is changed while it runs.
//!
//! A [`Daemon`] opens the devices of a [`Config`], starts its exports, and changes both on request: through the
//! [control socket](crate::control), or when its file is read again. One change runs at a time; reports do not wait for
//! it.
//!
//! Reading the file again carries out what differs between the file as it was read last and now. So devices and
//! exports that were added through the control socket stay. What cannot change while the server runs is refused with a
//! message, and the old stays.

mod changes;
mod health;
pub mod quiet;
mod reload;
pub mod report;

use crate::clients::Clients;
use crate::config::{Config, ConfigErrors, DeviceConfig, ExportConfig};
use crate::error::ServeError;
use crate::served::{Devices, Served};
use crate::server::{ExportInfo, Flush, LEAST_FLUSH, Server};
use crate::state::StateFile;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

pub use reload::Applied;

/// How often requests' ages are counted on.
const TICK: Duration = Duration::from_secs(1);
/// How often a stop looks whether a change has ended.
const SOON: Duration = Duration::from_millis(20);

/// Why a configuration cannot be read or carried out.
#[derive(Clone, Debug)]
pub enum DaemonError {
    /// The text is wrong.
    Config(ConfigErrors),
    /// A device or an export cannot be had.
    Serve(ServeError),
}

impl std::fmt::Display for DaemonError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DaemonError::Config(errors) => errors.fmt(f),
            DaemonError::Serve(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DaemonError {}

impl From<ConfigErrors> for DaemonError {
    fn from(errors: ConfigErrors) -> DaemonError {
        DaemonError::Config(errors)
    }
}

impl From<ServeError> for DaemonError {
    fn from(error: ServeError) -> DaemonError {
        DaemonError::Serve(error)
    }
}

/// A running server with its configuration.
pub struct Daemon {
    started: Instant,
    devices: Arc<Devices>,
    clients: Arc<Clients>,
    /// What is changed by one thread at a time.
    changing: Mutex<Changing>,
    /// As of the last change, for reports during the next one.
    exports: Mutex<Vec<ExportInfo>>,
    specs: Mutex<Vec<DeviceConfig>>,
    times: Mutex<Times>,
    /// The exports with a certificate.
    #[cfg(feature = "tls")]
    encrypting: Mutex<Vec<(String, crate::tls::Tls)>>,
    requests: Mutex<Requests>,
    requested: Condvar,
    state: Mutex<Option<StateFile>>,
}

/// Times of the configuration that may change.
#[derive(Clone, Copy)]
struct Times {
    stop: Duration,
    stall: Duration,
}

struct Changing {
    /// `None`: it has been stopped.
    server: Option<Server>,
    /// As the file was read last.
    config: Config,
    file: Option<PathBuf>,
}

/// What other threads have asked the thread that runs the daemon to do.
#[derive(Clone, Copy, Debug, Default)]
struct Requests {
    stop: Option<Stop>,
}

/// A request to stop the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// How long clients and flushes have.
    pub limit: Duration,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Daemon {
    /// Opens the devices of a configuration and starts its exports. `file` is where the configuration came from, for
    /// [`reload`](Daemon::reload). `prepare` sets up the server before anything is added.
    ///
    /// # Errors
    /// The state file cannot be used; a device cannot be opened or an export not started. What had been started by then is
    /// stopped again.
    pub fn start(
        config: Config,
        file: Option<PathBuf>,
        prepare: impl FnOnce(&mut Server),
    ) -> Result<Arc<Daemon>, DaemonError> {
        let state = config.server.state.as_deref().map(StateFile::open).transpose()?;
        let mut server = Server::with_memory(config.server.clients_max, config.server.memory_max);
        prepare(&mut server);
        let daemon = Arc::new(Daemon {
            started: Instant::now(),
            devices: Arc::clone(server.devices()),
            clients: Arc::clone(server.clients()),
            exports: Mutex::default(),
            specs: Mutex::default(),
            times: Mutex::new(Times { stop: config.server.stop_timeout, stall: config.server.stall_after }),
            #[cfg(feature = "tls")]
            encrypting: Mutex::default(),
            requests: Mutex::default(),
            requested: Condvar::new(),
            state: Mutex::new(state),
            changing: Mutex::new(Changing {
                server: Some(server),
                config: Config { server: config.server.clone(), ..Config::default() },
                file,
            }),
        });
        let waiting = Arc::downgrade(&daemon);
        daemon.clients.set_waker(move || {
            if let Some(daemon) = waiting.upgrade() {
                // Held from the tick to the waiting, so that this comes after it.
                let _requests = lock(&daemon.requests);
                daemon.requested.notify_all();
            }
        });
        if let Err(error) = daemon.begin(&config) {
            // The first error is the one that counts.
            let _ = lock(&daemon.state).take().map_or(Ok(()), StateFile::restore);
            let _ = daemon.stop(Duration::ZERO);
            return Err(error.into());
        }
        Ok(daemon)
    }

    fn begin(&self, config: &Config) -> Result<(), ServeError> {
        let mut changing = lock(&self.changing);
        for device in &config.devices {
            self.open_device(device)?;
            changing.config.devices.push(device.clone());
        }
        for export in &config.exports {
            self.open_export(&mut changing, export)?;
            changing.config.exports.push(export.clone());
        }
        Ok(())
    }

    /// The devices that are served.
    pub fn devices(&self) -> &Arc<Devices> {
        &self.devices
    }

    /// The clients that are connected.
    pub fn clients(&self) -> &Arc<Clients> {
        &self.clients
    }

    /// The exports that run.
    pub fn exports(&self) -> Vec<ExportInfo> {
        lock(&self.exports).clone()
    }

    /// How each device was opened.
    pub fn specs(&self) -> Vec<DeviceConfig> {
        lock(&self.specs).clone()
    }

    /// When it was started.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// The time that clients and flushes have at the end, by the configuration.
    pub fn stop_timeout(&self) -> Duration {
        lock(&self.times).stop
    }

    /// Asks the thread in [`wait`](Daemon::wait) to stop the server. The first request counts.
    pub fn request_stop(&self, limit: Duration) {
        lock(&self.requests).stop.get_or_insert(Stop { limit });
        self.requested.notify_all();
    }

    /// Waits until a stop is requested, at most for `limit`, and counts requests' ages on meanwhile.
    pub fn wait(&self, limit: Duration) -> Option<Stop> {
        let until = Instant::now() + limit;
        let mut requests = lock(&self.requests);
        let mut rests = false;
        loop {
            let now = Instant::now();
            if requests.stop.is_some() || now >= until {
                return requests.stop;
            }
            let left = until.saturating_duration_since(now);
            let span = if rests { left } else { left.min(TICK) };
            requests = self.requested.wait_timeout(requests, span).unwrap_or_else(PoisonError::into_inner).0;
            // After a rest a whole tick passes first: requests that come one at a time wake this thread once in that time.
            rests = !rests && self.clients.tick(Instant::now());
        }
    }

    /// Stops the exports, then flushes the devices. A second call does nothing.
    ///
    /// # Errors
    /// What has not ended within `limit`, or could not be flushed, one sentence each.
    pub fn stop(&self, limit: Duration) -> Result<(), Vec<String>> {
        let until = Instant::now() + limit;
        let server = loop {
            match self.changing.try_lock() {
                Ok(mut changing) => break changing.server.take(),
                Err(TryLockError::Poisoned(error)) => break error.into_inner().server.take(),
                // A change waits for a file or a peer.
                Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(SOON),
                Err(TryLockError::WouldBlock) => return Err(self.stop_without_exports()),
            }
        };
        lock(&self.exports).clear();
        let Some(server) = server else { return Ok(()) };
        let served = self.devices.list();
        let losses: Vec<_> =
            served.iter().map(|served| (served.name().to_owned(), Arc::clone(served.losses()))).collect();
        // The server closes them.
        drop(served);
        server.stop(limit)?;
        let owed = losses.into_iter().filter(|(_, losses)| losses.owes_newcomers()).map(|(name, _)| name);
        // Otherwise its marks stay.
        let state = lock(&self.state).take();
        state.map_or(Ok(()), |state| state.end(owed.collect())).map_err(|error| vec![error.to_string()])
    }

    /// Flushes the devices while a change of the configuration does not end. Returns what is wrong.
    fn stop_without_exports(&self) -> Vec<String> {
        let until = Instant::now() + LEAST_FLUSH;
        let flushes: Vec<_> = self.devices.list().into_iter().filter_map(Flush::begin).collect();
        let failed = flushes.into_iter().filter_map(|flush| flush.finish(until).err());
        std::iter::once("a change of the configuration has not ended".to_owned()).chain(failed).collect()
    }

    /// Stops an export.
    ///
    /// # Errors
    /// There is none of this name; its clients have not ended in time, but it takes no more.
    pub fn remove_export(&self, name: &str) -> Result<(), ServeError> {
        self.close_export(&mut lock(&self.changing), name)
    }

    /// Starts an export.
    ///
    /// # Errors
    /// The name is in use; there is no such kind; the address is wrong, in use or not permitted.
    pub fn add_export(&self, export: &ExportConfig) -> Result<String, ServeError> {
        self.open_export(&mut lock(&self.changing), export)
    }

    /// Opens a device and serves it.
    ///
    /// # Errors
    /// The name is in use; the device cannot be opened; a limit is out of its range.
    pub fn add_device(&self, device: &DeviceConfig) -> Result<(), ServeError> {
        let changing = lock(&self.changing);
        changing.server.as_ref().ok_or_else(stopped)?;
        self.open_device(device)
    }

    /// Serves a device no longer. With `force` its clients are disconnected first. What was written is durable
    /// afterwards.
    ///
    /// # Errors
    /// There is none of this name; it has clients and `force` is not set; it cannot be flushed, and stays.
    pub fn remove_device(&self, name: &str, force: bool) -> Result<(), ServeError> {
        let _changing = lock(&self.changing);
        self.close_device(name, force)
    }
}

impl Daemon {
    /// Makes what was written to a device durable.
    ///
    /// # Errors
    /// The flush failed, or has not ended within `stop_timeout` of the configuration. It still runs then.
    pub fn flush_device(&self, served: &Arc<Served>) -> Result<(), ServeError> {
        let until = Instant::now() + self.stop_timeout();
        let flush = Flush::begin(Arc::clone(served));
        flush.map_or(Ok(()), |flush| flush.finish(until)).map_err(ServeError::system)
    }
}

fn stopped() -> ServeError {
    ServeError::system("the server is stopping")
}
