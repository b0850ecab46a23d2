//! The NBD server by its protocol: with a client that sends exact bytes, with hostile ones, and with other programs.

mod client;
mod disconnect;
mod errors;
mod hostile;
mod life;
#[path = "../../../../lib/platter-disk/tests/drivers/loops.rs"]
mod loops;
mod odd;
mod peers;
mod protocol;
mod stop;
#[cfg(feature = "tls")]
mod tls;

use platter_disk::device::Device;
use platter_serve::events::Event;
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_serve::server::Server;
use std::sync::{Arc, Condvar, Mutex};
use tempfile::TempDir;

/// A server at a Unix socket and at a TCP port, with its events.
struct Fixture {
    server: Option<Server>,
    unix: String,
    tcp: String,
    events: Arc<Events>,
    folder: TempDir,
}

/// The events that a server has reported, as text.
#[derive(Default)]
struct Events {
    list: Mutex<Vec<String>>,
    more: Condvar,
}

impl Events {
    /// Waits until an event contains `text`.
    fn await_text(&self, text: &str) {
        let list = self.list.lock().unwrap();
        drop(self.more.wait_while(list, |list| !list.iter().any(|event| event.contains(text))).unwrap());
    }

    fn add(&self, event: &Event<'_>) {
        self.list.lock().unwrap().push(event.to_string());
        self.more.notify_all();
    }
}

/// Serves `devices`, under the names given.
fn serve_with(devices: Vec<(&str, Device)>, clients: usize, options: &Options) -> Fixture {
    serve_from(Server::new(clients), devices, options)
}

/// The same by this server.
fn serve_from(mut server: Server, devices: Vec<(&str, Device)>, options: &Options) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let events = Arc::new(Events::default());
    let heard = Arc::clone(&events);
    server.set_log(Arc::new(move |event| heard.add(event)));
    for (name, device) in devices {
        server.devices().add(Served::new(name, device).unwrap()).unwrap();
    }
    let unix = format!("unix:{}", folder.path().join("socket").display());
    let unix = server.start("nbd", &unix, options).unwrap();
    let tcp = server.start("nbd", "127.0.0.1:0", options).unwrap();
    Fixture { server: Some(server), unix, tcp, events, folder }
}

/// Serves one device.
fn serve(device: Device) -> Fixture {
    serve_with(vec![("disk", device)], 100, &Options::default())
}

/// A device by its spec.
fn open(spec: &str) -> Device {
    platter::registry::open(spec, platter::registry::Access::read_write()).unwrap()
}

impl Fixture {
    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    fn stop(&mut self) -> Result<(), Vec<String>> {
        self.server.take().unwrap().stop(std::time::Duration::from_secs(30))
    }
}
