//! Tests of what models of other crates compile as well, with the locks of a model checker.

use crate::{ArmedDoorbell, Doorbell, EventFd, Mailbox, PollFlags, is_ready};

fn is_readable(bell: &ArmedDoorbell) -> bool {
    is_ready(bell.fd().unwrap(), PollFlags::IN)
}

#[test]
fn only_an_armed_descriptor_is_rung_and_arming_resets_it() {
    let bell = ArmedDoorbell::opened().unwrap();
    bell.ring();
    assert!(!is_readable(&bell));
    bell.arm();
    assert!(!is_readable(&bell));
    bell.ring();
    bell.ring();
    assert!(is_readable(&bell));
    bell.arm();
    assert!(!is_readable(&bell));
    bell.ring();
    assert!(is_readable(&bell));
    bell.arm();
    bell.disarm();
    bell.ring();
    assert!(!is_readable(&bell), "no waiter");
}

#[test]
fn a_descriptor_that_others_signal_too_is_cleared_of_their_signals() {
    let bell = ArmedDoorbell::opened().unwrap();
    for _ in 0..2 {
        bell.fd().unwrap().signal();
        bell.arm_shared();
        assert!(!is_readable(&bell));
        bell.ring();
        assert!(is_readable(&bell));
    }
}

#[test]
fn a_bell_is_cleared_of_all_its_rings_at_once() {
    let bell = Doorbell::new().unwrap();
    for _ in 0..2 {
        bell.ring();
        let signals = EventFd::signals_made();
        bell.ring_once();
        assert_eq!(EventFd::signals_made(), signals);
        bell.ring();
        assert!(is_ready(bell.fd(), PollFlags::IN));
        bell.clear();
        bell.clear();
        assert!(!is_ready(bell.fd(), PollFlags::IN));
    }
}

#[test]
fn all_that_was_posted_comes_in_order_and_once() {
    let (mailbox, mut out) = (Mailbox::default(), Vec::new());
    assert_eq!((mailbox.post([1]), mailbox.post([2, 3]), mailbox.len()), (1, 3, 3));
    mailbox.take_with(&mut out, |count| assert_eq!((count, mailbox.len()), (3, 3)));
    assert!(mailbox.is_empty());
    mailbox.post([4]);
    mailbox.take(&mut out);
    mailbox.take_with(&mut out, |_| panic!("there is nothing"));
    assert_eq!(out, [1, 2, 3, 4]);
}
