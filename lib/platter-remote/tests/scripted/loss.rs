//! Connections that end: at every byte, with and without what was written.

use crate::server::{Connection, EXPORT, Export, SIZE, Server, Store, aside, open, opened, options, store};
use platter_block::fault::Kind;
use platter_block::time::Span;
use platter_remote::nbd::client::NbdOptions;
use platter_remote::nbd::wire::{command, error};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Serves connections one after the other, until a client says goodbye. Before each, `prepare` gets its number.
fn serve_all(
    server: Server,
    kept: &Store,
    structured: bool,
    mut prepare: impl FnMut(usize, &mut Connection, &Store) + Send + 'static,
) -> JoinHandle<usize> {
    let kept = Arc::clone(kept);
    std::thread::spawn(move || {
        for number in 0.. {
            let mut connection = server.accept(Export { structured, ..EXPORT });
            prepare(number, &mut connection, &kept);
            if connection.serve(&kept, structured).is_ok() {
                return number;
            }
        }
        unreachable!()
    })
}

/// Writes, reads, flushes; returns whether the flush succeeded.
fn exchange(server: Server, options: NbdOptions, structured: bool, input: u64, output: u64) -> (bool, bool) {
    let kept = store();
    let uri = server.uri();
    let seen = Arc::clone(&kept);
    let serving = serve_all(server, &kept, structured, move |number, connection, _| {
        if number == 0 {
            (connection.input, connection.output) = (input, output);
        }
    });
    let device = open(uri, options, None).unwrap();
    device.write_at(&[7; 1024], 512).unwrap();
    let mut data = [0; 2048];
    device.read_at(&mut data, 0).unwrap();
    assert!(data[512..1536] == [7; 1024] && data[..512] == [0; 512]);
    let flushed = device.flush().is_ok();
    if !flushed {
        device.acknowledge_flush_failure();
        device.flush().unwrap();
    }
    drop(device);
    let connections = serving.join().unwrap();
    assert!(seen.lock().unwrap()[512..1536] == [7; 1024]);
    (flushed, connections > 0)
}

/// Bytes from the client in an exchange: a write, a read, a flush; and to it.
const INPUT: u64 = 28 + 1024 + 28 + 28;
const OUTPUT: u64 = 16 + (28 + 2048) + 16;

#[test]
fn a_connection_may_end_before_any_byte() {
    let places = |all: u64| (0..all).filter(move |at| at % 97 == 0 || at % 1024 < 60 || all - at < 60);
    for structured in [true, false] {
        let least = if structured { 0 } else { 12 };
        for at in places(INPUT) {
            let (flushed, again) = exchange(Server::new(), options(), structured, at, u64::MAX);
            // The write was answered once its last byte had arrived.
            assert_eq!(flushed, at < 28 + 1024, "input ends at {at}");
            assert!(again, "input ends at {at}");
        }
        for at in places(OUTPUT - least) {
            let (flushed, _) = exchange(Server::new(), options(), structured, u64::MAX, at);
            assert_eq!(flushed, at < 16, "output ends at {at}");
        }
    }
}

#[test]
fn with_replay_no_flush_fails() {
    let options = options().with_replay(1 << 20);
    for at in [0, 15, 16, 17, 900, 2000, OUTPUT - 1] {
        assert!(exchange(Server::new(), options, true, u64::MAX, at).0, "output ends at {at}");
    }
}

#[test]
fn what_a_server_has_lost_is_written_again() {
    let server = Server::new();
    let (uri, kept) = (server.uri(), store());
    let serving = serve_all(server, &kept, true, |number, connection, kept| {
        match number {
            // Two writes, write-zeroes, a flush, two writes are answered.
            0 => connection.output = 6 * 16,
            // All but what was flushed is lost.
            1 => kept.lock().unwrap()[8192..].fill(0xdd),
            _ => {}
        }
    });
    let device = open(uri, options().with_replay(1 << 20), None).unwrap();
    device.write_at(&[1; 4096], 0).unwrap();
    device.write_at(&[2; 4096], 4096).unwrap();
    device.write_zeroes(2048, 2048).unwrap();
    device.flush().unwrap();
    device.write_at(&[3; 8192], 8192).unwrap();
    device.write_at(&[4; 512], 12288).unwrap();
    // This one is not answered by the first server.
    device.write_zeroes(16384, 1024).unwrap();
    device.flush().unwrap();
    let mut data = vec![0; 17408];
    device.read_at(&mut data, 0).unwrap();
    let expected = [(2048, 1), (2048, 0), (4096, 2), (4096, 3), (512, 4), (3584, 3), (1024, 0)];
    let expected: Vec<u8> = expected.iter().flat_map(|&(len, byte)| vec![byte; len]).collect();
    assert!(data == expected);
    assert_eq!(
        device.facts().iter().find(|fact| fact.0 == "reconnects").map(|fact| fact.1.as_str()),
        Some("1")
    );
    drop(device);
    serving.join().unwrap();
}

