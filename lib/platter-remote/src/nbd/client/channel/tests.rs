//! Moments between two channels, or between two calls, that a server cannot bring about.

use super::{Channel, Connection, Link, Phase, Shared, Socket};
use crate::nbd::client::options::NbdOptions;
use crate::nbd::handshake::Export;
use crate::nbd::uri::Uri;
use crate::nbd::wire::{Request, SimpleReply, transmission_flag};
use crate::slots::State;
use platter_block::bio::Op;
use platter_block::driver::{Completion, Driver};
use platter_block::time::{Span, Time};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

const NOW: Time = Time(1);

/// Bytes of each write.
const LEN: usize = 512;

fn shared() -> Arc<Shared> {
    let flags = transmission_flag::SEND_FLUSH | transmission_flag::CAN_MULTI_CONN;
    let export = Export { size: 1 << 20, flags, blocks: None, structured: true, allocation: None };
    // A channel that is dropped waits that long for answers.
    let patience = Span::from_millis(50);
    let options = NbdOptions::default().with_write(true).with_connections(2).with_peer_timeout(patience);
    Arc::new(Shared::new(Uri::unix("/nowhere", "disk"), options, Vec::new(), export))
}

/// A channel, and the server's end of its connection.
fn channel(shared: &Arc<Shared>) -> (Channel, UnixStream) {
    assert!(shared.take_channel());
    let (ours, theirs) = UnixStream::pair().unwrap();
    (super::channel(Arc::clone(shared), Socket::new(ours.into())), theirs)
}

/// Sends a write as one of the queue; the server takes it.
fn write(channel: &mut Channel, tag: u32, server: &mut UnixStream) -> (u32, Request) {
    let index = channel.take_own(Op::Write, 512, LEN as u64, Some(Arc::new(vec![7; LEN])));
    channel.slots.at_mut(index).tag = Some(tag);
    channel.outbox.push_back(index);
    channel.transmit(NOW);
    let mut header = [0; Request::BYTES];
    server.read_exact(&mut header).unwrap();
    server.read_exact(&mut [0; LEN]).unwrap();
    (index, Request::parse(&header).unwrap())
}

#[test]
fn an_answer_that_is_read_after_the_end_was_noticed_may_be_lost_too() {
    let shared = shared();
    let ((mut idle, mut server), (_other, _other_server)) = (channel(&shared), channel(&shared));
    let (_, request) = write(&mut idle, 3, &mut server);
    server.write_all(&SimpleReply { error: 0, cookie: request.cookie }.to_bytes()).unwrap();
    drop(server);
    shared.look_at_others();
    assert_eq!(shared.connections(), 1);
    idle.receive(NOW);
    assert_eq!(idle.ready, [Completion { tag: 3, result: LEN as i64 }]);
    let unflushed = &shared.unflushed;
    assert!(!unflushed.flushed(unflushed.begin_flush()), "the write may be lost");
    shared.look_at_others();
    assert!(unflushed.flushed(unflushed.begin_flush()), "only once");
}

/// The state of a write that the server has taken, when sending fails with this error and the connection then looks closed.
fn after(errno: i32) -> State {
    let shared = shared();
    let (mut channel, mut server) = channel(&shared);
    let (index, _) = write(&mut channel, 3, &mut server);
    drop(server);
    channel.broken(NOW, &io::Error::from_raw_os_error(errno));
    let state = channel.slots.at(index).state;
    assert_eq!(channel.outbox.len(), usize::from(state == State::Staged));
    assert_eq!((channel.sent, channel.unanswered), (0, usize::from(state != State::Staged)));
    state
}

#[test]
fn a_connection_that_has_timed_out_was_not_closed_by_the_server() {
    for errno in [libc::ETIMEDOUT, libc::EHOSTUNREACH] {
        assert!(
            matches!(after(errno), State::Unanswered(_)),
            "{errno}: the server may still carry the write out"
        );
    }
    for errno in [libc::EPIPE, libc::ECONNRESET] {
        assert_eq!(after(errno), State::Staged, "{errno}");
    }
}

#[test]
fn nor_was_one_that_is_drained() {
    let shared = shared();
    let (mut channel, mut server) = channel(&shared);
    let (index, _) = write(&mut channel, 3, &mut server);
    channel.socket().unwrap().note_error(&io::Error::from_raw_os_error(libc::ETIMEDOUT));
    drop(server);
    channel.violated(NOW, "a test");
    assert!(matches!(channel.slots.at(index).state, State::Unanswered(_)));
}

/// What a channel reports of a write that stays unanswered until `reconnect` has passed, after something was asked of it.
fn reported(ask: impl FnOnce(&mut Channel)) -> (Vec<Completion>, bool) {
    let shared = shared();
    let (mut channel, mut server) = channel(&shared);
    write(&mut channel, 3, &mut server);
    ask(&mut channel);
    drop(server);
    channel.broken(NOW, &io::Error::from_raw_os_error(libc::ETIMEDOUT));
    channel.advance(NOW + shared.options.reconnect);
    (std::mem::take(&mut channel.ready), shared.reach.failure().is_some())
}

#[test]
fn an_unanswered_write_ends_with_the_disk() {
    let unknown = Completion { tag: 3, result: -i64::from(libc::ENOLINK) };
    assert_eq!(reported(|channel| assert!(!channel.cancel(NOW, 3))), (vec![unknown], true));
    assert_eq!(reported(|channel| channel.given_up(NOW, 3)), (vec![unknown], true), "overdue");
}

#[test]
fn a_server_that_does_not_stop_is_drained_up_to_a_number_of_bytes() {
    let shared = shared();
    let (mut channel, mut server) = channel(&shared);
    let (index, _) = write(&mut channel, 3, &mut server);
    let flood = std::thread::spawn(move || {
        let mut blocks = 0;
        while server.write_all(&[0x5a; 4096]).is_ok() {
            blocks += 1;
        }
        blocks
    });
    // The time does not pass, as in a drop.
    channel.violated(Time(0), "a test");
    while let Link::Up(Connection { socket, phase: Phase::Draining { .. } }) = &channel.link {
        Arc::clone(socket).wait(false, Some(Span::from_secs(10)));
        channel.drain(Time(0));
    }
    assert!(matches!(channel.slots.at(index).state, State::Unanswered(_)), "it has not closed its side");
    assert!(flood.join().unwrap() < 1024);
}

#[test]
fn what_a_dropped_channel_leaves_is_not_overtaken_by_the_others() {
    for is_lost in [false, true] {
        let shared = shared();
        let ((mut first, mut server), (mut second, mut other)) = (channel(&shared), channel(&shared));
        write(&mut first, 3, &mut server);
        if is_lost {
            first.lost(NOW, "a test", false);
        }
        drop(first);
        let index = second.take_own(Op::Write, 512, LEN as u64, Some(Arc::new(vec![8; LEN])));
        second.slots.at_mut(index).tag = Some(4);
        second.outbox.push_back(index);
        second.advance(NOW);
        let gone = Completion { tag: 4, result: -i64::from(libc::ENODEV) };
        assert_eq!(second.ready, [gone], "is_lost: {is_lost}");
        drop(second);
        assert_eq!(other.read(&mut [0]).unwrap(), 0, "nothing is sent");
    }
}

#[test]
fn a_channel_that_is_dropped_when_the_server_has_closed_leaves_nothing() {
    let shared = shared();
    let (mut first, mut server) = channel(&shared);
    write(&mut first, 3, &mut server);
    drop((server, first));
    assert_eq!(shared.reach.failure(), None);
}
