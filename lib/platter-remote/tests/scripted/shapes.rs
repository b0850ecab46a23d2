//! Replies: every shape, and what must not be one.

use crate::server::{EXPORT, Export, FLAGS, SIZE, Server, aside, open, opened, options, pattern, store};
use platter_block::fault::Kind;
use platter_remote::nbd::wire::{Chunk, Request, SimpleReply, chunk, command, error, transmission_flag};
use std::io::Write;

/// A read of `len` bytes at 4096, answered by `answer`.
fn read(
    structured: bool,
    len: usize,
    answer: impl FnOnce(&mut crate::server::Connection, &Request),
) -> Result<Vec<u8>, Kind> {
    let server = Server::new();
    let (device, mut connection) = opened(&server, Export { structured, ..EXPORT }, options(), None);
    let reader = aside(&device, move |device| {
        let mut data = vec![0xee; len];
        device.read_at(&mut data, 4096).map(|()| data).map_err(|error| error.fault.kind)
    });
    let (request, _) = connection.expect(command::READ);
    assert_eq!((request.offset, request.length as usize), (4096, len));
    answer(&mut connection, &request);
    drop(connection.stream);
    reader.join().unwrap()
}

#[test]
fn reads_come_in_pieces_of_every_kind() {
    let data = pattern(8192);
    let whole = data.clone();
    assert_eq!(read(true, 8192, |c, r| c.data(r, true, 4096, &whole).unwrap()), Ok(data.clone()));
    assert_eq!(read(false, 8192, |c, r| c.simple(r, 0, &whole).unwrap()), Ok(data.clone()));
    let mut mixed = data.clone();
    mixed[1000..3000].fill(0);
    let parts = mixed.clone();
    let pieces = |c: &mut crate::server::Connection, r: &Request| {
        c.data(r, false, 4096 + 3000, &parts[3000..]).unwrap();
        c.chunk(r, false, chunk::NONE, &[]).unwrap();
        c.hole(r, false, 4096 + 1000, 2000).unwrap();
        c.data(r, false, 4096, &parts[..500]).unwrap();
        c.data(r, false, 4096 + 500, &parts[500..1000]).unwrap();
        c.chunk(r, true, chunk::NONE, &[]).unwrap();
    };
    assert_eq!(read(true, 8192, pieces), Ok(mixed));
    assert_eq!(read(true, 8192, |c, r| c.hole(r, true, 4096, 8192).unwrap()), Ok(vec![0; 8192]));
}

#[test]
fn a_reply_may_come_byte_by_byte() {
    let data = pattern(512);
    let sent = data.clone();
    let result = read(true, 512, |c, r| {
        let header = Chunk { flags: 1, kind: chunk::OFFSET_DATA, cookie: r.cookie, length: 520 };
        let bytes = [&header.to_bytes()[..], &4096u64.to_be_bytes(), &sent].concat();
        bytes.iter().for_each(|byte| c.stream.write_all(&[*byte]).unwrap());
    });
    assert_eq!(result, Ok(data));
}

#[test]
fn errors_of_the_server_are_errors_of_the_bio() {
    for (number, kind) in [
        (error::EIO, Kind::Io),
        (error::ENOSPC, Kind::NoSpace),
        (error::ENOTSUP, Kind::Unsupported),
        (error::EOVERFLOW, Kind::Io),
        (error::ENOMEM, Kind::Io),
        (9999, Kind::Io),
    ] {
        assert_eq!(read(false, 512, |c, r| c.simple(r, number, &[]).unwrap()), Err(kind), "{number}");
        assert_eq!(read(true, 512, |c, r| c.error(r, true, number, None).unwrap()), Err(kind), "{number}");
        let late = |c: &mut crate::server::Connection, r: &Request| {
            c.data(r, false, 4096, &[1; 512]).unwrap();
            c.error(r, false, number, Some(4096 + 100)).unwrap();
            c.chunk(r, true, chunk::NONE, &[]).unwrap();
        };
        assert_eq!(read(true, 512, late), Err(kind), "{number}");
    }
}

