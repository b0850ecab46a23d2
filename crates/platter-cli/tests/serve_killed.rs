//! A server that is killed under load: what its clients were told is in the file afterwards.

use platter_remote::nbd::wire::{Request, SimpleReply, command};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use tempfile::tempdir;

const BLOCK: usize = 4096;
const SECTOR: usize = 512;
const CONNECTIONS: u64 = 3;
/// Blocks of each connection.
const BLOCKS: u64 = 256;
/// Writes that a connection has in flight.
const WINDOW: usize = 8;

/// What is known of a block: versions that count its writes.
#[derive(Clone, Copy, Default)]
struct Block {
    sent: u64,
    answered: u64,
    durable: u64,
}

/// A small generator of numbers, which differ from run to run only by the seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn contents(block: u64, version: u64) -> Vec<u8> {
    let sector = [&block.to_le_bytes()[..], &version.to_le_bytes()].concat();
    let whole = [sector, vec![version as u8; SECTOR - 16]].concat();
    whole.repeat(BLOCK / SECTOR)
}

fn start(spec: &str, socket: &Path) -> Child {
    let mut server = Command::new(env!("CARGO_BIN_EXE_platter"))
        .args(["serve", "--quiet", spec, "--nbd", &format!("unix:{}", socket.display())])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("unix:"), "{line}");
    server
}

/// A connection that has chosen the default export.
fn attach(path: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    stream.read_exact(&mut [0; 10]).unwrap();
    stream
}

/// One connection: it writes until the server is gone, and returns what it knows of its blocks.
struct Writer {
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

    fn run(mut self) -> (u64, Vec<Block>) {
        loop {
            let done = if self.random.below(50) == 0 { self.flush() } else { self.write() };
            if done.is_err() {
                return (self.first, self.blocks);
            }
        }
    }
}

/// Kills a server under load once. `durable_only`: what it was told to flush is there; else all that it has answered.
fn kill_once(spec: &str, file: &Path, known: &mut [Vec<Block>], random: &mut Random, durable_only: bool) {
    let socket = file.with_extension("socket");
    let mut server = start(spec, &socket);
    let (total, ready) = (Arc::new(AtomicU64::new(0)), Arc::new(Barrier::new(CONNECTIONS as usize + 1)));
    let writers: Vec<_> = (0..CONNECTIONS)
        .map(|number| {
            let (total, ready) = (Arc::clone(&total), Arc::clone(&ready));
            let (socket, blocks) = (socket.clone(), known[number as usize].clone());
            let random = Random(random.below(u64::MAX >> 33));
            thread::spawn(move || {
                let stream = attach(&socket);
                ready.wait();
                let first = number * BLOCKS;
                let in_flight = Vec::new();
                Writer { stream, first, blocks, in_flight, cookie: 0, random, total }.run()
            })
        })
        .collect();
    ready.wait();
    let enough = 20 + random.below(1500);
    while total.load(Ordering::Relaxed) < enough {
        thread::yield_now();
    }
    server.kill().unwrap();
    server.wait().unwrap();
    let disk = File::open(file).unwrap();
    for (number, writer) in writers.into_iter().enumerate() {
        let (first, blocks) = writer.join().unwrap();
        for (at, block) in blocks.iter().enumerate() {
            let least = if durable_only { block.durable } else { block.answered };
            let version = check(&disk, first + at as u64, least, block.sent);
            known[number][at] = Block { sent: block.sent, answered: version, durable: version };
        }
    }
}

/// The version of a block, which must lie in a range. Sectors may differ only if the write was in flight.
fn check(disk: &File, block: u64, least: u64, most: u64) -> u64 {
    let mut bytes = [0; BLOCK];
    disk.read_exact_at(&mut bytes, block * BLOCK as u64).unwrap();
    let versions = bytes.chunks(SECTOR).map(|sector| {
        let version = u64::from_le_bytes(sector[8..16].try_into().unwrap());
        let wanted = if version == 0 { vec![0; SECTOR] } else { contents(block, version)[..SECTOR].to_vec() };
        assert!(sector == wanted, "block {block}: contents of no write");
        assert!((least..=most).contains(&version), "block {block}: version {version}, not {least} to {most}");
        version
    });
    versions.min().unwrap_or(0)
}

fn kill_often(times: u64, over: &str, durable_only: bool) {
    let dir = tempdir().unwrap();
    let file = dir.path().join("disk");
    File::create(&file).unwrap().set_len(CONNECTIONS * BLOCKS * BLOCK as u64).unwrap();
    let spec = over.replace("DISK", file.to_str().unwrap());
    let mut known = vec![vec![Block::default(); BLOCKS as usize]; CONNECTIONS as usize];
    for seed in 0..times {
        kill_once(&spec, &file, &mut known, &mut Random(seed * 7919 + 1), durable_only);
    }
}

/// How often to kill a server: `PLATTER_KILLS`, for long runs.
fn kills() -> u64 {
    std::env::var("PLATTER_KILLS").ok().and_then(|number| number.parse().ok()).unwrap_or(5)
}

#[test]
fn what_was_answered_is_in_the_file_after_the_server_was_killed() {
    kill_often(kills(), "DISK", false);
}

#[test]
fn what_was_flushed_through_a_cache_is_in_the_file_after_the_server_was_killed() {
    kill_often(kills(), "cache(size=1M, DISK)", true);
}
