//! A server and a guest.

use crate::guest::Guest;
use platter_disk::device::Device;
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_serve::server::Server;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// How long an event may take that is sure to come.
const LONG: Duration = Duration::from_secs(60);

/// A server with one device.
pub(crate) struct Rig {
    pub(crate) server: Option<Server>,
    pub(crate) path: PathBuf,
    /// What its log says.
    pub(crate) events: Arc<Mutex<Vec<String>>>,
    /// An event was added.
    added: Arc<Condvar>,
    /// Of the next server.
    pub(crate) options: Options,
    _folder: tempfile::TempDir,
}

impl Rig {
    pub(crate) fn new(served: Served) -> Rig {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        // The path of a socket has at most 107 bytes.
        let path = std::env::temp_dir().join(format!(
            "platter-vhost-{}-{}",
            std::process::id(),
            folder.path().file_name().unwrap().to_str().unwrap()
        ));
        let mut rig = Rig {
            server: None,
            path,
            events: Arc::default(),
            added: Arc::default(),
            options: Options::default(),
            _folder: folder,
        };
        rig.serve(served);
        rig
    }

    pub(crate) fn of(device: Device) -> Rig {
        Rig::new(Served::new("disk", device).unwrap())
    }

    /// Starts a server at the same path.
    pub(crate) fn serve(&mut self, served: Served) {
        let mut server = Server::default();
        let (events, added) = (Arc::clone(&self.events), Arc::clone(&self.added));
        server.set_log(Arc::new(move |event| {
            events.lock().unwrap().push(event.to_string());
            added.notify_all();
        }));
        server.devices().add(served).unwrap();
        server.start("vhost-user-blk", self.path.to_str().unwrap(), &self.options).unwrap();
        self.server = Some(server);
    }

    pub(crate) fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    /// A guest with all features and a number of queues, connected.
    pub(crate) fn guest(&self, queues: usize) -> Guest {
        self.guest_with(queues, u64::MAX)
    }

    pub(crate) fn guest_with(&self, queues: usize, features: u64) -> Guest {
        let mut guest = Guest::new(queues, features);
        guest.connect(&self.path);
        guest
    }

    pub(crate) fn stop(&mut self) -> Result<(), Vec<String>> {
        self.server.take().unwrap().stop(Duration::from_secs(30))
    }

    /// Waits until the log has a line with this text.
    pub(crate) fn await_event(&self, text: &str) {
        let is_missing = |events: &mut Vec<String>| !events.iter().any(|event| event.contains(text));
        let waited = self.added.wait_timeout_while(self.events.lock().unwrap(), LONG, is_missing).unwrap();
        assert!(!waited.1.timed_out(), "no event with {text:?} in {:?}", waited.0);
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if self.server.is_some() {
            let _ = self.stop();
        }
    }
}
