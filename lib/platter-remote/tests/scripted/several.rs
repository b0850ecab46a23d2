//! Several connections.

use crate::server::{Connection, EXPORT, Export, FLAGS, Server, aside, options};
use platter_block::bio::Bio;
use platter_block::elevator::{Elevator, Noop};
use platter_block::fault::Kind;
use platter_block::time::Span;
use platter_disk::channel::Channel;
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

/// Sends a bio through a channel; returns how it has failed.
fn failure(channel: &mut Channel, bio: Bio) -> Option<Kind> {
    channel.submit(bio).map_err(|_| "full").unwrap();
    let mut done = Vec::new();
    channel.wait(&mut done, Some(Span::from_secs(60)));
    done.pop().expect("it ends").status().err().map(|fault| fault.kind)
}

#[test]
fn what_a_dropped_channel_has_left_at_the_server_ends_the_disk() {
    let server = Server::new();
    let uri = server.uri();
    let client = std::thread::spawn(move || {
        let options = options().with_connections(3).with_peer_timeout(Span::from_millis(50));
        let disk = Arc::new(NbdDisk::open(uri, options).unwrap());
        let backend = DiskBackend::over(disk, DiskSettings::default(), None).unwrap();
        let device = Device::new(Arc::new(backend));
        let [mut first, mut second] = [(); 2].map(|()| device.channel(1).unwrap());
        let mut late = Bio::write(4096, vec![1u8; 512]).unwrap();
        late.set_deadline(Some(first.clock().now() + Span::from_secs(1)));
        assert_eq!(failure(&mut first, late), Some(Kind::TimedOut));
        drop(first);
        failure(&mut second, Bio::write(4096, vec![2u8; 512]).unwrap())
    });
    // The first connection is that for flushes and for what waits for other lanes.
    let mut connections = [(); 3].map(|()| server.accept(SHARED));
    connections[1].expect(command::WRITE);
    assert_eq!(client.join().unwrap(), Some(Kind::Gone));
    for connection in &mut connections {
        while let Ok((request, _)) = connection.request() {
            assert_eq!(request.kind, command::DISC, "nothing else is sent");
        }
    }
}
