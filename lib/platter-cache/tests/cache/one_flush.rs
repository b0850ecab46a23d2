//! A flush of a cache of several shards flushes their disk once, after all have written.

use crate::logged::{self, Log};
use crate::rig::{self, small};
use crate::script::{Hand, Script};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::Kind;
use platter_block::hint::Hint;
use platter_block::lane::Cancel;
use platter_cache::{self as cache, Settings};
use platter_disk::device::Device;
use platter_disk::sync_io::IoOptions;
use std::sync::atomic::Ordering;

const PAGE: u64 = 4096;

/// Those of a cache of four shards with extents of four pages.
fn settings() -> Settings {
    Settings { shards: 4, extent: 4 * PAGE, gather: 0, background: 100, dirty: 100, ..small(1024) }
}

/// Such a cache over a disk with a volatile cache.
fn cached() -> (Log, Device) {
    let (log, below) = logged::disk(true);
    let device = rig::cached(below, &settings());
    // What may have been written before the cache was opened.
    device.flush().unwrap();
    got(&log);
    (log, device)
}

/// The writes and flushes that the disk has got since the last call.
fn got(log: &Log) -> Vec<Op> {
    log.take().into_iter().map(|(op, _)| op).collect()
}

/// Asserts that the disk has got some writes and then one flush since the last call.
#[track_caller]
fn assert_flushed_once(log: &Log, writes: usize) {
    let ops = got(log);
    assert!(is_flushed_once(&ops, writes), "{ops:?}");
}

fn dirty(device: &Device) -> u64 {
    let facts = device.facts();
    facts.iter().find(|(key, _)| *key == "dirty pages").unwrap().1.parse().unwrap()
}

/// Whether these are some writes and then one flush.
fn is_flushed_once(ops: &[Op], writes: usize) -> bool {
    ops.len() == writes + 1 && ops[..writes].iter().all(|&op| op == Op::Write) && ops[writes] == Op::Flush
}

#[test]
fn shards_write_and_their_disk_is_flushed_once() {
    let (log, device) = cached();
    device.flush().unwrap();
    assert_eq!(got(&log), [], "nothing was written");
    device.write_at(&[1; 8 * 4096], 0).unwrap();
    device.write_at(&[1; 8 * 4096], 8 * PAGE).unwrap();
    device.flush().unwrap();
    assert_flushed_once(&log, 4);
    // Pages of two shards, of which one is flushed: the flush of the disk covers nothing of the other.
    device.write_at(&[2; 8 * 4096], 0).unwrap();
    device.flush_range(0, PAGE).unwrap();
    assert_flushed_once(&log, 1);
    device.flush().unwrap();
    let ops = got(&log);
    assert!(ops.len() > 1 && is_flushed_once(&ops, ops.len() - 1), "{ops:?}");
    device.flush().unwrap();
    assert_eq!(got(&log), []);
}

#[test]
fn a_flush_that_failed_covers_nothing() {
    let (log, device) = cached();
    device.write_at(&[1; 16 * 4096], 0).unwrap();
    log.flushes_fail.store(true, Ordering::SeqCst);
    device.flush().unwrap_err();
    log.flushes_fail.store(false, Ordering::SeqCst);
    device.acknowledge_flush_failure();
    got(&log);
    device.flush().unwrap();
    assert!(got(&log).contains(&Op::Flush), "the data has been written and not been flushed");
}

/// A shard that could not write fails the flush, and the handle gets the error once.
#[test]
fn a_write_that_failed_in_a_shard_fails_the_flush_once() {
    let (log, device) = cached();
    device.write_at(&[1; 16 * 4096], 0).unwrap();
    log.writes_fail.store(true, Ordering::SeqCst);
    device.flush().unwrap_err();
    got(&log);
    log.writes_fail.store(false, Ordering::SeqCst);
    device.flush().unwrap();
    assert_flushed_once(&log, 4);
}

