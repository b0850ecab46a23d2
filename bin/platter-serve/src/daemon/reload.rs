//! The configuration, read again while the server runs.

use super::{Changing, Daemon, DaemonError, lock, stopped};
use crate::config::{self, Config, DeviceConfig, ExportConfig};
use crate::error::ServeError;

/// What a new configuration has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// What was changed, one sentence each.
    pub changed: Vec<String>,
    /// What was refused, and why. There the old stays, and it is tried again with the next reading.
    pub refused: Vec<String>,
}

impl Applied {
    fn note<T>(&mut self, what: String, result: Result<T, ServeError>) -> bool {
        match result {
            Ok(_) => self.changed.push(what),
            Err(error) => {
                self.refused.push(format!("not done: {what}: {error}"));
                return false;
            }
        }
        true
    }
}

/// The configuration of a server that has no file, with its certificates read again.
fn with_certificates_of_now(config: &Config) -> Result<Config, ServeError> {
    #[cfg_attr(not(feature = "tls"), expect(unused_mut, reason = "nothing is read"))]
    let (mut next, mut any) = (config.clone(), false);
    #[cfg(feature = "tls")]
    for export in &mut next.exports {
        if let Some(tls) = &mut export.options.tls {
            *tls = tls.read_again()?;
            any = true;
        }
    }
    match any {
        true => Ok(next),
        false => Err(ServeError::usage("the server was started without a configuration file")),
    }
}

/// Lets an export use the certificates that were read with a new configuration.
fn change_certificates(old: &ExportConfig, new: &ExportConfig, applied: &mut Applied) {
    #[cfg(feature = "tls")]
    if let (Some(old_tls), Some(new_tls)) = (&old.options.tls, &new.options.tls)
        && old_tls.take_over(new_tls)
    {
        applied.changed.push(format!("certificates of the export {} changed", old.name));
        applied.changed.extend(old_tls.expiry_warning());
    }
    #[cfg(not(feature = "tls"))]
    let _ = (old, new, applied);
}

impl Daemon {
    /// Reads the file of the configuration, and the certificates, again and carries out what has changed.
    ///
    /// # Errors
    /// The server has neither; something in them is wrong. Nothing has been changed.
    pub fn reload(&self) -> Result<Applied, DaemonError> {
        let file = lock(&self.changing).file.clone();
        let next = match &file {
            // Reading may wait for ever, if the file is a pipe: the server can be stopped meanwhile.
            Some(file) => Some(config::read_file(file)?),
            None => None,
        };
        let mut changing = lock(&self.changing);
        changing.server.as_ref().ok_or_else(stopped)?;
        let next = match next {
            Some(next) => next,
            None => with_certificates_of_now(&changing.config)?,
        };
        Ok(self.change_to(&mut changing, &next))
    }

    /// Carries out what differs between the configuration that was read last and this one.
    pub fn apply(&self, next: &Config) -> Applied {
        self.change_to(&mut lock(&self.changing), next)
    }

    fn change_to(&self, changing: &mut Changing, next: &Config) -> Applied {
        let mut applied = Applied::default();
        self.change_server(changing, next, &mut applied);
        self.change_exports_away(changing, next, &mut applied);
        self.change_devices(changing, next, &mut applied);
        for export in &next.exports {
            if changing.config.exports.iter().any(|old| old.name == export.name) {
                continue;
            }
            let what = format!("export {} at {} added", export.name, export.address);
            let result = self.open_export(changing, export);
            if applied.note(what, result) {
                changing.config.exports.push(export.clone());
            }
        }
        applied
    }

    fn change_server(&self, changing: &mut Changing, next: &Config, applied: &mut Applied) {
        let (old, new) = (&mut changing.config.server, &next.server);
        let fixed = [
            ("control", old.control != new.control),
            ("metrics", old.metrics != new.metrics),
            ("state", old.state != new.state),
            ("insecure_plaintext", old.insecure_plaintext != new.insecure_plaintext),
            ("clients_max", old.clients_max != new.clients_max),
            ("memory_max", old.memory_max != new.memory_max),
        ];
        for (key, _) in fixed.into_iter().filter(|(_, differs)| *differs) {
            applied
                .refused
                .push(format!("not done: server.{key} cannot change while the server runs; restart it"));
        }
        if old.stop_timeout != new.stop_timeout {
            old.stop_timeout = new.stop_timeout;
            lock(&self.times).stop = new.stop_timeout;
            applied.changed.push("server.stop_timeout changed".to_owned());
        }
        if old.stall_after != new.stall_after {
            old.stall_after = new.stall_after;
            lock(&self.times).stall = new.stall_after;
            applied.changed.push("server.stall_after changed".to_owned());
        }
    }

    /// Removes exports that are gone; those that differ stay as they are.
    fn change_exports_away(&self, changing: &mut Changing, next: &Config, applied: &mut Applied) {
        for old in changing.config.exports.clone() {
            let name = &old.name;
            match next.exports.iter().find(|export| export.name == *name) {
                Some(new) if *new == old => change_certificates(&old, new, applied),
                Some(_) => applied.refused.push(format!(
                    "not done: the export {name} cannot change while it runs; remove it and add one of another name"
                )),
                None => {
                    // Whatever it says, it takes no more clients.
                    let result = self.close_export(changing, name);
                    applied.note(format!("export {name} removed"), result);
                    changing.config.exports.retain(|export| export.name != *name);
                }
            }
        }
    }

    fn change_devices(&self, changing: &mut Changing, next: &Config, applied: &mut Applied) {
        for old in changing.config.devices.clone() {
            let name = &old.name;
            match next.devices.iter().find(|device| device.name == *name) {
                Some(new) => self.change_device(changing, &old, new, applied),
                None => {
                    let result = self.close_device(name, false);
                    if applied.note(format!("device {name} removed"), result) {
                        changing.config.devices.retain(|device| device.name != *name);
                    }
                }
            }
        }
        for device in &next.devices {
            if changing.config.devices.iter().all(|old| old.name != device.name) {
                let result = self.open_device(device);
                if applied.note(format!("device {} added", device.name), result) {
                    changing.config.devices.push(device.clone());
                }
            }
        }
    }

    fn change_device(
        &self,
        changing: &mut Changing,
        old: &DeviceConfig,
        new: &DeviceConfig,
        applied: &mut Applied,
    ) {
        let name = &old.name;
        let fixed = [
            ("spec", old.spec != new.spec),
            ("description", old.description != new.description),
            ("read_only", old.read_only != new.read_only),
            ("force", old.force != new.force),
            ("allow_in_use", old.allow_in_use != new.allow_in_use),
        ];
        for (key, _) in fixed.into_iter().filter(|(_, differs)| *differs) {
            applied.refused.push(format!(
                "not done: devices.{name}.{key} cannot change while it is served; remove it and add it again"
            ));
        }
        let Some(served) = self.devices.list().into_iter().find(|served| served.name() == name) else {
            return;
        };
        let Some(kept) = changing.config.devices.iter_mut().find(|device| device.name == *name) else {
            return;
        };
        if old.limits != new.limits {
            let result =
                served.qos().set_device(new.limits).map_err(|error| ServeError::usage(error.to_string()));
            if applied.note(format!("limits of the device {name} changed"), result) {
                kept.limits = new.limits;
            }
        }
        if old.client_limits != new.client_limits {
            let result = served.qos().set_default(new.client_limits);
            let result = result.map_err(|error| ServeError::usage(error.to_string()));
            if applied.note(format!("client limits of the device {name} changed"), result) {
                kept.client_limits = new.client_limits;
            }
        }
    }
}
