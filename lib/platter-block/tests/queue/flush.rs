//! Flushes, preflush and FUA: which steps a disk sees.

use crate::disk::Step;
use crate::rig::{Io, Rig, elevators};
use platter_block::bio::{Flags, Op};
use platter_block::driver::Features;
use platter_block::fault::Kind;
use platter_block::lane::Lane;
use platter_block::queue::Settings;
use platter_block::time::Span;

/// A disk without a volatile cache.
pub(crate) const THROUGH: Features = Features::NONE;
/// A disk with a write-back cache.
pub(crate) const BACK: Features = Features::NONE.with_write_cache(true);
/// A disk with a write-back cache and FUA.
pub(crate) const BACK_FUA: Features = Features::NONE.with_write_cache(true).with_fua(true);

/// The starts of a disk that completes everything at once, as words: F flush, W write, U write with FUA.
fn steps(elevator: &str, features: Features, io: Io) -> String {
    let mut rig = Rig::manual(elevator, Settings::default(), features);
    let token = rig.submit(io);
    while !rig.is_done(token) {
        rig.lane.queue.unplug_for_waiter(rig.now);
        rig.run();
        assert!(rig.disk().held.len() <= 1, "one step at a time");
        rig.disk().finish_all();
    }
    assert_eq!(rig.result(token), Ok(()));
    let word = |&step: &(Op, u64, u64, bool)| match step {
        (Op::Flush, ..) => 'F',
        (Op::Write, _, _, fua) => {
            if fua {
                'U'
            } else {
                'W'
            }
        }
        (Op::Discard, ..) => 'D',
        _ => '?',
    };
    rig.disk().starts().iter().map(word).collect()
}

#[test]
fn every_kind_of_write_takes_the_steps_its_disk_needs() {
    let both = Flags::FUA | Flags::PREFLUSH;
    let write = |flags| Io::write(4096, 4096).with(flags);
    let discard = |flags| Io::new(Op::Discard, 4096, 4096).with(flags);
    let table = [
        (write(Flags::NONE), ["W", "W", "W"]),
        (write(Flags::FUA), ["W", "WF", "U"]),
        (write(Flags::PREFLUSH), ["W", "FW", "FW"]),
        (write(both), ["W", "FWF", "FU"]),
        (discard(both), ["D", "FDF", "FDF"]),
        (Io::flush(), ["", "F", "F"]),
        (write(Flags::HARD_BARRIER), ["W", "FWF", "FU"]),
        (write(Flags::HARD_BARRIER | both), ["W", "FWF", "FU"]),
        (write(Flags::SOFT_BARRIER), ["W", "W", "W"]),
        (write(Flags::SOFT_BARRIER | Flags::FUA), ["W", "FWF", "FU"]),
        (discard(Flags::HARD_BARRIER), ["D", "FDF", "FDF"]),
        (Io::flush().with(Flags::HARD_BARRIER), ["", "F", "F"]),
        (Io::flush().with(Flags::SOFT_BARRIER), ["", "F", "F"]),
    ];
    for elevator in elevators() {
        for (io, expected) in &table {
            for (features, expected) in [THROUGH, BACK, BACK_FUA].into_iter().zip(expected) {
                let seen = steps(elevator, features, io.clone());
                assert_eq!(&seen, expected, "{elevator} {:?} {features:?}", io.flags);
            }
        }
    }
}

#[test]
fn a_flush_without_a_cache_completes_at_once() {
    let mut rig = Rig::manual("noop", Settings::default(), THROUGH);
    let token = rig.submit(Io::flush());
    assert!(rig.lane.queue.has_done() && rig.lane.queue.is_idle());
    rig.run();
    assert_eq!(rig.result(token), Ok(()));
    assert_eq!(rig.disk().log, Vec::<Step>::new());
}

#[test]
fn concurrent_flushes_share_two() {
    for elevator in elevators() {
        let mut rig = Rig::manual(elevator, Settings::default(), BACK);
        for _ in 0..50 {
            rig.submit(Io::flush());
            rig.run();
        }
        assert_eq!(rig.disk().held.len(), 1);
        rig.complete_one();
        assert_eq!(rig.done.len(), 1);
        rig.complete_one();
        assert_eq!(rig.done.len(), 50);
        let counts = rig.counts();
        assert_eq!((counts.flushes, counts.flushes_coalesced), (2, 48));
        rig.check_idle();
    }
}

#[test]
fn a_failed_flush_fails_all_that_wait_and_stays_failed() {
    for elevator in elevators() {
        let mut rig = Rig::manual(elevator, Settings::default(), BACK);
        let served = rig.submit(Io::flush());
        rig.run();
        let pending: Vec<u64> = (0..3).map(|_| rig.submit(Io::flush())).collect();
        rig.disk().finish_with(0, -5);
        rig.run();
        let kind = |rig: &Rig, token| rig.result(token).err().map(|fault| (fault.kind, fault.errno));
        assert_eq!(kind(&rig, served), Some((Kind::Io, 5)));
        for token in pending {
            assert_eq!(kind(&rig, token), Some((Kind::FlushFailed, 5)), "{elevator}");
        }
        let later =
            [Io::flush(), Io::write(0, 512).with(Flags::PREFLUSH), Io::flush().with(Flags::HARD_BARRIER)]
                .map(|io| rig.submit(io));
        let plain = rig.submit(Io::write(4096, 512));
        rig.drain();
        for token in later {
            assert_eq!(kind(&rig, token), Some((Kind::FlushFailed, 5)), "{elevator}");
        }
        assert_eq!(rig.result(plain), Ok(()));
        assert_eq!(rig.counts().flushes, 1);
        assert_eq!(rig.lane.queue.flush_failure().map(|fault| fault.errno), Some(5));
        rig.lane.queue.acknowledge_flush_failure();
        let good = rig.submit(Io::flush());
        rig.drain();
        assert_eq!(rig.result(good), Ok(()));
    }
}

