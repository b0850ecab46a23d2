//! The request pool: which contexts get a request, which wait, and in what order.

use crate::flush::THROUGH;
use crate::odd::{Fault, Odd};
use crate::rig::{Io, Rig, elevators, elevators_within_the_pool};
use platter_block::bio::{Flags, Op};
use platter_block::elevator::Dir;
use platter_block::fault::Kind;
use platter_block::queue::{CONGESTION_BATCH, Settings};
use platter_block::time::Span;

fn settings(nr_requests: u32) -> Settings {
    Settings { nr_requests, merges: false, plug: None, depth: 1, ..Settings::default() }
}

#[test]
fn without_an_elevator_all_wait_in_one_line() {
    let mut rig = Rig::manual("none", settings(4), THROUGH);
    for i in 0..12 {
        let op = if i % 3 == 0 { Op::Read } else { Op::Write };
        rig.submit(Io::new(op, i * 4096, 512).of(i as u32));
    }
    assert_eq!(rig.counts().requests, 4);
    assert_eq!(rig.counts().request_waits, 8);
    rig.drain();
    let order: Vec<u64> = rig.disk().starts().iter().map(|start| start.1 / 4096).collect();
    assert_eq!(order, (0..12).collect::<Vec<_>>());
}

#[test]
fn waiters_get_requests_in_the_order_they_came() {
    for elevator in elevators_within_the_pool() {
        let mut rig = Rig::manual(elevator, settings(4), THROUGH);
        for i in 0..100u64 {
            rig.submit(Io::write(i * 4096, 512).of(i as u32 % 5));
        }
        let limit = if elevator == "none" { 4 } else { 6 };
        assert!(rig.counts().requests <= limit, "{elevator}");
        let mut last = rig.counts().requests;
        while rig.done.len() < 100 {
            rig.run();
            rig.disk().finish_all();
            let requests = rig.counts().requests;
            assert!(requests >= last && requests <= rig.done.len() as u64 + limit + 1, "{elevator}");
            last = requests;
        }
        rig.check_idle();
    }
}

#[test]
fn a_newcomer_does_not_overtake_those_that_wait() {
    let mut rig = Rig::manual("noop", settings(4), THROUGH);
    for i in 0..20 {
        rig.submit(Io::write(i * 4096, 512).of(i as u32));
    }
    rig.run();
    let late = rig.submit(Io::write(50 * 4096, 512).of(99));
    rig.drain();
    assert_eq!(rig.done.last().map(|done| done.token), Some(late));
}

#[test]
fn who_batches_stands_in_line_with_those_that_wait() {
    let mut rig = Rig::manual("noop", settings(8), THROUGH);
    for i in 0..8 {
        rig.submit(Io::write(i * 4096, 512).of(1));
    }
    let waiter = rig.submit(Io::write(20 * 4096, 512).of(2));
    let batcher = rig.submit(Io::write(30 * 4096, 512).of(1));
    assert_eq!(rig.counts().request_waits, 2);
    rig.drain();
    let place = |token| rig.done.iter().position(|done| done.token == token);
    assert!(place(waiter) < place(batcher));
}

#[test]
fn reads_do_not_wait_for_writes() {
    for elevator in elevators().into_iter().filter(|&name| name != "none") {
        let mut rig = Rig::manual(elevator, settings(4), THROUGH);
        for i in 0..50 {
            rig.submit(Io::write(i * 4096, 512));
        }
        let waits = rig.counts().request_waits;
        assert!(waits > 0);
        rig.submit(Io::read(60 * 4096, 512));
        assert_eq!(rig.counts().request_waits, waits, "{elevator}");
        rig.drain();
    }
}

#[test]
fn readahead_fails_rather_than_wait() {
    for elevator in elevators_within_the_pool() {
        let mut rig = Rig::manual(elevator, settings(2), THROUGH);
        let io = |i: u64| Io::read(i * 4096, 512).of(i as u32).with(Flags::READAHEAD);
        let tokens: Vec<u64> = (0..6).map(|i| rig.submit(io(i))).collect();
        assert_eq!(rig.counts().request_waits, 0);
        rig.drain();
        let kinds: Vec<_> = tokens.iter().map(|&t| rig.result(t).err().map(|fault| fault.kind)).collect();
        assert_eq!(kinds[..2], [None, None], "{elevator}");
        assert!(kinds[3..].iter().all(|&kind| kind == Some(Kind::WouldBlock)), "{elevator} {kinds:?}");
    }
}

