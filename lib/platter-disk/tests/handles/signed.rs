//! In every way to call through a handle, the bios carry the handle's number as long as the handle is open.

use crate::cached::{Cached, Seen};
use platter_block::bio::{Bio, Context, Op};
use platter_block::handle::HandleId;
use std::future::Future;
use std::io::Read;
use std::pin::pin;
use std::task::{Context as Task, Poll, Waker};

#[test]
fn all_ways_to_call_through_a_handle_are_signed() {
    let (cached, device) = Cached::open();
    let handle = device.on_behalf_of(Context::new(4)).handle();
    let id = handle.id();
    assert_ne!(id, HandleId::DEVICE);
    cached.seen();
    let bios = |read: &mut dyn FnMut()| {
        read();
        cached.seen()
    };
    let of = |id| vec![Seen::Bio(id, Op::Read, 0, 512)];
    cached.keep_nothing();
    assert_eq!(bios(&mut || handle.read_at(&mut [0; 512], 0).unwrap()), of(id));
    assert_eq!(bios(&mut || device.read_at(&mut [0; 512], 0).unwrap()), of(HandleId::DEVICE));
    assert_eq!(bios(&mut || (&handle).read_exact(&mut [0; 512]).unwrap()), of(id));
    let mut cursor = handle.device().cursor(..512).unwrap();
    assert_eq!(bios(&mut || cursor.read_exact(&mut [0; 512]).unwrap()), of(id));
    let mut channel = handle.device().channel(2).unwrap();
    let mut done = Vec::new();
    let mut polled = || {
        channel.submit(Bio::read(0, vec![0u8; 512]).unwrap()).unwrap();
        channel.wait(&mut done, None);
    };
    assert_eq!(bios(&mut polled), of(id));
    let future = || {
        let mut read = pin!(handle.device().read(0, vec![0u8; 512]));
        let ready = read.as_mut().poll(&mut Task::from_waker(Waker::noop()));
        assert!(matches!(ready, Poll::Ready((Ok(()), Some(_)))), "memory answers at the first poll");
    };
    assert_eq!(bios(&mut { future }), of(id));
}

#[test]
fn a_handle_is_closed_when_nobody_can_sign_with_it() {
    let (cached, device) = Cached::open();
    let handle = device.handle();
    let other = handle.device().handle();
    let (id, other_id) = (handle.id(), other.id());
    assert_ne!(id, other_id);
    assert_eq!(cached.seen(), [Seen::Opened(id), Seen::Opened(other_id)]);
    drop(other);
    assert_eq!(cached.seen(), [Seen::Closed(other_id)]);
    let (clone, signed) = (handle.clone(), handle.device().clone());
    drop(handle);
    let channel = signed.channel(1).unwrap();
    drop((clone, signed));
    assert_eq!(cached.seen(), []);
    drop(channel);
    assert_eq!(cached.seen(), [Seen::Closed(id)]);
}