#[test]
fn a_failed_postflush_fails_its_write() {
    let mut rig = Rig::manual("none", Settings::default(), BACK);
    let token = rig.submit(Io::write(0, 512).with(Flags::FUA));
    rig.run();
    rig.disk().finish(0);
    rig.run();
    assert!(!rig.is_done(token));
    rig.disk().finish_with(0, -5);
    rig.run();
    assert_eq!(rig.result(token).map_err(|fault| fault.errno), Err(5));
    rig.check_idle();
}

#[test]
fn a_failed_write_is_not_flushed() {
    let mut rig = Rig::manual("none", Settings::default(), BACK);
    rig.disk().bad.insert(0);
    let token = rig.submit(Io::write(0, 512).with(Flags::FUA | Flags::PREFLUSH));
    rig.drain();
    assert_eq!(rig.result(token).map_err(|fault| fault.kind), Err(Kind::Io));
    let ops: Vec<Op> = rig.disk().starts().iter().map(|start| start.0).collect();
    assert_eq!(ops, [Op::Flush, Op::Write]);
}

#[test]
fn concurrent_durable_writes_share_their_flushes() {
    for elevator in elevators() {
        let mut rig = Rig::manual(elevator, Settings::default(), BACK);
        let both = Flags::FUA | Flags::PREFLUSH;
        let tokens: Vec<u64> = (0..20).map(|i| rig.submit(Io::write(i * 8192, 512).with(both))).collect();
        rig.drain();
        assert!(tokens.iter().all(|&token| rig.result(token).is_ok()));
        assert!(rig.counts().flushes <= 5, "{elevator}: {} flushes", rig.counts().flushes);
    }
}

#[test]
fn a_flush_waits_5_s_at_most_for_the_data_of_others() {
    let mut rig = Rig::manual("none", Settings::default(), BACK);
    rig.submit(Io::write(0, 512).with(Flags::FUA));
    rig.run();
    let flush = rig.submit(Io::flush());
    rig.run();
    assert_eq!(rig.disk().starts().len(), 1, "the write is out, the flush hopes to cover it");
    let at = rig.lane.queue.next_wakeup().expect("a deadline");
    assert_eq!(at.since(rig.now), Span::from_secs(5));
    rig.now = at;
    rig.run();
    assert_eq!(rig.disk().starts()[1].0, Op::Flush);
    rig.disk().finish(1);
    rig.run();
    assert_eq!(rig.result(flush), Ok(()));
    rig.drain();
}

/// A submitter may reuse its bio: the queue must not change its flags even if the device does not need them.
#[test]
fn a_bio_comes_back_with_the_flags_that_it_was_submitted_with() {
    const ALL: [Flags; 8] = [
        Flags::FUA,
        Flags::PREFLUSH,
        Flags::FUA.union(Flags::PREFLUSH),
        Flags::SOFT_BARRIER.union(Flags::FUA),
        Flags::SOFT_BARRIER,
        Flags::HARD_BARRIER.union(Flags::FUA).union(Flags::PREFLUSH),
        Flags::READAHEAD.union(Flags::SYNC),
        Flags::NOMERGE.union(Flags::FUA),
    ];
    for elevator in elevators() {
        for features in [THROUGH, BACK, BACK_FUA] {
            for flags in ALL {
                for op in [Op::Read, Op::Write, Op::Discard, Op::WriteZeroes] {
                    let mut rig = Rig::manual(elevator, Settings::default(), features);
                    let mut bio = rig.bio(&Io::new(op, 4096, 8192).with(flags));
                    for _ in 0..2 {
                        rig.lane.submit(rig.now, bio);
                        let mut done = Vec::new();
                        while done.is_empty() {
                            rig.lane.queue.unplug_for_waiter(rig.now);
                            rig.lane.run(rig.now);
                            assert!(rig.disk().held.iter().all(|held| !held.fua || held.op == Op::Write));
                            rig.disk().finish_all();
                            rig.lane.take_done(&mut done);
                        }
                        bio = done.remove(0);
                        assert_eq!(bio.status(), Ok(()), "{elevator} {op} {flags:?} {features:?}");
                        assert_eq!(bio.flags(), flags, "{elevator} {op} {features:?}");
                        bio.rewind(4096, 8192);
                    }
                }
            }
        }
    }
}

/// If FUA has no effect, it does not prevent merges either.
#[test]
fn durable_writes_to_a_disk_without_a_cache_merge() {
    for elevator in elevators() {
        let mut rig = Rig::manual(elevator, Settings { plug: None, ..Settings::default() }, THROUGH);
        for i in 0..8 {
            let flags = [Flags::NONE, Flags::FUA, Flags::PREFLUSH][i % 3];
            rig.submit(Io::write(i as u64 * 512, 512).with(flags));
        }
        rig.drain();
        assert_eq!(rig.disk().starts(), [(Op::Write, 0, 4096, false)], "{elevator}");
    }
}
