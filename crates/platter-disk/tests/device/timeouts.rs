//! A disk that does not answer.

use crate::callers::Style;
use crate::fake::{Fake, Options};
use crate::kinds::elevators;
use crate::memory::aligned;
use crate::rig::{block_on, spawn, submit, until, write};
use platter_block::bio::Flags;
use platter_block::fault::Kind;
use platter_block::time::Span;
use platter_disk::device::Device;
use std::sync::Arc;

/// A disk that answers nothing until it is told to.
fn stuck(elevator: &'static str) -> (Arc<Fake>, Device) {
    let timeout = Some(Span::from_millis(30));
    let (fake, device) = Fake::open(Options { elevator, timeout, ..Options::default() });
    fake.hold();
    (fake, device)
}

/// The bio fails and its buffer stays away; when the disk answers after all, nobody is told twice.
#[test]
fn what_takes_too_long_fails_and_keeps_its_buffer() {
    for elevator in elevators() {
        for style in [Style::Futures, Style::Polled] {
            let (fake, device) = stuck(elevator);
            let other = device.clone();
            let release = Arc::clone(&fake);
            let task = spawn(move || {
                let mut caller = style.caller(&other);
                let (result, memory) = caller.read(0, aligned(4096));
                let outcome = (result.unwrap_err().kind, memory.is_some());
                release.release();
                assert_eq!(caller.read(0, aligned(4096)).0, Ok(()));
                outcome
            });
            let outcome = task.result(&format!("{elevator} {style:?}"));
            assert_eq!(outcome, (Kind::TimedOut, false), "{elevator} {style:?}");
            let counters = device.counters();
            assert_eq!((counters.timeouts, counters.bios_failed), (1, 1), "{elevator} {style:?}");
            assert_eq!(counters.bios, counters.bios_completed, "{elevator} {style:?}");
        }
    }
}

/// Memory that a caller lent is not given up: a synchronous call waits for as long as it takes.
#[test]
fn a_synchronous_call_outlasts_the_timeout() {
    for elevator in elevators() {
        let (fake, device) = stuck(elevator);
        let other = device.clone();
        let call = spawn(move || other.read_at(&mut [0; 512], 0).is_ok());
        until("the call is with the disk", || fake.held() == 1);
        let (result, buffer) = block_on(device.write(4096, vec![1; 512]));
        assert_eq!(result.unwrap_err().fault.kind, Kind::TimedOut, "{elevator}");
        // An elevator may not have started it: then the buffer comes back.
        assert_eq!(buffer.is_none(), fake.held() == 2, "{elevator}");
        assert!(!call.is_done(), "{elevator}");
        fake.release();
        assert!(call.result(elevator), "{elevator}");
    }
}

/// A program that only polls hears of the timeout too, at the time of its polls.
#[test]
fn polling_is_enough_for_timeouts() {
    for elevator in elevators() {
        let (fake, device) = stuck(elevator);
        let mut channel = device.channel(8).unwrap();
        for at in 0..8 {
            submit(&mut channel, write(at * 4096, 1, Flags::NONE));
        }
        let mut done = Vec::new();
        until("all have timed out", || {
            channel.poll(&mut done);
            done.len() == 8
        });
        assert!(done.iter().all(|bio| bio.status().is_err_and(|fault| fault.kind == Kind::TimedOut)));
        assert_eq!(channel.outstanding(), 0, "{elevator}");
        fake.release();
        channel.poll(&mut done);
        assert_eq!(done.len(), 8, "{elevator}");
    }
}

/// An error names what was asked for, not what was left of it.
#[test]
fn a_timeout_says_what_timed_out() {
    let (fake, device) = stuck("none");
    let text = block_on(device.write(4096, vec![1; 1024])).0.unwrap_err().to_string();
    assert_eq!(text, "fake: write of 1024 bytes at 4096: timed out");
    fake.release();
}
