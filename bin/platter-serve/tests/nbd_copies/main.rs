//! How often the NBD server copies payload, by an instrument that does not use the server's own counts.
#![cfg(target_arch = "x86_64")]

mod memory_calls;

use memory_calls::{copied_bytes, leave_out};
use platter::registry::{self, Access};
use platter_remote::nbd::wire::{Request, SimpleReply, command};
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_serve::server::Server;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

const DEPTH: u64 = 16;
/// Batches before the instrument counts: lists grow to their size.
const WARM: u64 = 5;
const ROUNDS: u64 = 20;

/// Bytes copied per byte of payload: by the instrument, and by the server's own account.
#[derive(Debug)]
struct Copied {
    seen: f64,
    told: f64,
}

fn attach(path: &str) -> UnixStream {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    stream.read_exact(&mut [0; 10]).unwrap();
    stream
}

/// Batches of requests of one kind and size, over a device that touches no data.
fn measure(kind: u16, bytes: u32, options: &Options) -> Copied {
    let folder = tempfile::tempdir().unwrap();
    let device = registry::open("null(1G)", Access::read_write()).unwrap();
    let mut server = Server::default();
    server.devices().add(Served::new("disk", device).unwrap()).unwrap();
    let path = folder.path().join("socket").display().to_string();
    server.start("nbd", &format!("unix:{path}"), options).unwrap();
    let mut stream = attach(&path);
    let client = server.clients().list().remove(0);
    let mut batch = Vec::new();
    for at in 0..DEPTH {
        let offset = at * u64::from(bytes);
        batch.extend(Request { flags: 0, kind, cookie: at, offset, length: bytes }.to_bytes());
        if kind == command::WRITE {
            batch.resize(batch.len() + bytes as usize, 1);
        }
    }
    let data = if kind == command::READ { bytes as usize } else { 0 };
    let mut replies = vec![0; DEPTH as usize * (SimpleReply::BYTES + data)];
    let mut run = |times| {
        for _ in 0..times {
            stream.write_all(&batch).unwrap();
            stream.read_exact(&mut replies).unwrap();
        }
    };
    run(WARM);
    let before = copied_bytes();
    run(ROUNDS);
    let seen = copied_bytes() - before;
    drop(stream);
    server.stop(Duration::from_secs(30)).unwrap();
    let payload = |rounds: u64| (rounds * DEPTH * u64::from(bytes)) as f64;
    let told = client.counts.copied_bytes.load(Ordering::Relaxed);
    Copied { seen: seen as f64 / payload(ROUNDS), told: told as f64 / payload(WARM + ROUNDS) }
}

/// Measures, and compares both counts.
fn agreed(kind: u16, bytes: u32, options: &Options) -> f64 {
    let copied = measure(kind, bytes, options);
    // The server also counts parts of headers and short pieces of payload; a batch can be cut otherwise while it is warmed.
    assert!((copied.seen - copied.told).abs() < 0.05, "command {kind}, {bytes} bytes: {copied:?}");
    copied.seen
}

#[test]
fn the_server_copies_no_read_and_only_small_writes() {
    memory_calls::check();
    leave_out();
    let (straight, mut staged) = (Options::default(), Options::default());
    staged.staged = true;
    for bytes in [4096, 128 << 10] {
        let read = measure(command::READ, bytes, &straight);
        // A list may still grow.
        assert!(read.seen < 0.005 && read.told == 0.0, "reads of {bytes}: {read:?}");
        assert!((0.99..=1.01).contains(&agreed(command::READ, bytes, &staged)), "staged reads of {bytes}");
        assert!(agreed(command::WRITE, bytes, &staged) >= 0.99, "staged writes of {bytes}");
    }
    let small = agreed(command::WRITE, 4096, &straight);
    assert!((0.5..=1.2).contains(&small), "small writes arrive together with their headers: {small}");
    let large = agreed(command::WRITE, 128 << 10, &straight);
    assert!(large < 0.2, "large writes: {large}");
}