/// By `EPERM` a server refuses to change an export that is read-only. A read of that export is not refused for that.
#[test]
fn a_change_that_is_not_permitted_is_one_of_a_read_only_export_and_a_read_is_not() {
    let server = Server::new();
    let (device, mut connection) = opened(&server, EXPORT, options(), None);
    let calls = aside(&device, |device| {
        let kind = |result: Result<(), platter_block::fault::Error>| result.unwrap_err().fault.kind;
        let changes = [
            kind(device.write_durable_at(&[1; 512], 0)),
            kind(device.discard(4096, 8192)),
            kind(device.write_zeroes(8192, 4096)),
        ];
        (changes, kind(device.read_at(&mut [0; 512], 4096)), kind(device.flush()))
    });
    for kind in [command::WRITE, command::TRIM, command::WRITE_ZEROES, command::READ, command::FLUSH] {
        let (request, _) = connection.expect(kind);
        connection.error(&request, true, error::EPERM, None).unwrap();
    }
    assert_eq!(calls.join().unwrap(), ([Kind::ReadOnly; 3], Kind::Refused, Kind::Refused));
    drop((device, connection));
    let read_only = Export { flags: FLAGS | transmission_flag::READ_ONLY, ..EXPORT };
    let (device, mut connection) = opened(&server, read_only, options().with_write(false), None);
    let call = aside(&device, |device| device.read_at(&mut [0; 512], 4096).unwrap_err().to_string());
    let (request, _) = connection.expect(command::READ);
    connection.error(&request, true, error::EPERM, None).unwrap();
    let error = call.join().unwrap();
    assert!(
        error.ends_with("read of 512 bytes at 4096: the operation is not permitted (errno 1)"),
        "{error}"
    );
}

type Script = fn(&mut crate::server::Connection, &Request);

/// Answers that no server may give to a read of 1,024 bytes at 4096.
const GARBAGE: &[(&str, Script)] = &[
    ("a magic number", |c, _| c.write(&[0x5a; 16]).unwrap()),
    ("another cookie", |c, r| c.simple(&Request { cookie: r.cookie + 1, ..*r }, 5, &[]).unwrap()),
    ("a simple reply to a read", |c, r| c.simple(r, 0, &[0; 1024]).unwrap()),
    ("too little", |c, r| c.data(r, true, 4096, &[0; 1000]).unwrap()),
    ("too much", |c, r| c.data(r, true, 4096, &[0; 1025]).unwrap()),
    ("before the range", |c, r| c.data(r, true, 4095, &[0; 1024]).unwrap()),
    ("nothing", |c, r| c.chunk(r, true, chunk::NONE, &[]).unwrap()),
    ("a hole past the end", |c, r| c.hole(r, true, 4096, u32::MAX).unwrap()),
    ("far away", |c, r| c.hole(r, true, u64::MAX, 1024).unwrap()),
    ("twice the same", |c, r| {
        c.data(r, false, 4096, &[0; 512]).unwrap();
        c.hole(r, true, 4096 + 511, 513).unwrap();
    }),
    ("an endless error", |c, r| {
        let header = Chunk { flags: 1, kind: chunk::ERROR, cookie: r.cookie, length: u32::MAX };
        c.write(&header.to_bytes()).unwrap();
    }),
    ("an unknown chunk", |c, r| c.chunk(r, true, 77, &[]).unwrap()),
    ("an error without a number", |c, r| c.error(r, true, 0, None).unwrap()),
    ("a status", |c, r| c.chunk(r, true, chunk::BLOCK_STATUS, &[1; 12]).unwrap()),
];

