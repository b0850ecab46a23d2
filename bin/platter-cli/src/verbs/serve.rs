//! `platter serve`: devices for other programs.

use crate::cli::{CliError, Context, Exit, exit_now};
use log::Log;
use notify::{PidFile, notify};
use platter_serve::chap::Chap;
use platter_serve::config::{self, Config, DeviceConfig, ExportConfig};
use platter_serve::control::{Control, Heard};
use platter_serve::daemon::{Daemon, DaemonError};
use platter_serve::descriptors;
use platter_serve::error::ServeError;
use platter_serve::events::Event;
use platter_serve::export::Options;
use platter_serve::flood::{Flood, LINES_PER_SECOND};
use platter_serve::metrics::MetricsServer;
use platter_serve::restart::Past;
use platter_serve::served::Served;
use platter_serve::tls::{Tls, TlsFiles};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

mod args;
mod log;
mod notify;

use args::Encrypt;
pub(crate) use args::Serve;

/// How long the main thread sleeps at a time; a request to stop wakes it.
const SLEEP: Duration = Duration::from_secs(3600);

impl Serve {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let mut config = match &self.config {
            Some(file) => config::read_file(file).map_err(|errors| wrong(errors.into()))?,
            None => self.to_config()?,
        };
        let control_path = self.control.clone().or_else(|| config.server.control.clone());
        let metrics_address = self.metrics.clone().or_else(|| config.server.metrics.clone());
        config.server.state = self.state.clone().or(config.server.state);
        let descriptors = descriptors::raise();
        let insecure_plaintext = config.server.insecure_plaintext;
        let pid_file = self.pidfile.as_deref().map(PidFile::write).transpose()?;
        let log = Log::new(context, self.log);
        warn_of_certificates(&config, log);
        limit_clients(&mut config, descriptors, log);
        let flood = Arc::new(Flood::new(LINES_PER_SECOND));
        let events = events(log, &flood);
        let daemon =
            Daemon::start(config, self.config.clone(), |server| server.set_log(events)).map_err(wrong)?;
        // From here on what was started must be stopped in any case.
        let extras = (|| {
            let heard = Arc::new(move |heard: &Heard<'_>| log.control(heard));
            let control = control_path.map(|path| Control::start(&path, &daemon, heard)).transpose()?;
            let metrics = metrics_address.map(|at| MetricsServer::start(&at, insecure_plaintext, &daemon));
            Ok((control, metrics.transpose()?))
        })();
        let (control, metrics) = match extras {
            Ok(extras) => extras,
            Err(error) => {
                let _ = daemon.stop(Duration::ZERO);
                return Err(refused(error));
            }
        };
        self.announce(context, &daemon, metrics.as_ref())?;
        tell_of_losses(&daemon, log);
        follow_signals(&daemon, log)?;
        notify(&format!("READY=1\nSTATUS=serving\nMAINPID={}", std::process::id()));
        let stop = loop {
            if let Some(stop) = daemon.wait(SLEEP) {
                break stop;
            }
        };
        notify("STOPPING=1\nSTATUS=answering clients and flushing devices");
        log.tell("stopping", &[], "stopping");
        drop(metrics);
        let problems = daemon.stop(stop.limit).err().unwrap_or_default();
        drop(control);
        log.left_out(flood.take_left_out());
        for problem in &problems {
            log.only_traced("stop-problem", problem);
        }
        log.tell("stopped", &[("problems", json!(problems))], "stopped");
        drop(pid_file);
        if problems.is_empty() {
            return Ok(());
        }
        // A log by `tracing` has them already, in its format. What is stuck may hold its thread for ever.
        let said = if self.log.is_some() { String::new() } else { problems.join("\nplatter: ") };
        exit_now(&CliError::failed(said))
    }

