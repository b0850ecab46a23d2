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
use platter_disk::sync_io::IoOptions;
use std::sync::Arc;

/// A disk that completes nothing until the test says so.
fn stuck(elevator: &'static str) -> (Arc<Fake>, Device) {
    let timeout = Some(Span::from_millis(30));
    let (fake, device) = Fake::open(Options { elevator, timeout, ..Options::default() });
    fake.hold();
    (fake, device)
}

/// The bio fails and its buffer stays with the disk; a late completion is not reported a second time.
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
            assert_eq!((counters.timeouts, counters.bios_failed), (1, 0), "{elevator} {style:?}");
            assert_eq!(counters.bios, counters.bios_completed, "{elevator} {style:?}");
        }
    }
}

/// A synchronous call ends at the timeout of its device. The disk keeps memory of the library, and what it later does
/// with that memory reaches no caller.
#[test]
fn a_synchronous_call_ends_at_the_timeout_of_its_device() {
    for elevator in elevators() {
        let (fake, device) = stuck(elevator);
        let other = device.clone();
        let call = spawn(move || {
            let mut buffer = [7; 512];
            let read = other.read_at(&mut buffer, 0).unwrap_err().fault.kind;
            let write = other.write_at(&[1; 512], 4096).unwrap_err().fault.kind;
            let flush = other.flush().unwrap_err().fault.kind;
            (read, write, flush, buffer)
        });
        let (read, write, flush, buffer) = call.result(elevator);
        assert_eq!((read, write), (Kind::TimedOut, Kind::TimedOut), "{elevator}");
        assert!(matches!(flush, Kind::TimedOut | Kind::Unsettled), "{elevator}: {flush:?}");
        fake.release();
        assert_eq!(buffer, [7; 512], "{elevator}");
        let counters = device.counters();
        assert_eq!(counters.bytes_bounced, 1024, "{elevator}: the copies are counted");
        device.acknowledge_flush_failure();
        let mut back = [0; 512];
        until("the device works again", || device.read_at(&mut back, 4096).is_ok());
        assert_eq!(back, [1; 512], "{elevator}");
    }
}

/// Without a timeout a call lends its memory and waits without a limit; another call at the same time has its own
/// timeout.
#[test]
fn a_call_may_have_a_timeout_of_its_own() {
    for elevator in elevators() {
        let (fake, device) = Fake::open(Options { elevator, ..Options::default() });
        fake.hold();
        let lender = device.clone();
        let patient = spawn(move || lender.read_at(&mut [0; 512], 0).is_ok());
        until("the call is with the disk", || fake.held() == 1);
        let other = device.clone();
        let impatient = spawn(move || {
            let options = IoOptions::timeout(Span::from_millis(20));
            let mut buffer = [7; 512];
            let read = other.read_at_with(&mut buffer, 4096, options).unwrap_err();
            let write = other.write_at_with(&[1; 512], 8192, options).unwrap_err();
            let flush = other.flush_with(options).unwrap_err();
            assert_eq!(buffer, [7; 512]);
            [read, write, flush].map(|error| error.fault.kind)
        });
        let kinds = impatient.result(elevator);
        assert_eq!(kinds[..2], [Kind::TimedOut; 2], "{elevator}");
        assert!(matches!(kinds[2], Kind::TimedOut | Kind::Unsettled), "{elevator}: {kinds:?}");
        assert!(!patient.is_done(), "{elevator}");
        fake.release();
        assert!(patient.result(elevator), "{elevator}");
        assert_eq!(device.counters().bytes_bounced, 1024, "{elevator}");
        let mut back = [0; 512];
        device.read_at(&mut back, 8192).unwrap();
        assert_eq!(back, [1; 512], "{elevator}");
        device.flush().unwrap();
    }
}

/// Calls with a deadline use no lane of the pool: however many of them the disk still has, other calls get theirs.
#[test]
fn calls_that_time_out_use_up_no_lanes() {
    let (fake, device) = Fake::open(Options { lanes: Some(2), ..Options::default() });
    fake.hold();
    let (other, disk) = (device.clone(), fake.clone());
    let calls = spawn(move || {
        let call =
            |at: u64, timeout| other.read_at_with(&mut [0; 512], at * 4096, IoOptions::timeout(timeout));
        // On a busy machine a call may end before its bio has reached the disk, and then leaves nothing.
        let mut timeout = Span::from_millis(2);
        for at in (0..).take_while(|_| disk.held() < 5) {
            assert_eq!(call(at, timeout).unwrap_err().fault.kind, Kind::TimedOut);
            timeout = Span(timeout.0 * 2);
        }
        disk.held()
    });
    let late = calls.result("calls");
    let reads = |pos| {
        let device = device.clone();
        spawn(move || device.read_at(&mut [0; 512], pos).is_ok())
    };
    let both = [reads(65536), reads(131072)];
    until("both lanes are in use", || fake.held() == late + 2);
    fake.release();
    assert!(both.into_iter().all(|read| read.result("a call without a deadline")));
    let options = IoOptions::timeout(Span::from_secs(60));
    (0..10).for_each(|at| device.read_at_with(&mut [0; 512], at * 4096, options).unwrap());
}

/// Calls wait side by side on the lane that they share, each until its own deadline.
#[test]
fn each_of_many_calls_ends_at_its_own_deadline() {
    for elevator in elevators() {
        let (fake, device) = Fake::open(Options { elevator, ..Options::default() });
        fake.hold();
        let call = |at: u64, timeout: Span| {
            let device = device.clone();
            spawn(move || {
                device
                    .read_at_with(&mut [0; 512], at * 4096, IoOptions::timeout(timeout))
                    .map_err(|error| error.fault.kind)
            })
        };
        let patient: Vec<_> = (0..4).map(|at| call(at, Span::from_secs(60))).collect();
        let hasty: Vec<_> = (4..8).map(|at| call(at, Span::from_millis(10))).collect();
        for call in hasty {
            assert_eq!(call.result(elevator), Err(Kind::TimedOut), "{elevator}");
        }
        assert!(patient.iter().all(|call| !call.is_done()), "{elevator}");
        fake.release();
        for call in patient {
            assert_eq!(call.result(elevator), Ok(()), "{elevator}");
        }
    }
}

/// A program that only polls sees the timeout too, at the time of its polls.
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

/// An error gives the requested range, not the part that was left of it.
#[test]
fn a_timeout_says_what_timed_out() {
    let (fake, device) = stuck("none");
    let text = block_on(device.write(4096, vec![1; 1024])).0.unwrap_err().to_string();
    assert_eq!(text, "fake: write of 1024 bytes at 4096: timed out");
    fake.release();
}
