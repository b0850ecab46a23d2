//! Over NBD, with several writes of each connection in flight.

use super::known::{BLOCK, BLOCKS, Block, Random, contents};
use platter_remote::nbd::wire::{Request, SimpleReply, command};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes that a connection has in flight.
const WINDOW: usize = 8;

/// A connection that has chosen the default export.
fn attach(path: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    stream.read_exact(&mut [0; 10]).unwrap();
    stream
}

/// One connection.
pub(crate) struct Writer {
    stream: UnixStream,
    first: u64,
    blocks: Vec<Block>,
    /// Cookie, block and version of each write without an answer.
    in_flight: Vec<(u64, u64, u64)>,
    cookie: u64,
    random: Random,
    total: Arc<AtomicU64>,
}

impl Writer {
    pub(crate) fn new(
        socket: &Path,
        client: u64,
        blocks: Vec<Block>,
        random: Random,
        total: Arc<AtomicU64>,
    ) -> Writer {
        let (stream, first) = (attach(socket), client * BLOCKS);
        Writer { stream, first, blocks, in_flight: Vec::new(), cookie: 0, random, total }
    }

    fn answer(&mut self) -> io::Result<u64> {
        let mut header = [0; SimpleReply::BYTES];
        self.stream.read_exact(&mut header)?;
        assert_eq!(header[4..8], [0; 4], "an error");
        let cookie = u64::from_be_bytes(header[8..].try_into().unwrap());
        if let Some(at) = self.in_flight.iter().position(|(sent, ..)| *sent == cookie) {
            let (_, block, version) = self.in_flight.swap_remove(at);
            self.blocks[block as usize].answered = version;
            self.total.fetch_add(1, Ordering::Relaxed);
        }
        Ok(cookie)
    }

    fn write(&mut self) -> io::Result<()> {
        let block = self.random.below(BLOCKS);
        while self.in_flight.len() >= WINDOW || self.in_flight.iter().any(|(_, other, _)| *other == block) {
            self.answer()?;
        }
        self.cookie += 1;
        let entry = &mut self.blocks[block as usize];
        entry.sent += 1;
        let version = entry.sent;
        self.in_flight.push((self.cookie, block, version));
        let offset = (self.first + block) * BLOCK as u64;
        let (kind, cookie, length) = (command::WRITE, self.cookie, BLOCK as u32);
        let header = Request { kind, cookie, offset, length, ..Request::default() };
        self.stream.write_all(&[&header.to_bytes()[..], &contents(self.first + block, version)].concat())
    }

    fn flush(&mut self) -> io::Result<()> {
        let known: Vec<u64> = self.blocks.iter().map(|block| block.answered).collect();
        self.cookie += 1;
        let flush = self.cookie;
        self.stream
            .write_all(&Request { kind: command::FLUSH, cookie: flush, ..Request::default() }.to_bytes())?;
        while self.answer()? != flush {}
        self.blocks.iter_mut().zip(known).for_each(|(block, version)| block.durable = version);
        Ok(())
    }

    /// Writes until the server is gone. What is known of the blocks then.
    pub(crate) fn run(mut self) -> Vec<Block> {
        loop {
            let done = if self.random.below(50) == 0 { self.flush() } else { self.write() };
            if done.is_err() {
                return self.blocks;
            }
        }
    }
}