    /// The configuration that the command line stands for.
    fn to_config(&self) -> Result<Config, CliError> {
        let names = match (self.specs.len(), self.names.len()) {
            (1, 0) => vec![String::new()],
            (specs, names) if specs == names => self.names.clone(),
            (specs, names) => {
                let message =
                    format!("there are {specs} devices and {names} names: give one --name for each device");
                return Err(CliError::usage(message));
            }
        };
        let exports = [&self.nbd, &self.fuse, &self.ublk, &self.vhost_user_blk, &self.iscsi];
        if exports.iter().all(|addresses| addresses.is_empty()) {
            let message = "no export: say how to serve the devices, with --nbd, --fuse, --ublk, --vhost-user-blk or --iscsi";
            return Err(CliError::usage(message.to_owned()));
        }
        let mut config = Config::default();
        config.server.clients_max = self.max_clients as usize;
        config.server.memory_max = self.max_memory.bytes as usize;
        config.server.stop_timeout = self.stop_timeout.value;
        config.server.insecure_plaintext = self.insecure_plaintext;
        for (spec, name) in self.specs.iter().zip(&names) {
            let mut device = DeviceConfig::new(name, spec);
            device.description = Some(spec.clone());
            device.read_only = self.read_only;
            device.force = self.force;
            device.allow_in_use = self.allow_in_use;
            config.devices.push(device);
        }
        let kinds = [
            ("nbd", &self.nbd),
            ("fuse", &self.fuse),
            ("ublk", &self.ublk),
            ("vhost-user-blk", &self.vhost_user_blk),
            ("iscsi", &self.iscsi),
        ];
        for (kind, addresses) in kinds {
            for (number, address) in (1..).zip(addresses) {
                let mut export = ExportConfig::new(&format!("{kind}{number}"), kind, address);
                export.options = self.options()?;
                config.exports.push(export);
            }
        }
        Ok(config)
    }

    fn options(&self) -> Result<Options, CliError> {
        let mut options = Options::default();
        options.depth = self.depth as usize;
        options.client_memory_bytes = self.client_memory.bytes as usize;
        options.handshake_timeout = self.handshake_timeout.value;
        options.allow_other = self.fuse_allow_other;
        options.kernel_cache = self.fuse_cache;
        options.sparse_reads = self.sparse_reads;
        options.iscsi.prefix.clone_from(&self.iscsi_prefix);
        if let (Some(user), Some(secret)) = (&self.chap_user, &self.chap_secret) {
            options.iscsi.chap = Some(Chap::load(user, secret).map_err(refused)?);
        }
        if let (Some(certificate), Some(key)) = (self.tls_cert.clone(), self.tls_key.clone()) {
            let files = TlsFiles { certificate, key, client_authorities: self.tls_client_ca.clone() };
            options.tls = Some(Tls::load(files, self.tls == Encrypt::Require).map_err(refused)?);
        }
        Ok(options)
    }

    /// Says where everything is: on stdout, because the system may have chosen ports.
    fn announce(
        &self,
        context: &Context,
        daemon: &Daemon,
        metrics: Option<&MetricsServer>,
    ) -> Result<(), CliError> {
        let devices: Vec<String> =
            daemon.devices().list().iter().map(|served| served.name().to_owned()).collect();
        let shown = if self.specs.is_empty() { &devices } else { &self.specs };
        let metrics = metrics.map(|metrics| ("metrics", metrics.address().to_string()));
        let exports = daemon.exports().into_iter().map(|export| (export.kind, export.address));
        for (kind, at) in exports.chain(metrics) {
            if context.json {
                let event = json!({ "event": "serving", "export": kind, "address": at, "devices": devices });
                context.print(&format!("{event}\n"))?;
            } else {
                let line = match kind {
                    "metrics" => format!("serving metrics at http://{at}/metrics\n"),
                    _ => format!("serving {} at {kind} {at}{}\n", shown.join(", "), cut(daemon, kind)),
                };
                context.print(&line)?;
            }
        }
        Ok(())
    }
}

/// Says which certificates have expired, or soon will: the server starts all the same, because not all clients look.
fn warn_of_certificates(config: &Config, log: Log) {
    for warning in config.exports.iter().filter_map(|export| export.options.tls.as_ref()?.expiry_warning()) {
        log.warn("certificate", &warning);
    }
}

