//! The end of a server.

use crate::client::{attach, connect};
use crate::{open, serve};
use platter_disk::device::Device;
use platter_remote::nbd::wire::{Request, command};
use std::path::Path;
use std::time::Duration;

#[test]
fn what_was_sent_is_answered_and_the_socket_is_removed() {
    for spec in ["ram(16M)", "sim(nvme_ssd)"] {
        let device = open(spec);
        let mut fixture = serve(device.clone());
        let mut client = attach(&fixture.unix, "disk", true);
        let mut waiting = connect(&fixture.tcp);
        waiting.greet();
        let write =
            Request { kind: command::WRITE, length: 4096, offset: 8192, ..Request::default() }.to_bytes();
        let mut batch = [&write[..], &[9; 4096]].concat();
        for cookie in 1..=100 {
            batch.extend(Request { cookie, length: 512, ..Request::default() }.to_bytes());
        }
        client.send(&batch);
        let path = fixture.unix.strip_prefix("unix:").unwrap().to_owned();
        assert!(Path::new(&path).exists());
        assert_eq!(fixture.stop(), Ok(()));
        assert!(!Path::new(&path).exists());
        let mut answers: Vec<_> = (0..=100).map(|_| client.answer(0)).collect();
        answers.sort_by_key(|answer| answer.cookie);
        assert!(
            answers.iter().enumerate().all(|(at, answer)| (answer.cookie, answer.error) == (at as u64, 0))
        );
        assert!(client.is_closed() && waiting.is_closed());
        let mut found = [0; 4096];
        device.read_at(&mut found, 8192).unwrap();
        assert_eq!(found, [9; 4096]);
    }
}

#[test]
fn a_client_that_is_stuck_is_named_and_disconnected() {
    let mut fixture = serve(Device::ram(64 << 20).unwrap());
    let mut slow = attach(&fixture.unix, "disk", false);
    for _ in 0..8 {
        slow.request(command::READ, 0, 0, 32 << 20);
    }
    // The first bytes say that the server is sending.
    slow.receive(1);
    let server = fixture.server.take().unwrap();
    let problems = server.stop(Duration::from_millis(100)).unwrap_err();
    assert!(problems.iter().any(|problem| problem.contains("requests unanswered")), "{problems:?}");
}

#[test]
fn a_server_that_is_dropped_leaves_no_socket() {
    let fixture = serve(Device::ram(1 << 20).unwrap());
    let (path, folder) = (fixture.unix.strip_prefix("unix:").unwrap().to_owned(), fixture.folder);
    drop(fixture.server);
    assert!(!Path::new(&path).exists());
    drop(folder);
}