/// What a write with FUA flushes covers what other shards have written before.
#[test]
fn a_flush_of_one_shard_covers_what_others_have_written() {
    let (log, device) = cached();
    device.write_at(&[1; 4 * 4096], 0).unwrap();
    device.flush().unwrap();
    got(&log);
    device.write_at(&[2; 4 * 4096], 0).unwrap();
    device.handle().advise(Hint::DontNeed, 0, 4 * PAGE).unwrap();
    let mut channel = device.channel(1).unwrap();
    let is_written = || {
        channel.poll(&mut Vec::new());
        dirty(&device) == 0
    };
    assert!(rig::until(is_written), "the pages are written back");
    assert!(!got(&log).contains(&Op::Flush));
    device.write_at_with(&[3; 4096], 4 * PAGE, IoOptions::flags(Flags::FUA)).unwrap();
    assert_eq!(got(&log), [Op::Write, Op::Flush]);
    device.flush().unwrap();
    assert_eq!(got(&log), []);
}

/// Bios that ask for a flush first, and barriers.
#[test]
fn a_preflush_and_a_barrier_flush_once_before_their_data() {
    for flags in [Flags::PREFLUSH, Flags::HARD_BARRIER] {
        let (log, device) = cached();
        device.write_at(&[1; 16 * 4096], 0).unwrap();
        let mut channel = device.channel(1).unwrap();
        let mut bio = Bio::write(32 * PAGE, vec![2u8; 4096]).unwrap();
        bio.add_flags(flags);
        assert!(channel.submit(bio).is_ok());
        let mut done = Vec::new();
        channel.wait(&mut done, None);
        assert_eq!(done[0].status(), Ok(()));
        let ops = got(&log);
        assert!(is_flushed_once(&ops[..5], 4), "{flags:?}: {ops:?}");
        // The data of a barrier is made durable, too.
        let after = if flags == Flags::PREFLUSH { &[][..] } else { &[Op::Write, Op::Flush] };
        assert_eq!(&ops[5..], after, "{flags:?}");
    }
}

/// A flush that is taken back while shards write does not flush the disk, which the next one does. The data is written once, and
/// flushed once.
#[test]
fn a_flush_that_is_taken_back_leaves_its_second_step_to_the_next() {
    for (disk_has_begun, is_cancelled) in [(false, false), (false, true), (true, false), (true, true)] {
        let case = format!("disk has begun: {disk_has_begun}, is cancelled: {is_cancelled}");
        let script = Script::new("script", 16 << 20);
        let mut hand = Hand::on(&cache::new(script.backend(), &settings()).unwrap());
        let ops = || script.seen().into_iter().map(|seen| seen.op).collect::<Vec<Op>>();
        hand.submit(0, Bio::write(0, vec![1u8; 8 * 4096]).unwrap());
        assert_eq!(hand.kinds(0), [(0, None)], "{case}");
        script.hold(true);
        let mut flush = Bio::flush();
        flush.set_token(1);
        let late = Cancel::late(flush.identity());
        hand.submit(0, flush);
        assert_eq!(hand.kinds(0), [], "{case}");
        assert_eq!(ops(), [Op::Write; 2], "{case}");
        if disk_has_begun {
            script.hold_only(Op::Flush);
            assert_eq!(hand.kinds(0), [], "{case}");
            assert_eq!(ops(), [Op::Flush], "{case}");
        }
        hand.cancel(0, if is_cancelled { Cancel::token(1) } else { late });
        let kind = if is_cancelled { Kind::Cancelled } else { Kind::TimedOut };
        assert_eq!(hand.kinds(0), [(1, Some(kind))], "{case}");
        script.hold(false);
        (0..4).for_each(|_| assert_eq!(hand.kinds(0), [], "{case}"));
        assert_eq!(ops(), [], "{case}");
        let mut flush = Bio::flush();
        flush.set_token(2);
        hand.submit(0, flush);
        assert_eq!(hand.kinds(0), [(2, None)], "{case}");
        // A flush of the disk that has begun ends after all, and covers the data.
        let expected = if disk_has_begun { &[][..] } else { &[Op::Flush] };
        assert_eq!(ops(), expected, "{case}");
    }
}
