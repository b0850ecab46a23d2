//! A warm NBD connection allocates nothing. A test of its own: the allocator counts for the whole process.

#[path = "../../../lib/platter-disk/tests/allocations/counting.rs"]
mod counting;

use counting::allocations;
use platter::registry::{self, Access};
use platter_remote::nbd::wire::{Request, SimpleReply, command, command_flag};
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_serve::server::Server;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// Requests of each kind in a batch.
const EACH: u64 = 8;
const BYTES: u32 = 4096;

/// Reads, writes, durable writes, zeroes and a flush, as one piece of bytes; and the length of the replies.
fn batch() -> (Vec<u8>, usize) {
    let mut bytes = Vec::new();
    for at in 0..EACH {
        let mut add = |kind, flags, offset: u64| {
            let request = Request { flags, kind, cookie: at, offset, length: BYTES };
            bytes.extend_from_slice(&request.to_bytes());
            if kind == command::WRITE {
                bytes.resize(bytes.len() + BYTES as usize, at as u8);
            }
        };
        add(command::READ, 0, at * 8192);
        add(command::WRITE, 0, (1 << 20) | (at * 8192));
        add(command::WRITE, command_flag::FUA, (2 << 20) | (at * 8192));
        add(command::WRITE_ZEROES, 0, (3 << 20) | (at * 8192));
    }
    bytes.extend_from_slice(&Request { kind: command::FLUSH, ..Request::default() }.to_bytes());
    let replies = (4 * EACH as usize + 1) * SimpleReply::BYTES + EACH as usize * BYTES as usize;
    (bytes, replies)
}

/// A connection that has chosen the default export.
fn attach(path: &str) -> UnixStream {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    stream.read_exact(&mut [0; 10]).unwrap();
    stream
}

fn run(stream: &mut UnixStream, batch: &[u8], replies: &mut [u8], times: usize) {
    for _ in 0..times {
        stream.write_all(batch).unwrap();
        stream.read_exact(replies).unwrap();
    }
}

#[test]
fn a_warm_connection_allocates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("file({}, create=8M)", folder.path().join("disk").display());
    for spec in ["ram(8M)", &file] {
        let device = registry::open(spec, Access::read_write()).unwrap();
        let mut server = Server::default();
        server.devices().add(Served::new("disk", device).unwrap()).unwrap();
        let path = folder.path().join("socket").display().to_string();
        server.start("nbd", &format!("unix:{path}"), &Options::default()).unwrap();
        let mut stream = attach(&path);
        let (batch, length) = batch();
        let mut replies = vec![0; length];
        run(&mut stream, &batch, &mut replies, 300);
        let before = allocations();
        run(&mut stream, &batch, &mut replies, 300);
        let made = allocations() - before;
        // Lists grow with the largest batch so far, which the kernel's timing decides.
        assert!(made <= 16, "{spec}: {made} allocations for 300 batches of {} requests", 4 * EACH + 1);
        drop(stream);
        server.stop(std::time::Duration::from_secs(30)).unwrap();
    }
}
