//! A block device of the kernel, without the kernel's cache. Its clients have it open side by side.

use crate::ways::{Client, Way};
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_serve::server::Server;
use rustix::fs::{FallocateFlags, OFlags, SeekFrom, fallocate, seek};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Once;
use std::time::Duration;

/// What the kernel wants memory of direct I/O to be aligned to.
const ALIGNMENT: usize = 4096;

pub(crate) struct UblkWay {
    server: Option<Server>,
    path: PathBuf,
}

impl UblkWay {
    pub(crate) fn start(served: Served) -> Option<Box<dyn Way>> {
        let mut server = Server::default();
        server.devices().add(served).unwrap();
        match server.start("ublk", "auto,queues=2", &Options::default()) {
            Ok(path) => Some(Box::new(UblkWay { server: Some(server), path: path.into() })),
            Err(error) => {
                assert!(!error.is_usage(), "{error}");
                static SAID: Once = Once::new();
                SAID.call_once(|| eprintln!("skipped: {error}"));
                None
            }
        }
    }
}

impl Way for UblkWay {
    fn connect(&self) -> Box<dyn Client> {
        let open = |flags: OFlags| {
            let flags = flags | OFlags::DIRECT;
            let mut options = OpenOptions::new();
            options.read(true).write(true).custom_flags(flags.bits().cast_signed());
            options.open(&self.path).unwrap()
        };
        Box::new(BlockClient { plain: open(OFlags::empty()), durable: open(OFlags::DSYNC) })
    }

    /// To disconnect a client is to remove the block device, so its clients are left alone.
    fn disconnect_all(&self) {}

    /// A larger size needs Linux 6.16.
    fn grows(&self) -> bool {
        false
    }
}

impl Drop for UblkWay {
    fn drop(&mut self) {
        // What the last flush finds is for the tests to look at.
        let _ = self.server.take().unwrap().stop(Duration::from_secs(60));
    }
}

struct BlockClient {
    plain: File,
    /// Writes of it are durable.
    durable: File,
}

/// Memory for direct I/O, and where in it the data begins.
fn aligned(len: usize) -> (Vec<u8>, usize) {
    let memory = vec![0; len + ALIGNMENT];
    let start = memory.as_ptr().align_offset(ALIGNMENT);
    (memory, start)
}

impl Client for BlockClient {
    fn size(&self) -> u64 {
        seek(&self.plain, SeekFrom::End(0)).unwrap()
    }

    fn read(&mut self, pos: u64, data: &mut [u8]) -> io::Result<()> {
        let (mut memory, start) = aligned(data.len());
        let part = &mut memory[start..start + data.len()];
        self.plain.read_exact_at(part, pos)?;
        data.copy_from_slice(part);
        Ok(())
    }

    fn write(&mut self, pos: u64, data: &[u8], durable: bool) -> io::Result<()> {
        let file = if durable { &self.durable } else { &self.plain };
        let (mut memory, start) = aligned(data.len());
        memory[start..start + data.len()].copy_from_slice(data);
        file.write_all_at(&memory[start..start + data.len()], pos)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.plain.sync_data()
    }

    fn write_zeroes(&mut self, pos: u64, len: u64) -> io::Result<()> {
        // The two modes in turn: both write zeroes. After an error of the second one the kernel writes them as data.
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let mode = if (pos / 512).is_multiple_of(2) { punch } else { FallocateFlags::ZERO_RANGE };
        Ok(fallocate(&self.plain, mode, pos, len)?)
    }

    fn discard(&mut self, _pos: u64, _len: u64) -> Option<io::Result<()>> {
        None
    }

    fn extent(&mut self, _pos: u64, _len: u64) -> Option<(u64, bool)> {
        None
    }

    fn reconnect(&mut self) {}
}
