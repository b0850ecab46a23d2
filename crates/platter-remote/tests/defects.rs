//! Put-back defects are found by what the suite of scripts checks. They are active in the whole process, so this test has
//! one of its own.

#[path = "scripted/server.rs"]
#[allow(dead_code, reason = "the scripts use all of it")]
mod server;

use platter_block::defect::{self, Defect};
use platter_block::time::Span;
use platter_remote::nbd::wire::command;
use server::{EXPORT, Server, aside, opened, options};

/// Whether a write that the server may still carry out is sent again.
fn sends_again() -> bool {
    let server = Server::new();
    let options = options().with_peer_timeout(Span::from_millis(50)).with_reconnect(Span::from_millis(200));
    let (device, mut old) = opened(&server, EXPORT, options, None);
    let writers = [0, 4096].map(|pos| {
        let writer = aside(&device, move |device| device.write_at(&[1; 512], pos).is_ok());
        old.expect(command::WRITE);
        writer
    });
    // The connection stays open at the server, which has not answered.
    old.write(&[0x5a; 16]).unwrap();
    let waiter = std::thread::spawn(move || {
        let mut new = server.accept(EXPORT);
        let mut count = 0;
        while let Ok((request, _)) = new.request() {
            count += u32::from(request.kind == command::WRITE);
            let answered = match request.kind {
                command::READ => new.data(&request, true, request.offset, &[0; 512]),
                _ => new.simple(&request, 0, &[]),
            };
            if answered.is_err() {
                break;
            }
        }
        count
    });
    let reader = aside(&device, |device| device.read_at(&mut [0; 512], 8192));
    // Without the defect the disk ends with the doubt, perhaps before this read.
    let _ = reader.join().unwrap();
    for writer in writers {
        writer.join().unwrap();
    }
    drop((device, old));
    waiter.join().unwrap() > 0
}

/// Whether a flush succeeds although the server ended after it had answered a write.
fn forgets() -> bool {
    let server = Server::new();
    let (device, mut connection) = opened(&server, EXPORT, options(), None);
    let calls = aside(&device, |device| {
        device.write_at(&[1; 512], 0).unwrap();
        device.flush().is_ok()
    });
    let (request, _) = connection.expect(command::WRITE);
    connection.simple(&request, 0, &[]).unwrap();
    drop(connection);
    let mut connection = server.accept(EXPORT);
    let (request, _) = connection.expect(command::FLUSH);
    connection.simple(&request, 0, &[]).unwrap();
    calls.join().unwrap()
}

#[test]
fn defects_of_the_client_are_found() {
    const { assert!(defect::AVAILABLE, "the tests are built with the feature") };
    for (defect, found) in
        [(Defect::NbdLossForgotten, forgets as fn() -> bool), (Defect::NbdDoubtForgotten, sends_again)]
    {
        assert!(!found(), "{}", defect.name());
        defect::set(defect, true);
        let is_found = found();
        defect::set(defect, false);
        assert!(is_found, "{}", defect.name());
    }
}
