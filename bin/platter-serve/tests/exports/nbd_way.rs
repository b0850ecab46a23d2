//! NBD, by the client of this project. Each client of the suite has a connection of its own.

use crate::ways::{Client, Way};
use platter_block::bio::Flags;
use platter_block::fault::Error;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_disk::sync_io::IoOptions;
use platter_remote::nbd::client::{NbdDisk, NbdOptions};
use platter_remote::nbd::uri::Uri;
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_serve::server::Server;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) struct NbdWay {
    server: Option<Server>,
    folder: TempDir,
}

impl NbdWay {
    pub(crate) fn start(served: Served) -> Option<Box<dyn Way>> {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Server::default();
        server.devices().add(served).unwrap();
        let address = format!("unix:{}", folder.path().join("s").display());
        server.start("nbd", &address, &Options::default()).unwrap();
        Some(Box::new(NbdWay { server: Some(server), folder }))
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }
}

impl Way for NbdWay {
    fn connect(&self) -> Box<dyn Client> {
        let disk = NbdDisk::open(Uri::unix(self.socket(), "disk"), NbdOptions::default().with_write(true));
        let elevator = platter_elevators::by_name("noop").map(|row| (row.make)());
        let backend = DiskBackend::over(Arc::new(disk.unwrap()), DiskSettings::default(), elevator).unwrap();
        Box::new(NbdClient(Device::new(Arc::new(backend))))
    }

    fn disconnect_all(&self) {
        let server = self.server.as_ref().unwrap();
        server.clients().list().iter().for_each(|client| client.disconnect());
    }
}

impl Drop for NbdWay {
    fn drop(&mut self) {
        // What the last flush finds is for the tests to look at.
        let _ = self.server.take().unwrap().stop(Duration::from_secs(60));
    }
}

struct NbdClient(Device);

fn told(result: Result<(), Error>) -> io::Result<()> {
    result.map_err(|error| io::Error::from_raw_os_error(error.fault.errno()))
}

impl Client for NbdClient {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read(&mut self, pos: u64, data: &mut [u8]) -> io::Result<()> {
        told(self.0.read_at(data, pos))
    }

    fn write(&mut self, pos: u64, data: &[u8], durable: bool) -> io::Result<()> {
        let flags = if durable { Flags::FUA } else { Flags::NONE };
        told(self.0.write_at_with(data, pos, IoOptions::flags(flags)))
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = told(self.0.flush());
        self.0.acknowledge_flush_failure();
        result
    }

    fn write_zeroes(&mut self, pos: u64, len: u64) -> io::Result<()> {
        told(self.0.write_zeroes(pos, len))
    }

    fn discard(&mut self, pos: u64, len: u64) -> Option<io::Result<()>> {
        Some(told(self.0.discard(pos, len)))
    }

    fn extent(&mut self, pos: u64, len: u64) -> Option<(u64, bool)> {
        let extent = self.0.allocation(pos, len).unwrap();
        Some((extent.len, extent.is_hole()))
    }

    /// It does so by itself.
    fn reconnect(&mut self) {}
}
