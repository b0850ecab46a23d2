//! Data in memory is read there; other reads use bios.

use crate::cached::{Cached, SIZE, Seen, is_at};
use platter_block::bio::{Flags, Op};
use platter_block::buf::IoBuf;
use platter_block::fault::Kind;
use platter_block::hint::Hint;
use platter_block::resident::PAGE;
use platter_disk::device::Device;
use platter_disk::future::{Io, Outcome};
use platter_disk::sync_io::IoOptions;
use std::future::Future;
use std::io::{IoSliceMut, Read};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

#[test]
fn a_read_of_what_is_in_memory_submits_nothing() {
    let (cached, device) = Cached::open();
    let mut handle = device.handle();
    let id = handle.id();
    let mut buffer = vec![0; 3 * PAGE as usize];
    handle.read_at(&mut buffer, PAGE).unwrap();
    assert_eq!(cached.seen(), [Seen::Opened(id), Seen::Bio(id, Op::Read, PAGE, 3 * PAGE)]);
    // All requested pages except the last are in memory.
    handle.read_at(&mut buffer, 2 * PAGE).unwrap();
    assert_eq!(cached.seen(), [Seen::Bio(id, Op::Read, 2 * PAGE, 3 * PAGE)]);
    assert_eq!(cached.answers(), 0);
    handle.read_at(&mut buffer[..5000], PAGE + 333).unwrap();
    assert!(is_at(&buffer[..5000], PAGE + 333));
    device.read_at(&mut buffer[..1], 4 * PAGE).unwrap();
    let (head, tail) = buffer.split_at_mut(700);
    handle.read_vectored_at(&mut [IoSliceMut::new(head), IoSliceMut::new(&mut tail[..900])], PAGE).unwrap();
    assert!(is_at(&head[..700], PAGE) && is_at(&tail[..900], PAGE + 700));
    assert_eq!((cached.seen(), cached.answers()), (vec![], 4));
    assert_eq!(handle.read(&mut buffer[..10]).unwrap(), 10);
    assert!(is_at(&buffer[..10], 0) && cached.answers() == 4);
    // 10 bytes were bounced: the block around them was read, with the handle's number.
    assert_eq!(cached.seen(), [Seen::Bio(id, Op::Read, 0, 512)]);
    assert_eq!(handle.counters().unwrap().misses, 3);
    let all = device.cache_counters().unwrap();
    assert_eq!((all.hits, all.misses), (4, 3));
}

