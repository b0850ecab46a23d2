//! Devices of 1 MiB at an iSCSI target in this process.

use platter_block::elevator::Elevator;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_disk::open::DiskOptions;
use platter_remote::iscsi::client::{IscsiDisk, IscsiError, IscsiOptions, Url};
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_serve::server::Server;
use std::sync::Arc;
use std::time::Duration;
use tempfile::NamedTempFile;

pub(crate) const SIZE: u64 = 1 << 20;

/// The name of the target of a server with a device `disk`.
pub(crate) const TARGET: &str = "iqn.2026-11.localhost.platter:disk";

/// `none` and every elevator of the table.
pub(crate) fn elevators() -> Vec<&'static str> {
    platter_disk::elevators::register_table(platter_elevators::TABLE);
    ["none"].into_iter().chain(platter_elevators::TABLE.iter().map(|row| row.name)).collect()
}

/// A target with a device at a TCP port that the system has chosen.
pub(crate) struct Serving {
    server: Option<Server>,
    address: String,
}

impl Serving {
    pub(crate) fn new(device: Device) -> Serving {
        Serving::with(device, &Options::default())
    }

    pub(crate) fn with(device: Device, options: &Options) -> Serving {
        let mut server = Server::new(100);
        server.devices().add(Served::new("disk", device).unwrap()).unwrap();
        let address = server.start("iscsi", "127.0.0.1:0", options).unwrap();
        Serving { server: Some(server), address }
    }

    /// Opens its device; `None`, after saying so, where libiscsi is not installed. Without an elevator each lane has a session.
    pub(crate) fn open(&self, elevator: &str, options: IscsiOptions) -> Option<Device> {
        connect(&format!("iscsi://{}/{TARGET}/0", self.address), elevator, options)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            let _ = server.stop(Duration::from_secs(10));
        }
    }
}

/// Opens a disk at a target.
pub(crate) fn connect(url: &str, elevator: &str, options: IscsiOptions) -> Option<Device> {
    let options = options.with_write(true).with_connect_timeout(Span::from_secs(60));
    let elevator = platter_elevators::by_name(elevator).map(|row| (row.make)());
    let elevator: Option<Box<dyn Elevator>> = elevator;
    let disk = match IscsiDisk::open(Url::parse(url, |_| None).unwrap(), options) {
        Err(IscsiError::Library(why)) => {
            println!("skipped: {why}");
            return None;
        }
        disk => disk.unwrap(),
    };
    Some(Device::new(Arc::new(DiskBackend::over(Arc::new(disk), DiskSettings::default(), elevator).unwrap())))
}

/// One session in all, with a shared queue; and several.
pub(crate) fn ways() -> [(&'static str, IscsiOptions); 3] {
    let one = IscsiOptions::default();
    [("noop", one.clone()), ("deadline", one.clone()), ("none", one.with_connections(40))]
}

/// Runs a test on a zero-filled device behind each way to connect.
pub(crate) fn on_all(test: impl Fn(&str, &Device)) {
    for (elevator, options) in ways() {
        let serving = Serving::new(Device::ram(SIZE).unwrap());
        let Some(device) = serving.open(elevator, options) else { return };
        test(&format!("iscsi {elevator}"), &device);
    }
}

/// Runs a test on a file behind a target, with these elevators of the initiator.
pub(crate) fn on_files(elevators: &[&str], test: impl Fn(&str, &Device, &NamedTempFile)) {
    for elevator in elevators {
        let file = NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        file.as_file().set_len(SIZE).unwrap();
        let serving = Serving::new(Device::open(file.path(), DiskOptions::read_write()).unwrap());
        let Some(device) = serving.open(elevator, IscsiOptions::default().with_connections(40)) else {
            return;
        };
        test(&format!("iscsi, a file, {elevator}"), &device, &file);
    }
}

/// Devices for tests with many threads. The target lives as long as the process.
pub(crate) fn in_memory() -> Vec<(&'static str, Device)> {
    let serving = Box::leak(Box::new(Serving::new(Device::ram(SIZE).unwrap())));
    let device = serving.open("none", IscsiOptions::default().with_connections(40));
    device.into_iter().map(|device| ("iscsi", device)).collect()
}
