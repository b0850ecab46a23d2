//! Devices of 1 MiB at a server in this process.

use platter_block::elevator::Elevator;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_disk::open::DiskOptions;
use platter_remote::nbd::client::{NbdDisk, NbdOptions};
use platter_remote::nbd::uri::Uri;
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_serve::server::Server;
use std::sync::Arc;
use std::time::Duration;
use tempfile::{NamedTempFile, TempDir};

pub(crate) const SIZE: u64 = 1 << 20;

/// `none` and every elevator of the table.
pub(crate) fn elevators() -> Vec<&'static str> {
    platter_disk::elevators::register_table(platter_elevators::TABLE);
    ["none"].into_iter().chain(platter_elevators::TABLE.iter().map(|row| row.name)).collect()
}

/// A server of one device at a Unix socket.
pub(crate) struct Serving {
    server: Option<Server>,
    folder: TempDir,
}

impl Serving {
    pub(crate) fn new(device: Device) -> Serving {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Server::new(100);
        server.devices().add(Served::new("disk", device).unwrap()).unwrap();
        server
            .start("nbd", &format!("unix:{}", folder.path().join("s").display()), &Options::default())
            .unwrap();
        Serving { server: Some(server), folder }
    }

    /// Opens its device. Without an elevator each lane has a connection.
    pub(crate) fn open(&self, elevator: &str, options: NbdOptions) -> Device {
        connect(Uri::unix(self.folder.path().join("s"), "disk"), elevator, options)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            let _ = server.stop(Duration::from_secs(10));
        }
    }
}

/// Opens a disk at a server.
pub(crate) fn connect(uri: Uri, elevator: &str, options: NbdOptions) -> Device {
    let options = options.with_write(true).with_connect_timeout(Span::from_secs(60));
    let elevator = platter_elevators::by_name(elevator).map(|row| (row.make)());
    let elevator: Option<Box<dyn Elevator>> = elevator;
    let disk = NbdDisk::open(uri, options).unwrap();
    Device::new(Arc::new(DiskBackend::over(Arc::new(disk), DiskSettings::default(), elevator).unwrap()))
}

/// One connection in all, with a shared queue; and several.
pub(crate) fn ways() -> [(&'static str, NbdOptions); 3] {
    let one = NbdOptions::default();
    [("noop", one), ("deadline", one.with_replay(64 << 20)), ("none", one.with_connections(40))]
}

/// Runs a test on a zero-filled device behind each way to connect.
pub(crate) fn on_all(test: impl Fn(&str, &Device)) {
    for (elevator, options) in ways() {
        let serving = Serving::new(Device::ram(SIZE).unwrap());
        let device = serving.open(elevator, options);
        test(&format!("nbd {elevator}"), &device);
    }
}

/// Runs a test on a file behind a server, with these elevators of the client.
pub(crate) fn on_files(elevators: &[&str], test: impl Fn(&str, &Device, &NamedTempFile)) {
    for elevator in elevators {
        let file = NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        file.as_file().set_len(SIZE).unwrap();
        let serving = Serving::new(Device::open(file.path(), DiskOptions::read_write()).unwrap());
        let device = serving.open(elevator, NbdOptions::default().with_connections(40));
        test(&format!("nbd, a file, {elevator}"), &device, &file);
    }
}

/// Devices for tests with many threads. The server lives as long as the process.
pub(crate) fn in_memory() -> Vec<(&'static str, Device)> {
    let serving = Box::leak(Box::new(Serving::new(Device::ram(SIZE).unwrap())));
    vec![("nbd", serving.open("none", NbdOptions::default().with_connections(40)))]
}