#[test]
fn under_cfq_v2_each_process_has_eight_requests_whatever_the_pool_has() {
    let mut rig = Rig::manual("cfq-v2", settings(2), THROUGH);
    for i in 0..30 {
        rig.submit(Io::write(i * 4096, 512).of(i as u32 % 2));
    }
    assert_eq!((rig.counts().requests, rig.counts().request_waits), (16, 14));
    rig.drain();
    rig.check_idle();
}

#[test]
fn congestion_is_seen_from_outside() {
    let mut rig = Rig::manual("noop", settings(128), THROUGH);
    for i in 0..112 {
        rig.submit(Io::write(i * 4096, 512));
    }
    let congested = |rig: &Rig| rig.lane.queue.pool_stats(Dir::Write).congested;
    assert!(!congested(&rig));
    rig.submit(Io::write(112 * 4096, 512));
    assert!(congested(&rig) && !rig.lane.queue.pool_stats(Dir::Read).congested);
    rig.run();
    for used in (103..113).rev() {
        rig.complete_one();
        assert_eq!(rig.lane.queue.pool_stats(Dir::Write).used, used);
        assert!(congested(&rig));
    }
    rig.complete_one();
    assert!(!congested(&rig));
    rig.drain();
}

#[test]
fn who_fills_the_pool_batches_for_20_ms() {
    let mut rig = Rig::manual("noop", settings(128), THROUGH);
    for i in 0..128 {
        rig.submit(Io::write(i * 512, 512).of(1));
    }
    assert!(rig.lane.queue.pool_stats(Dir::Write).full);
    for i in 0..8 {
        rig.submit(Io::write((200 + i) * 512, 512).of(1));
    }
    assert_eq!(rig.lane.queue.pool_stats(Dir::Write).used, 136);
    rig.now += Span::from_millis(21);
    for i in 0..u64::from(CONGESTION_BATCH) {
        rig.submit(Io::write((300 + i) * 512, 512).of(1));
    }
    assert_eq!(rig.lane.queue.pool_stats(Dir::Write).used, 136);
    assert_eq!(rig.counts().request_waits, u64::from(CONGESTION_BATCH));
    rig.drain();
}

#[test]
fn an_elevators_word_on_requests_is_heard() {
    let mut settings = settings(4);
    settings.depth = 8;
    let mut rig = Rig::manual("noop", settings, THROUGH);
    rig.lane.queue.switch_elevator(rig.now, Some(Box::new(Odd::new(Fault::Strict))));
    // Nothing in the queue could wake it, so it is admitted after all.
    let first = rig.submit(Io::write(0, 512).of(1));
    assert_eq!(rig.counts().request_waits, 0);
    let refused = rig.submit(Io::write(4096, 512).of(1));
    assert_eq!(rig.counts().request_waits, 1);
    for i in 0..20 {
        rig.submit(Io::write(8192 + i * 4096, 512).of(7));
    }
    assert_eq!((rig.counts().request_waits, rig.counts().requests), (1, 21), "7 must have its requests");
    rig.run();
    assert!(!rig.is_done(first));
    rig.disk().finish_all();
    rig.run();
    rig.run();
    assert!(rig.is_done(first) && !rig.is_done(refused));
    rig.drain();
    assert_eq!(rig.result(refused), Ok(()));
}

#[test]
fn an_elevators_refusal_holds_for_those_who_wait() {
    let mut rig = Rig::manual("kyber", settings(8), THROUGH);
    for i in 0..20 {
        rig.submit(Io::write(i * 4096, 512));
    }
    let used = |rig: &Rig| rig.lane.queue.pool_stats(Dir::Write).used;
    assert_eq!(used(&rig), 6, "three quarters for asynchronous writes");
    rig.submit(Io::write(1 << 19, 512).with(Flags::SYNC));
    assert_eq!(used(&rig), 7);
    rig.run();
    for _ in 0..10 {
        rig.complete_one();
        rig.run();
        assert!((6..=7).contains(&used(&rig)), "{}", used(&rig));
    }
    rig.drain();
    assert_eq!(rig.counts().completions, 21);
}

#[test]
fn a_queue_of_no_requests_and_no_depth_has_one() {
    for elevator in elevators() {
        let mut rig = Rig::manual(elevator, Settings { depth: 0, ..settings(0) }, THROUGH);
        for i in 0..5 {
            rig.submit(Io::write(i * 4096, 512).of(i as u32));
            rig.submit(Io::read(i * 4096 + 2048, 512).of(i as u32));
        }
        rig.drain();
        assert_eq!(rig.lane.queue.settings().depth, 1);
    }
}