/// The outcome of a future that is polled once.
fn at_once<B: IoBuf>(io: Io<B>) -> Option<Outcome<B>> {
    match pin!(io).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

#[test]
fn a_future_of_what_is_in_memory_needs_no_lane() {
    let (cached, device) = Cached::open();
    cached.fill();
    let read = |pos: u64, len: usize| {
        let (result, buffer) = at_once(device.read(pos, vec![0; len])).unwrap();
        result.map(|()| is_at(&buffer.unwrap(), pos))
    };
    assert!(read(PAGE, 512).unwrap());
    assert!(read(3 * PAGE - 512, 2 * PAGE as usize).unwrap());
    // The device ends within a page, and within a block of it.
    assert!(read(SIZE - 1024, 1024).unwrap());
    let parts = at_once(device.read(PAGE, vec![vec![0; 512], vec![0; 1024]])).unwrap().1.unwrap();
    assert!(is_at(&parts[0], PAGE) && is_at(&parts[1], PAGE + 512));
    assert_eq!((cached.answers(), cached.lanes(), cached.seen()), (4, 0, vec![]));
    // What is invalid is refused as if nothing were in memory.
    assert_eq!(read(PAGE + 1, 512).unwrap_err().fault.kind, Kind::Misaligned);
    assert_eq!(read(SIZE - 512, 1024).unwrap_err().fault.kind, Kind::OutOfRange);
    assert_eq!(cached.answers(), 4);
}

#[test]
fn a_future_that_must_wait_for_others_uses_a_lane() {
    let (cached, device) = Cached::open();
    cached.fill();
    cached.bar(true);
    let (result, buffer) = at_once(device.read(PAGE, vec![0; 512])).unwrap();
    assert!(result.is_ok() && is_at(&buffer.unwrap(), PAGE));
    cached.bar(false);
    assert_eq!(cached.seen().len(), 1);
    for flags in [Flags::PREFLUSH, Flags::SOFT_BARRIER, Flags::HARD_BARRIER] {
        let (result, _) = at_once(device.read_with(2 * PAGE, vec![0; 512], IoOptions::flags(flags))).unwrap();
        assert!(result.is_ok());
        assert_eq!(cached.seen().len(), 1, "{flags:?}");
    }
    assert_eq!(cached.answers(), 0);
    // The same bio again, with another buffer.
    let (result, buffer) = at_once(device.read(7 * PAGE, vec![0; 4096])).unwrap();
    assert!(result.is_ok() && is_at(&buffer.unwrap(), 7 * PAGE));
    assert_eq!(cached.answers(), 1);
}

#[test]
fn a_page_is_held_where_it_is() {
    let (cached, device) = Cached::open();
    let handle = device.handle();
    let page = handle.page(3 * PAGE + 77).unwrap();
    assert_eq!((page.pos(), page.len()), (3 * PAGE, PAGE as usize));
    assert!(is_at(&page, 3 * PAGE));
    cached.seen();
    let (again, last) = (handle.page(3 * PAGE).unwrap(), handle.page(SIZE - 1).unwrap());
    assert_eq!((last.pos(), last.len()), (64 * PAGE, 1024));
    assert!(is_at(&last, 64 * PAGE) && again.as_ptr() == page.as_ptr());
    assert_eq!(cached.seen(), [Seen::Bio(handle.id(), Op::Read, 64 * PAGE, 1024)]);
    assert_eq!(cached.pinned(), 3);
    drop((page, again));
    assert_eq!(cached.pinned(), 1);
    assert!(format!("{last:?}").contains("1024 bytes at 262144"));
    drop(last);
    assert_eq!(cached.pinned(), 0);
    let past = handle.page(SIZE).unwrap_err();
    assert_eq!(past.fault.kind, Kind::OutOfRange);
    cached.keep_nothing();
    let error = handle.page(9 * PAGE).unwrap_err();
    assert_eq!(error.fault.kind, Kind::NoMemory);
    assert!(error.to_string().contains("larger size"), "{error}");
}

#[test]
fn without_a_cache_there_are_no_pages_and_no_counts() {
    let device = Device::ram(SIZE).unwrap();
    let handle = device.handle();
    let error = handle.page(0).unwrap_err();
    assert_eq!(error.fault.kind, Kind::Unsupported);
    assert!(error.to_string().contains("put cache(…) on top"), "{error}");
    handle.advise(Hint::Sequential, 0, SIZE).unwrap();
    assert!(handle.counters().is_none() && device.cache_counters().is_none());
}

#[test]
fn ranges_of_advice_and_of_flushes_are_checked_and_may_be_open() {
    let (cached, device) = Cached::open();
    let handle = device.handle();
    let id = handle.id();
    cached.seen();
    handle.advise(Hint::WillNeed, PAGE, 0).unwrap();
    handle.flush_range(PAGE, 512).unwrap();
    handle.flush_range(SIZE - 512, 0).unwrap();
    handle.flush_range(SIZE, 0).unwrap();
    handle.flush().unwrap();
    assert_eq!(
        cached.seen(),
        [
            Seen::Advised(id, Hint::WillNeed, PAGE, SIZE - PAGE),
            Seen::Bio(id, Op::Flush, PAGE, 512),
            Seen::Bio(id, Op::Flush, SIZE - 512, 512),
            Seen::Bio(id, Op::Flush, 0, 0),
        ]
    );
    for (pos, len) in [(SIZE + 1, 0), (SIZE, 1), (1, u64::MAX)] {
        for error in [handle.advise(Hint::Normal, pos, len), handle.flush_range(pos, len)] {
            assert_eq!(error.unwrap_err().fault.kind, Kind::OutOfRange);
        }
    }
    assert_eq!(cached.seen(), []);
}

#[test]
fn a_write_back_that_failed_is_told_with_its_place() {
    let (cached, device) = Cached::open();
    let handle = device.handle();
    cached.fail_next(3 * PAGE, PAGE);
    let error = handle.flush().unwrap_err();
    assert_eq!((error.fault.kind, error.offset, error.len), (Kind::Io, 0, 0));
    let message = error.to_string();
    assert!(message.contains("cached") && message.contains("4096 bytes at 12288 could not be"), "{message}");
    cached.fail_next(0, PAGE);
    assert!(handle.flush_range(0, 2 * PAGE).unwrap_err().detail.contains("4096 bytes at 0 could"));
    handle.flush().unwrap();
    cached.fail_next(PAGE, PAGE);
    assert!(device.close().unwrap_err().detail.contains("at 4096"));
}
