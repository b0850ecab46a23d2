//! A device as a file, by the calls of the system.

use crate::ways::{Client, Way};
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_serve::server::Server;
use rustix::fs::{FallocateFlags, OFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) struct FuseWay {
    server: Option<Server>,
    directory: TempDir,
}

impl FuseWay {
    pub(crate) fn start(served: Served) -> Option<Box<dyn Way>> {
        let directory = tempfile::tempdir().unwrap();
        let mut server = Server::default();
        server.devices().add(served).unwrap();
        if let Err(error) = server.start("fuse", directory.path().to_str().unwrap(), &Options::default()) {
            assert!(!error.is_usage(), "{error}");
            eprintln!("skipped: {error}");
            return None;
        }
        Some(Box::new(FuseWay { server: Some(server), directory }))
    }
}

impl Way for FuseWay {
    fn connect(&self) -> Box<dyn Client> {
        Box::new(FileClient::open(self.directory.path().join("disk")))
    }

    fn disconnect_all(&self) {
        let server = self.server.as_ref().unwrap();
        server.clients().list().iter().for_each(|client| client.disconnect());
    }
}

impl Drop for FuseWay {
    fn drop(&mut self) {
        // What the last flush finds is for the tests to look at.
        let _ = self.server.take().unwrap().stop(Duration::from_secs(60));
    }
}

struct FileClient {
    path: PathBuf,
    plain: File,
    /// Writes of it are durable.
    durable: File,
}

impl FileClient {
    fn open(path: PathBuf) -> FileClient {
        let open = |flags: OFlags| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).custom_flags(flags.bits().cast_signed());
            options.open(&path).unwrap()
        };
        FileClient { plain: open(OFlags::empty()), durable: open(OFlags::DSYNC), path }
    }

    fn allocate(&self, mode: FallocateFlags, pos: u64, len: u64) -> io::Result<()> {
        Ok(fallocate(&self.plain, mode, pos, len)?)
    }
}

impl Client for FileClient {
    fn size(&self) -> u64 {
        self.plain.metadata().unwrap().len()
    }

    fn read(&mut self, pos: u64, data: &mut [u8]) -> io::Result<()> {
        self.plain.read_exact_at(data, pos)
    }

    fn write(&mut self, pos: u64, data: &[u8], durable: bool) -> io::Result<()> {
        let file = if durable { &self.durable } else { &self.plain };
        file.write_all_at(data, pos)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.plain.sync_data()
    }

    fn write_zeroes(&mut self, pos: u64, len: u64) -> io::Result<()> {
        // The two modes in turn: both write zeroes. A hole beyond the end is no error, as with other files.
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let mode = if (pos / 512).is_multiple_of(2) { FallocateFlags::ZERO_RANGE } else { punch };
        self.allocate(mode, pos, len)
    }

    fn discard(&mut self, _pos: u64, _len: u64) -> Option<io::Result<()>> {
        None
    }

    fn extent(&mut self, pos: u64, len: u64) -> Option<(u64, bool)> {
        let end = pos + len;
        match seek(&self.plain, SeekFrom::Data(pos)) {
            Ok(data) if data > pos => Some((data.min(end) - pos, true)),
            Ok(_) => Some((seek(&self.plain, SeekFrom::Hole(pos)).unwrap().min(end) - pos, false)),
            Err(Errno::NXIO) => Some((len, true)),
            Err(error) => panic!("{error}"),
        }
    }

    fn reconnect(&mut self) {
        // The client of the server stands for all files: it is gone when all of them are closed.
        *self = FileClient::open(self.path.clone());
    }
}
