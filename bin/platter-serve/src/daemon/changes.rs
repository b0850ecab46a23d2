//! Devices and exports, added and removed.

use super::{Changing, Daemon, lock, stopped};
use crate::config::{DeviceConfig, ExportConfig};
use crate::error::ServeError;
use crate::export::Options;
use crate::restart::Past;
use crate::served::Served;
use crate::server::{Flush, there_are};
use platter::registry::{self, Access};
use platter::spec::conceal;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often it is looked whether disconnected clients are gone.
const LOOK: Duration = Duration::from_millis(10);

impl Daemon {
    pub(super) fn open_device(&self, config: &DeviceConfig) -> Result<(), ServeError> {
        let name = &config.name;
        let known = self.devices.list().iter().any(|served| served.name() == name);
        if known {
            // Before it is opened: the file may be locked by the device that is there.
            return Err(ServeError::usage(format!("there is already a device of the name {name:?}")));
        }
        let access = Access {
            write: !config.read_only,
            force: config.force,
            served: true,
            allow_in_use: config.allow_in_use,
            ..Access::default()
        };
        let device = registry::open(&config.spec, access).map_err(|error| {
            // A device without a name is the only one.
            let message = if name.is_empty() { error.to_string() } else { format!("device {name}: {error}") };
            if error.is_usage() { ServeError::usage(message) } else { ServeError::system(message) }
        })?;
        let mut served = Served::new(name, device)?;
        if config.read_only {
            served = served.read_only();
        }
        if let Some(text) = &config.description {
            served = served.description(&conceal(text));
        }
        let of_device = |error| ServeError::usage(format!("device {name}: {error}"));
        served.qos().set_device(config.limits).map_err(of_device)?;
        served.qos().set_default(config.client_limits).map_err(of_device)?;
        if let Some(state) = &mut *lock(&self.state) {
            let holds = !served.is_read_only() && served.device().backend().holds_unflushed();
            let past = state.past(name, holds);
            state.mark(name, holds || past == Past::Lost)?;
            served = served.after(past);
        }
        self.devices.add(served)?;
        lock(&self.specs).push(config.clone());
        Ok(())
    }

    pub(super) fn close_device(&self, name: &str, force: bool) -> Result<(), ServeError> {
        let list = self.devices.list();
        let Some(served) = list.iter().find(|served| served.name() == name) else {
            let names: Vec<&str> = list.iter().map(|served| served.name()).collect();
            return Err(ServeError::usage(format!(
                "there is no device called {name:?}; {}",
                there_are(&names)
            )));
        };
        let clients = self.clients_of(name);
        if clients > 0 && !force {
            return Err(ServeError::system(format!(
                "the device {name} is in use (clients: {clients}); disconnect them first, or remove it with force"
            )));
        }
        let until = Instant::now() + self.stop_timeout();
        // From now on it has no more clients.
        let served = self.devices.remove(name).unwrap_or_else(|| Arc::clone(served));
        let ended = self.disconnect_all(name, until).and_then(|()| match Flush::begin(Arc::clone(&served)) {
            Some(flush) => flush.finish(until).map_err(ServeError::system),
            None => Ok(()),
        });
        if let Err(error) = ended {
            self.devices.put_back(served);
            return Err(error);
        }
        lock(&self.specs).retain(|spec| spec.name != name);
        lock(&self.state).as_mut().map_or(Ok(()), |state| state.mark(name, false))
    }

    fn clients_of(&self, device: &str) -> usize {
        self.clients.list().iter().filter(|client| client.device == device).count()
    }

    fn disconnect_all(&self, device: &str, until: Instant) -> Result<(), ServeError> {
        loop {
            let list = self.clients.list();
            let left: Vec<_> = list.iter().filter(|client| client.device == device).collect();
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() >= until {
                let message = format!("{} clients of the device {device} have not ended in time", left.len());
                return Err(ServeError::system(message));
            }
            left.iter().for_each(|client| client.disconnect());
            std::thread::sleep(LOOK);
        }
    }

    pub(super) fn open_export(
        &self,
        changing: &mut Changing,
        config: &ExportConfig,
    ) -> Result<String, ServeError> {
        let options = Options {
            insecure_plaintext: changing.config.server.insecure_plaintext,
            ..config.options.clone()
        };
        let server = changing.server.as_mut().ok_or_else(stopped)?;
        let address =
            server.start_named(&config.name, &config.kind, &config.address, &options).map_err(|error| {
                let message = format!("export {}: {error}", config.name);
                if error.is_usage() { ServeError::usage(message) } else { ServeError::system(message) }
            })?;
        *lock(&self.exports) = server.exports();
        #[cfg(feature = "tls")]
        if let Some(tls) = options.tls {
            lock(&self.encrypting).push((config.name.clone(), tls));
        }
        Ok(address)
    }

    pub(super) fn close_export(&self, changing: &mut Changing, name: &str) -> Result<(), ServeError> {
        let limit = self.stop_timeout();
        let server = changing.server.as_mut().ok_or_else(stopped)?;
        let stopped = server.stop_export(name, limit);
        *lock(&self.exports) = server.exports();
        #[cfg(feature = "tls")]
        lock(&self.encrypting).retain(|(export, _)| export != name);
        stopped
    }
}