#[test]
fn garbage_fails_what_was_sent_and_the_next_connection_is_clean() {
    for (name, script) in GARBAGE {
        let server = Server::new();
        let (device, mut connection) = opened(&server, EXPORT, options(), None);
        let first = aside(&device, |device| device.read_at(&mut [0; 1024], 4096));
        let (request, _) = connection.expect(command::READ);
        script(&mut connection, &request);
        assert!(connection.is_ended(), "{name}: the client ends the connection");
        drop(connection);
        let error = first.join().unwrap().unwrap_err();
        assert_eq!(error.fault.kind, Kind::Io, "{name}");
        assert!(error.to_string().contains("does not keep to the NBD protocol"), "{name}: {error}");
        let second = aside(&device, |device| {
            let mut data = [9; 512];
            device.read_at(&mut data, 0).map(|()| data)
        });
        let mut connection = server.accept(EXPORT);
        let (request, _) = connection.expect(command::READ);
        connection.data(&request, true, 0, &[3; 512]).unwrap();
        assert_eq!(second.join().unwrap().unwrap(), [3; 512], "{name}");
    }
}

#[test]
fn requests_say_what_the_bios_ask_for() {
    let server = Server::new();
    let (device, mut connection) = opened(&server, EXPORT, options(), None);
    let calls = aside(&device, |device| {
        device.write_durable_at(&[1; 512], 0).unwrap();
        device.discard(4096, 8192).unwrap();
        device.write_zeroes(8192, 4096).unwrap();
        device.flush().unwrap();
        // 64 MiB do not exist, and 33 MiB do not fit into one request.
        assert!(device.read_at(&mut [0; 512], SIZE).is_err());
    });
    for (kind, flags, offset, length) in [
        (command::WRITE, 1, 0, 512),
        (command::TRIM, 0, 4096, 8192),
        (command::WRITE_ZEROES, 0, 8192, 4096),
        (command::FLUSH, 0, 0, 0),
    ] {
        let (request, data) = connection.expect(kind);
        assert_eq!((request.flags, request.offset, request.length), (flags, offset, length));
        assert!(data.iter().all(|byte| *byte == 1));
        connection.simple(&request, 0, &[]).unwrap();
    }
    calls.join().unwrap();
    drop(device);
    assert_eq!(connection.request().unwrap().0.kind, command::DISC, "a polite end");
}

#[test]
fn what_does_not_fit_the_server_is_refused() {
    let refused = |export: Export, options| {
        let server = Server::new();
        let uri = server.uri();
        let client = std::thread::spawn(move || open(uri, options, None).map(drop));
        // A client that has refused may be gone.
        let _ = server.accept_raw().negotiate(export);
        client.join().unwrap().unwrap_err().to_string()
    };
    let read_only = Export { flags: FLAGS | transmission_flag::READ_ONLY, ..EXPORT };
    assert!(refused(read_only, options()).contains("read-only"));
    assert!(refused(EXPORT, options().with_connections(2)).contains("CAN_MULTI_CONN"));
    assert!(refused(Export { size: u64::MAX, ..EXPORT }, options()).contains("beyond 2^63"));
}

#[test]
fn a_server_that_says_nothing_is_left() {
    let server = Server::new();
    let quick = options().with_connect_timeout(platter_block::time::Span::from_millis(50));
    let error = open(server.uri(), quick, None).unwrap_err();
    assert!(error.to_string().contains("does not answer"), "{error}");
}

#[test]
fn a_large_write_passes_a_small_socket() {
    let server = Server::new();
    let (device, mut connection) = opened(&server, EXPORT, options(), None);
    let kept = store();
    let seen = kept.clone();
    let serving = std::thread::spawn(move || connection.serve(&seen, true));
    let data = pattern(SIZE as usize);
    device.write_at(&data, 0).unwrap();
    assert!(*kept.lock().unwrap() == data);
    let mut found = vec![0; SIZE as usize];
    device.read_at(&mut found, 0).unwrap();
    assert!(found == data);
    drop(device);
    serving.join().unwrap().unwrap();
    assert_eq!(SimpleReply::BYTES, 16);
}