#[test]
fn another_disk_is_not_used() {
    let server = Server::new();
    let (device, mut connection) = opened(&server, EXPORT, options(), None);
    let reader = aside(&device, |device| device.read_at(&mut [0; 512], 0).unwrap_err());
    connection.expect(command::READ);
    drop(connection);
    server.accept(Export { size: SIZE * 2, ..EXPORT });
    let error = reader.join().unwrap();
    assert_eq!(error.fault.kind, Kind::Gone);
    assert!(error.to_string().contains("its size was 1048576 bytes and is 2097152 bytes"), "{error}");
    let again = device.write_at(&[0; 512], 0).unwrap_err();
    assert_eq!(again.fault.kind, Kind::Gone, "for good");
}

#[test]
fn without_a_server_io_fails_in_time_and_works_again_later() {
    let server = Server::new();
    let path = server.folder.path().join("s");
    let quick = options().with_reconnect(Span::from_millis(100));
    let (device, connection) = opened(&server, EXPORT, quick, None);
    let Server { listener, folder } = server;
    drop((connection, listener));
    std::fs::remove_file(&path).unwrap();
    for _ in 0..3 {
        let error = device.read_at(&mut [0; 512], 0).unwrap_err();
        assert_eq!(error.fault.kind, Kind::Gone);
        assert!(error.to_string().contains("no connection"), "{error}");
    }
    assert!(device.flush().is_err_and(|error| error.fault.kind == Kind::Gone));
    device.acknowledge_flush_failure();
    let server = Server { listener: std::os::unix::net::UnixListener::bind(&path).unwrap(), folder };
    let serving = serve_all(server, &store(), true, |_, _, _| {});
    // An attempt is made at most once a second.
    while device.read_at(&mut [0; 512], 0).is_err() {
        std::thread::yield_now();
    }
    device.flush().unwrap();
    drop(device);
    assert_eq!(serving.join().unwrap(), 0);
}

#[test]
fn a_server_that_shuts_down_gets_the_request_again() {
    let server = Server::new();
    let (device, mut connection) = opened(&server, EXPORT, options(), None);
    let writer = aside(&device, |device| device.write_at(&[5; 512], 0));
    let (request, _) = connection.expect(command::WRITE);
    connection.simple(&request, error::ESHUTDOWN, &[]).unwrap();
    assert!(connection.is_ended());
    drop(connection);
    let mut connection = server.accept(EXPORT);
    let (request, data) = connection.expect(command::WRITE);
    assert_eq!(data, [5; 512]);
    connection.simple(&request, 0, &[]).unwrap();
    writer.join().unwrap().unwrap();
}

#[test]
fn a_request_that_kills_the_server_is_not_sent_forever() {
    let server = Server::new();
    let (device, mut connection) = opened(&server, EXPORT, options(), None);
    let reader = aside(&device, |device| device.read_at(&mut [0; 512], 0).unwrap_err());
    for attempt in 1.. {
        connection.expect(command::READ);
        drop(connection);
        if attempt == 4 {
            break;
        }
        connection = server.accept(EXPORT);
    }
    assert_eq!(reader.join().unwrap().fault.kind, Kind::Io);
}

#[test]
fn the_only_connection_is_not_given_to_one_thread() {
    let server = Server::new();
    let uri = server.uri();
    let serving = serve_all(server, &store(), true, |_, _, _| {});
    let device = open(uri, options(), None).unwrap();
    device.write_at(&[1; 512], 0).unwrap();
    let error = device.set_elevator("none").unwrap_err();
    assert!(error.to_string().contains("only with an elevator"), "{error}");
    device.flush().unwrap();
    drop(device);
    assert_eq!(serving.join().unwrap(), 0);
}
