//! The iSCSI export, by a small initiator and by programs of others.

#![cfg(feature = "iscsi")]

mod commands;
mod hostile;
mod initiator;
mod limited;
mod logins;
mod order;
mod peers;

use platter_disk::device::Device;
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_serve::server::Server;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A server with a device, `disk`.
struct Fixture {
    server: Option<Server>,
    address: String,
    events: Arc<Mutex<Vec<String>>>,
}

fn serve(device: Device) -> Fixture {
    serve_with(device, &Options::default())
}

fn serve_with(device: Device, options: &Options) -> Fixture {
    let events: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&events);
    let mut server = Server::default();
    server.set_log(Arc::new(move |event| {
        log.lock().unwrap().push(format!("{}: {}", event.name(), event.why().unwrap_or_default()));
    }));
    server.devices().add(Served::new("disk", device).unwrap()).unwrap();
    let address = server.start("iscsi", "127.0.0.1:0", options).unwrap();
    Fixture { server: Some(server), address, events }
}

impl Fixture {
    /// Ends the server, after which all events are there.
    fn stop(&mut self) -> Vec<String> {
        if let Some(server) = self.server.take() {
            server.stop(Duration::from_secs(60)).unwrap();
        }
        self.events.lock().unwrap().clone()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}
