//! Answers to a request of which the client could send only a part.

use crate::server::{Connection, EXPORT, Export, Server, aside, opened, options, pattern};
use platter_block::fault::Kind;
use platter_disk::device::Device;
use platter_remote::nbd::wire::{Request, command, error};
use std::thread::JoinHandle;

/// More than a socket holds.
const LARGE: usize = 4 << 20;
const LARGE_EXPORT: Export = Export { size: 2 * LARGE as u64, ..EXPORT };

type Writer = JoinHandle<Result<(), Kind>>;

/// A large write that the server answers with an error once it has seen the header, and the client has the answer
/// before the server reads on.
fn refused(server: &Server, number: u32) -> (Device, Connection, Writer) {
    let (device, mut connection) = opened(server, LARGE_EXPORT, options(), None);
    let writer =
        aside(&device, |device| device.write_at(&pattern(LARGE), 4096).map_err(|error| error.fault.kind));
    let mut header = [0; Request::BYTES];
    connection.read(&mut header).unwrap();
    let request = Request::parse(&header).expect("a request");
    assert_eq!((request.kind, request.length as usize), (command::WRITE, LARGE));
    connection.simple(&request, number, &[]).unwrap();
    connection.await_taken();
    (device, connection, writer)
}

/// A write and a read of a few bytes.
fn exchange(device: &Device, connection: &mut Connection) {
    let calls = aside(device, |device| {
        device.write_at(&[7; 512], 512).unwrap();
        let mut data = [0; 512];
        device.read_at(&mut data, 1024).unwrap();
        data
    });
    let (request, data) = connection.expect(command::WRITE);
    assert_eq!((request.offset, &data[..]), (512, &[7; 512][..]));
    connection.simple(&request, 0, &[]).unwrap();
    let (request, _) = connection.expect(command::READ);
    assert_eq!((request.offset, request.length), (1024, 512));
    connection.data(&request, true, 1024, &[9; 512]).unwrap();
    assert_eq!(calls.join().unwrap(), [9; 512]);
}

#[test]
fn the_rest_of_a_write_follows_its_early_error() {
    let server = Server::new();
    let (device, mut connection, writer) = refused(&server, error::EIO);
    let mut data = vec![0; LARGE];
    connection.read(&mut data).unwrap();
    assert!(data == pattern(LARGE), "the rest is that of the write");
    assert_eq!(writer.join().unwrap(), Err(Kind::Io));
    exchange(&device, &mut connection);
}

#[test]
fn the_early_error_counts_if_the_connection_ends_then() {
    let server = Server::new();
    let (device, connection, writer) = refused(&server, error::ENOSPC);
    drop(connection);
    assert_eq!(writer.join().unwrap(), Err(Kind::NoSpace));
    let reader = aside(&device, |device| device.read_at(&mut [0; 512], 0));
    let mut connection = server.accept(LARGE_EXPORT);
    let (request, _) = connection.expect(command::READ);
    connection.data(&request, true, 0, &[0; 512]).unwrap();
    reader.join().unwrap().unwrap();
    exchange(&device, &mut connection);
}

#[test]
fn a_server_that_shuts_down_need_not_take_the_rest() {
    let server = Server::new();
    let (device, mut connection, writer) = refused(&server, error::ESHUTDOWN);
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut connection.stream, &mut rest).unwrap();
    assert!(rest.len() < LARGE, "the client ends its side in the middle of the write");
    assert!(rest == pattern(LARGE)[..rest.len()]);
    drop(connection);
    let mut connection = server.accept(LARGE_EXPORT);
    let (request, data) = connection.expect(command::WRITE);
    assert!(data == pattern(LARGE));
    connection.simple(&request, 0, &[]).unwrap();
    assert_eq!(writer.join().unwrap(), Ok(()));
    exchange(&device, &mut connection);
}

#[test]
fn an_early_success_is_none() {
    let server = Server::new();
    let (device, mut connection, writer) = refused(&server, 0);
    std::io::Read::read_to_end(&mut connection.stream, &mut Vec::new()).unwrap();
    drop(connection);
    assert_eq!(writer.join().unwrap(), Err(Kind::Io));
    drop(device);
}
