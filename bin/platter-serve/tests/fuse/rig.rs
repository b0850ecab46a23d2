//! A mounted server.

use platter_disk::device::Device;
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_serve::server::Server;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const SIZE: u64 = 4 << 20;
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Mounted {
    pub(crate) server: Option<Server>,
    pub(crate) directory: TempDir,
}

impl Mounted {
    /// Serves devices as files. `None`, after saying why, if the system does not permit it.
    pub(crate) fn new(devices: Vec<Served>, options: &Options) -> Option<Mounted> {
        let directory = tempfile::tempdir().unwrap();
        let mut server = Server::default();
        devices.into_iter().for_each(|served| server.devices().add(served).unwrap());
        let address = directory.path().to_str().unwrap();
        match server.start("fuse", address, options) {
            Ok(at) => {
                assert_eq!(Path::new(&at), directory.path().canonicalize().unwrap());
                Some(Mounted { server: Some(server), directory })
            }
            Err(error) => {
                assert!(!error.is_usage(), "{error}");
                eprintln!("skipped: {error}");
                None
            }
        }
    }

    pub(crate) fn of(device: Device) -> Option<Mounted> {
        Mounted::new(vec![Served::new("disk", device).unwrap()], &Options::default())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("disk")
    }

    pub(crate) fn open(&self) -> File {
        OpenOptions::new().read(true).write(true).open(self.path()).unwrap()
    }

    pub(crate) fn stop(&mut self, limit: Duration) -> Result<(), Vec<String>> {
        self.server.take().unwrap().stop(limit)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            let _ = server.stop(PATIENCE);
        }
    }
}

#[track_caller]
pub(crate) fn errno<T: std::fmt::Debug>(result: std::io::Result<T>) -> Errno {
    Errno::from_io_error(&result.unwrap_err()).unwrap()
}