/// What clients of an export cannot reach, because they count in blocks: the end of a device of another size.
fn cut(daemon: &Daemon, kind: &str) -> String {
    if !["iscsi", "ublk", "vhost-user-blk"].contains(&kind) {
        return String::new();
    }
    let cut = |served: &Arc<Served>| {
        let geometry = served.device().geometry();
        // A virtual machine has the size in sectors.
        let block =
            if kind == "vhost-user-blk" { 512 } else { u64::from(geometry.limits.logical_block.max(512)) };
        let name = if served.name().is_empty() { "the device" } else { served.name() };
        let last = geometry.size % block;
        (last > 0)
            .then(|| format!("; without the last {last} bytes of {name}, which are no block of {block}"))
    };
    daemon.devices().list().iter().filter_map(cut).collect()
}

/// Takes no more clients than there are descriptors for.
fn limit_clients(config: &mut Config, descriptors: u64, log: Log) {
    let (wanted, most) = (config.server.clients_max, descriptors::clients(descriptors));
    if wanted > most {
        let text = format!(
            "at most {most} clients instead of {wanted}: this process may have {descriptors} descriptors \
             (RLIMIT_NOFILE), and a client needs {}",
            descriptors::OF_A_CLIENT
        );
        log.warn("clients-limited", &text);
        config.server.clients_max = most;
    }
}

/// Events as lines of the log, within its bound.
fn events(log: Log, flood: &Arc<Flood>) -> platter_serve::events::Log {
    let flood = Arc::clone(flood);
    Arc::new(move |event| {
        // A failed flush is not one of many lines.
        let left_out = match event {
            Event::FlushFailed(..) => Some(0),
            _ => flood.admit(Instant::now()),
        };
        if let Some(left_out) = left_out {
            log.left_out(left_out);
            log.event(event);
        }
    })
}

/// Says which devices an earlier server has left without a flush.
fn tell_of_losses(daemon: &Daemon, log: Log) {
    for served in daemon.devices().list().iter().filter(|served| served.past() == Past::Lost) {
        let name = if served.name().is_empty() { served.about() } else { served.name() };
        let text = format!(
            "an earlier server was killed and may have lost answered writes of {name}: the first flush of each client \
             fails"
        );
        log.warn("lost", &text);
    }
}

/// Carries out what signals ask for, in two threads: to read the configuration may take as long as a device, or for ever,
/// and the server can be stopped all the same.
fn follow_signals(daemon: &Arc<Daemon>, log: Log) -> Result<(), CliError> {
    Context::catch_hangup();
    let start = |name: &str, follow: Box<dyn FnOnce() + Send>| {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(follow);
        thread.map(drop).map_err(|error| CliError::failed(format!("no thread for signals: {error}")))
    };
    let (stopped, reloaded) = (Arc::clone(daemon), Arc::clone(daemon));
    start(
        "platter-stop",
        Box::new(move || {
            Context::wait_for_stop();
            stopped.request_stop(stopped.stop_timeout());
        }),
    )?;
    start(
        "platter-reload",
        Box::new(move || {
            loop {
                Context::wait_for_reload();
                reload(&reloaded, log);
            }
        }),
    )
}

fn reload(daemon: &Daemon, log: Log) {
    match daemon.reload() {
        Err(error) => log.warn("reload-failed", &format!("nothing was changed: {error}")),
        Ok(applied) => {
            let text = match (&applied.changed[..], &applied.refused[..]) {
                ([], []) => "the configuration has not changed".to_owned(),
                (changed, refused) => [changed, refused].concat().join("; "),
            };
            let fields = [("changed", json!(applied.changed)), ("refused", json!(applied.refused))];
            log.tell("reloaded", &fields, &text);
        }
    }
}

fn wrong(error: DaemonError) -> CliError {
    match error {
        DaemonError::Config(errors) => CliError::usage(format!("the configuration is wrong\n{errors}")),
        DaemonError::Serve(error) => refused(error),
    }
}

fn refused(error: ServeError) -> CliError {
    let exit = if error.is_usage() { Exit::Usage } else { Exit::CannotOpen };
    CliError::new(exit, error.to_string())
}
