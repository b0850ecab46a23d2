//! `platter serve`: devices for other programs.

use crate::cli::{CliError, Context, Exit};
use platter::registry::{self, Access};
use platter_serve::error::ServeError;
use platter_serve::events::Event;
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_serve::server::Server;
use serde_json::{Value, json};
use std::sync::Arc;

mod args;

pub(crate) use args::Serve;

impl Serve {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let mut server = Server::new(self.max_clients as usize);
        server.set_log(self.log(context));
        self.add_devices(&server)?;
        let options = self.options();
        for address in &self.nbd {
            let at = server.start("nbd", address, &options).map_err(refused)?;
            self.announce(context, &server, "nbd", &at)?;
        }
        context.wait_for_interrupt();
        self.stop(context, server)
    }

    fn options(&self) -> Options {
        let mut options = Options::default();
        options.depth = self.depth as usize;
        options.client_memory_bytes = self.client_memory.bytes as usize;
        options.handshake_timeout = self.handshake_timeout.value;
        options.insecure_plaintext = self.insecure_plaintext;
        options.sparse_reads = self.sparse_reads;
        options
    }

    /// Opens the devices and gives them their names.
    fn add_devices(&self, server: &Server) -> Result<(), CliError> {
        let names = match (self.specs.len(), self.names.len()) {
            (1, 0) => vec![String::new()],
            (specs, names) if specs == names => self.names.clone(),
            (specs, names) => {
                let message =
                    format!("there are {specs} devices and {names} names: give one --name for each device");
                return Err(CliError::usage(message));
            }
        };
        let access = if self.read_only { Access::read() } else { Access::read_write() };
        for (spec, name) in self.specs.iter().zip(&names) {
            let device = registry::open(spec, self.force.access(access))?;
            let served = Served::new(name, device).map_err(refused)?;
            let served = if self.read_only { served.read_only() } else { served };
            server.devices().add(served.description(spec)).map_err(refused)?;
        }
        Ok(())
    }

    fn announce(&self, context: &Context, server: &Server, export: &str, at: &str) -> Result<(), CliError> {
        let devices: Vec<String> =
            server.devices().list().iter().map(|served| served.name().to_owned()).collect();
        if context.json {
            let event = json!({ "event": "serving", "export": export, "address": at, "devices": devices });
            return context.print(&format!("{event}\n"));
        }
        context.print(&format!("serving {} at {export} {at}\n", self.specs.join(", ")))
    }

    /// What reports events: a line on stderr, or an object on stdout.
    fn log(&self, context: &Context) -> platter_serve::events::Log {
        let (json, quiet) = (context.json, !context.progress);
        Arc::new(move |event| match (json, quiet) {
            // A log that cannot be written is no reason to stop serving.
            (true, _) => drop(Context::print_text(&format!("{}\n", object(event)))),
            (false, true) => {}
            (false, false) => Context::report_line(&event.to_string()),
        })
    }

    fn stop(&self, context: &Context, server: Server) -> Result<(), CliError> {
        if context.json {
            context.print(&format!("{}\n", json!({ "event": "stopping" })))?;
        }
        let problems = server.stop(self.stop_timeout.value).err().unwrap_or_default();
        if context.json {
            context.print(&format!("{}\n", json!({ "event": "stopped", "problems": problems })))?;
        }
        if problems.is_empty() { Ok(()) } else { Err(CliError::failed(problems.join("\nplatter: "))) }
    }
}

fn object(event: &Event<'_>) -> Value {
    json!({
        "event": event.name(),
        "export": event.export(),
        "client": event.client().map(|client| client.id),
        "device": event.client().map(|client| client.device.as_str()),
        "peer": event.peer(),
        "why": event.why(),
    })
}

fn refused(error: ServeError) -> CliError {
    let exit = if error.is_usage() { Exit::Usage } else { Exit::CannotOpen };
    CliError::new(exit, error.to_string())
}
