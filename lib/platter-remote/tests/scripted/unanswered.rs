//! Changes that the server may still carry out after the client has left the connection.

use crate::server::{Connection, EXPORT, Server, aside, opened, options};
use platter_block::fault::Kind;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::sync_io::IoOptions;
use platter_remote::nbd::client::NbdOptions;
use platter_remote::nbd::wire::command;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

/// The client leaves a connection that sends garbage, but the server keeps it open: it may still carry out a write.
fn leave(server: &Server, options: NbdOptions) -> (Device, Connection, std::thread::JoinHandle<Kind>) {
    let (device, mut connection) = opened(server, EXPORT, options, None);
    let timeout = IoOptions::timeout(Span::from_secs(1));
    let writer =
        aside(&device, move |device| device.write_at_with(&[1; 4096], 4096, timeout).unwrap_err().fault.kind);
    connection.expect(command::WRITE);
    connection.write(&[0x5a; 16]).unwrap();
    (device, connection, writer)
}

#[test]
fn what_may_still_land_keeps_its_range_and_nothing_else() {
    let server = Server::new();
    let options = options().with_peer_timeout(Span::from_millis(50)).with_reconnect(Span::from_secs(3600));
    let (device, old, writer) = leave(&server, options);
    assert_eq!(writer.join().unwrap(), Kind::TimedOut);
    // Other ranges are used over a new connection.
    let reader = aside(&device, |device| device.read_at(&mut [0; 512], 0));
    let mut new = server.accept(EXPORT);
    let (request, _) = new.expect(command::READ);
    new.data(&request, true, 0, &[0; 512]).unwrap();
    reader.join().unwrap().unwrap();
    // The range of the write is not.
    let late = IoOptions::timeout(Span::from_millis(100));
    let error = device.write_at_with(&[2; 512], 4096, late).unwrap_err();
    assert_eq!(error.fault.kind, Kind::TimedOut, "it waited");
    let error = device.flush_with(late).unwrap_err();
    assert_eq!(error.fault.kind, Kind::Unsettled, "{error}");
    assert!(new.stream.set_nonblocking(true).is_ok() && new.request().is_err(), "nothing was sent");
    drop((old, new));
}

#[test]
fn a_write_without_a_timeout_ends_the_disk() {
    let server = Server::new();
    let options = options().with_peer_timeout(Span::from_millis(50)).with_reconnect(Span::from_millis(100));
    let (device, mut connection) = opened(&server, EXPORT, options, None);
    let writer = aside(&device, |device| device.write_at(&[1; 4096], 4096).unwrap_err());
    connection.expect(command::WRITE);
    connection.write(&[0x5a; 16]).unwrap();
    let error = writer.join().unwrap();
    assert!(error.to_string().contains("may still change the disk"), "{error}");
    assert_eq!(device.read_at(&mut [0; 512], 0).unwrap_err().fault.kind, Kind::Gone, "for good");
    drop(connection);
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Awaits a future on a thread of its own; panics if it does not end.
fn outcome<F: Future<Output: Send + 'static> + Send + Unpin + 'static>(mut future: F) -> F::Output {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        loop {
            match Pin::new(&mut future).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(outcome) => return tell.send(outcome),
                Poll::Pending => std::thread::park(),
            }
        }
    });
    told.recv_timeout(Duration::from_secs(60)).expect("it ends")
}

/// The program waits for a write that it has cancelled, and the server cannot be asked to end it.
#[test]
fn a_cancelled_write_without_a_timeout_ends_the_disk_too() {
    let server = Server::new();
    let options = options().with_peer_timeout(Span::from_millis(50)).with_reconnect(Span::from_millis(100));
    let (device, mut connection) = opened(&server, EXPORT, options, None);
    let mut write = device.write(4096, vec![1u8; 4096]);
    assert!(Pin::new(&mut write).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    connection.expect(command::WRITE);
    write.cancel();
    connection.write(&[0x5a; 16]).unwrap();
    let error = outcome(write).0.unwrap_err();
    assert!(error.fault.is_of_transport(), "{error}");
    assert_eq!(device.read_at(&mut [0; 512], 0).unwrap_err().fault.kind, Kind::Gone, "for good");
    drop(connection);
}

#[test]
fn a_write_fails_and_is_over_once_the_server_has_closed() {
    let server = Server::new();
    let (device, mut connection) = opened(&server, EXPORT, options(), None);
    let writer = aside(&device, |device| device.write_at(&[1; 4096], 4096).unwrap_err().fault.kind);
    connection.expect(command::WRITE);
    connection.write(&[0x5a; 16]).unwrap();
    assert!(connection.is_ended());
    drop(connection);
    assert_eq!(writer.join().unwrap(), Kind::Io);
    let writer = aside(&device, |device| device.write_at(&[2; 4096], 4096));
    let mut connection = server.accept(EXPORT);
    let (request, data) = connection.expect(command::WRITE);
    assert_eq!(data, [2; 4096]);
    connection.simple(&request, 0, &[]).unwrap();
    writer.join().unwrap().unwrap();
}
