//! Several connections.

use crate::server::{Connection, EXPORT, Export, FLAGS, Server, aside, options};
use platter_block::elevator::{Elevator, Noop};
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_remote::nbd::client::NbdDisk;
use platter_remote::nbd::wire::{command, transmission_flag};
use std::sync::Arc;

const SHARED: Export = Export { flags: FLAGS | transmission_flag::CAN_MULTI_CONN, ..EXPORT };

/// Two devices over one disk, each with a connection of its own.
fn two(server: &Server) -> [(Device, Connection); 2] {
    let uri = server.uri();
    let opening = std::thread::spawn(move || {
        let disk = Arc::new(NbdDisk::open(uri, options().with_connections(2)).unwrap());
        [(); 2].map(|()| {
            let noop: Box<dyn Elevator> = Box::new(Noop::default());
            let backend = DiskBackend::over(disk.clone(), DiskSettings::default(), Some(noop));
            Device::new(Arc::new(backend.unwrap()))
        })
    });
    let connections = [server.accept(SHARED), server.accept(SHARED)];
    let [first, second] = opening.join().unwrap();
    let [a, b] = connections;
    [(first, a), (second, b)]
}

/// Answers requests of these kinds.
fn answer(connection: &mut Connection, kinds: &[u16]) {
    for kind in kinds {
        let (request, _) = connection.expect(*kind);
        connection.simple(&request, 0, &[]).unwrap();
    }
}

/// Writes and flushes; returns whether the flush succeeded.
fn write_and_flush(device: &Device) -> bool {
    device.write_at(&[1; 512], 0).unwrap();
    let flushed = device.flush().is_ok();
    if !flushed {
        device.acknowledge_flush_failure();
    }
    flushed
}

#[test]
fn a_lost_connection_of_an_idle_channel_fails_no_flush_for_ever() {
    let server = Server::new();
    let [(idle, idle_connection), (device, mut connection)] = two(&server);
    let work = aside(&device, write_and_flush);
    answer(&mut connection, &[command::WRITE, command::FLUSH]);
    assert!(work.join().unwrap());
    drop((idle_connection, connection));
    // The other connection was lost when this one came back, and everything was durable then.
    let work = aside(&device, |device| [(); 3].map(|()| write_and_flush(device)));
    let mut connection = server.accept(SHARED);
    for _ in 0..3 {
        answer(&mut connection, &[command::WRITE, command::FLUSH]);
    }
    assert_eq!(work.join().unwrap(), [true; 3]);
    // The idle channel finds out.
    let reader = aside(&idle, |device| device.read_at(&mut [0; 512], 0));
    let mut other = server.accept(SHARED);
    let (request, _) = other.expect(command::READ);
    other.data(&request, true, 0, &[0; 512]).unwrap();
    reader.join().unwrap().unwrap();
    let work = aside(&device, write_and_flush);
    answer(&mut connection, &[command::WRITE, command::FLUSH]);
    assert!(work.join().unwrap());
}

#[test]
fn a_connection_that_is_lost_later_fails_one_flush() {
    let server = Server::new();
    let [(_idle, idle_connection), (device, mut connection)] = two(&server);
    let work = aside(&device, |device| device.write_at(&[1; 512], 0));
    answer(&mut connection, &[command::WRITE]);
    work.join().unwrap().unwrap();
    drop(idle_connection);
    let work = aside(&device, |device| [(); 3].map(|()| write_and_flush(device)));
    for _ in 0..3 {
        answer(&mut connection, &[command::WRITE, command::FLUSH]);
    }
    assert_eq!(work.join().unwrap(), [false, true, true]);
}
