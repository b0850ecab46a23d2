//! Servers that send much, or do not stop.

use crate::server::{EXPORT, Server, aside, opened, options, pattern};
use platter_block::fault::Kind;
use platter_block::time::Span;
use platter_disk::sync_io::IoOptions;
use platter_remote::nbd::wire::{Chunk, chunk, chunk_flag, command};

/// More than the client takes of a flood, and the sockets hold.
const MOST: usize = 4 << 20;

/// Chunks of a reply that bring no data.
const CHUNKS: [(u16, &[u8]); 2] = [(chunk::NONE, &[]), (chunk::ERROR, &[0, 0, 0, 5, 0, 0])];

#[test]
fn a_server_that_sends_chunks_for_ever_is_left() {
    for (kind, body) in CHUNKS {
        let server = Server::new();
        let (device, mut connection) = opened(&server, EXPORT, options(), None);
        let timeout = IoOptions::timeout(Span::from_millis(100));
        let reader =
            aside(&device, move |device| device.read_at_with(&mut [0; 512], 4096, timeout).unwrap_err());
        let (request, _) = connection.expect(command::READ);
        let flood = std::thread::spawn(move || {
            let mut bytes = 0;
            while bytes < MOST && connection.chunk(&request, false, kind, body).is_ok() {
                bytes += Chunk::BYTES + body.len();
            }
            bytes
        });
        let error = reader.join().unwrap();
        assert!(matches!(error.fault.kind, Kind::Io | Kind::TimedOut), "{error}");
        drop(device);
        assert!(flood.join().unwrap() < MOST);
    }
}

#[test]
fn a_read_may_come_in_more_pieces_than_are_received_at_once() {
    let server = Server::new();
    let (device, mut connection) = opened(&server, EXPORT, options(), None);
    let data = pattern(1 << 16);
    let reader = aside(&device, |device| {
        let mut data = vec![0; 1 << 16];
        device.read_at(&mut data, 0).map(|()| data)
    });
    let (request, _) = connection.expect(command::READ);
    let piece = |at: usize| {
        let flags = if at + 1 == data.len() { chunk_flag::DONE } else { 0 };
        let header = Chunk { flags, kind: chunk::OFFSET_DATA, cookie: request.cookie, length: 9 };
        [&header.to_bytes()[..], &(at as u64).to_be_bytes(), &data[at..=at]].concat()
    };
    let pieces: Vec<u8> = (0..data.len()).flat_map(piece).collect();
    connection.write(&pieces).unwrap();
    assert!(reader.join().unwrap().unwrap() == data);
}
