//! Test vectors: arrivals, dispatches for a given number of requests in the device, and the effect of
//! latencies on tokens.
//!
//! Requests are written as a letter and a number: `R` read, `W` write, `D` discard, `Z` write-zeroes.

use super::*;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use platter_block::bio::IoPrio;

const MS: u64 = 1_000_000;

fn info(kind: char, sync: bool) -> RequestInfo {
    let op = match kind {
        'R' => Op::Read,
        'W' => Op::Write,
        'D' => Op::Discard,
        _ => Op::WriteZeroes,
    };
    RequestInfo {
        pos: 0,
        len: 4096,
        dir: op.dir(),
        op,
        sync: sync || op == Op::Read,
        ioprio: IoPrio::NONE,
        context: Context::new(0),
    }
}

#[derive(Default)]
struct Rig {
    kyber: Kyber,
    /// By slot.
    kinds: Vec<char>,
    started: Vec<RequestId>,
}

impl Rig {
    fn add(&mut self, now: u64, kind: char, count: usize) {
        for _ in 0..count {
            let id = RequestId { index: self.kinds.len() as u32, generation: 1 };
            self.kinds.push(kind);
            self.kyber.insert(Time(now), id, &info(kind, false));
        }
    }

    /// Takes all requests that may go; written as runs of one kind: `R16 W8`.
    fn take(&mut self, now: u64, force: bool) -> String {
        let mut runs: Vec<(char, usize)> = Vec::new();
        while let Some(id) = self.kyber.dispatch(Time(now), force) {
            let kind = self.kinds[id.index as usize];
            self.started.push(id);
            match runs.last_mut() {
                Some((last, count)) if *last == kind => *count += 1,
                _ => runs.push((kind, 1)),
            }
        }
        let runs: Vec<String> = runs.iter().map(|(kind, count)| format!("{kind}{count}")).collect();
        runs.join(" ")
    }

    fn complete(&mut self, now: u64, count: usize) {
        for id in self.started.drain(..count) {
            self.kyber.completed(Time(now), id, &info(self.kinds[id.index as usize], false));
        }
    }

    /// `count` requests arrive, wait, are in the device for `device`, and complete, all within `total`.
    fn run(&mut self, now: u64, kind: char, count: usize, total: u64, device: u64) {
        for _ in 0..count {
            self.add(now - total, kind, 1);
            let id = self.kyber.dispatch(Time(now - device), true).expect("a request");
            self.kyber.completed(Time(now), id, &info(kind, false));
        }
    }
}

#[test]
fn domains_take_turns_in_batches() {
    type Arrivals = &'static [(char, usize)];
    #[rustfmt::skip]
    let cases: [(&str, Arrivals, &str); 4] = [
        ("one domain has all turns", &[('R', 40)], "R40"),
        ("sixteen reads, eight writes, one discard, one other",
            &[('Z', 3), ('D', 3), ('W', 20), ('R', 40)],
            "R16 W8 D1 Z1 R16 W8 D1 Z1 R8 W4 D1 Z1"),
        ("a domain without requests is passed over", &[('Z', 2), ('R', 20)], "R16 Z1 R4 Z1"),
        ("first in first out", &[('R', 1), ('W', 1), ('R', 1), ('W', 1)], "R2 W2"),
    ];
    for (name, arrivals, expected) in cases {
        let mut rig = Rig::default();
        arrivals.iter().for_each(|&(kind, count)| rig.add(0, kind, count));
        assert_eq!(rig.take(0, false), expected, "{name}");
        assert!(rig.kyber.is_empty());
    }
}

#[test]
fn tokens_bound_what_is_in_the_device() {
    for (kind, tokens) in [('R', 256), ('W', 128), ('D', 64), ('Z', 16)] {
        let mut rig = Rig::default();
        rig.add(0, kind, tokens + 10);
        assert_eq!(rig.take(0, false), format!("{kind}{tokens}"));
        rig.complete(0, 3);
        assert_eq!(rig.take(0, false), format!("{kind}3"));
        assert_eq!(rig.kyber.next_wakeup(), None, "a completion asks again");
        assert_eq!(rig.take(0, true), format!("{kind}7"), "force ignores tokens");
    }
}

#[test]
fn a_domain_without_tokens_does_not_hold_others() {
    let mut rig = Rig::default();
    rig.add(0, 'Z', 20);
    rig.take(0, false);
    rig.add(0, 'R', 20);
    assert_eq!(rig.take(0, false), "R20");
    rig.add(0, 'W', 1);
    assert_eq!(rig.take(0, false), "W1");
}

/// Numbers of tokens for reads, writes and discards after latencies in quarters of the target.
#[test]
fn tokens_follow_latencies() {
    struct Case {
        name: &'static str,
        /// Kind, number of requests, total and device latency in quarters of the kind's target.
        load: &'static [(char, usize, u64, u64)],
        depth: [u32; 3],
    }
    #[rustfmt::skip]
    let cases = [
        Case { name: "all is well", load: &[('R', 500, 4, 4), ('W', 500, 1, 1)], depth: [256, 128, 64] },
        Case { name: "reads suffer, writes that do well give up half",
            load: &[('R', 500, 5, 5), ('W', 500, 2, 2)], depth: [256, 64, 64] },
        Case { name: "the best give up most", load: &[('R', 500, 8, 8), ('W', 500, 1, 1), ('D', 500, 3, 3)],
            depth: [256, 32, 48] },
        Case { name: "a total in the last good bucket stays", load: &[('R', 500, 5, 5), ('W', 500, 4, 4)],
            depth: [256, 128, 64] },
        Case { name: "long in the queue, short in the device: no domain misses its target",
            load: &[('R', 500, 8, 1), ('W', 500, 1, 1)], depth: [256, 128, 64] },
        Case { name: "few samples are no reason", load: &[('R', 499, 8, 8), ('W', 499, 1, 1)], depth: [256, 128, 64] },
        Case { name: "a tenth may be late in the device", load: &[('R', 450, 1, 1), ('R', 50, 1, 8), ('W', 500, 1, 1)],
            depth: [256, 128, 64] },
        Case { name: "more than a tenth may not", load: &[('R', 449, 1, 1), ('R', 51, 1, 8), ('W', 500, 1, 1)],
            depth: [64, 32, 64] },
        Case { name: "a hundredth may be late in all", load: &[('R', 500, 8, 8), ('W', 495, 1, 1), ('W', 5, 4, 1)],
            depth: [256, 32, 64] },
        Case { name: "more than a hundredth counts", load: &[('R', 500, 8, 8), ('W', 494, 1, 1), ('W', 6, 4, 1)],
            depth: [256, 128, 64] },
    ];
    for case in cases {
        let mut rig = Rig::default();
        let mut now = 100_000 * MS;
        for &(kind, count, total, device) in case.load {
            let quarter = match kind {
                'R' => MS / 2,
                'W' => 5 * MS / 2,
                _ => 1250 * MS,
            };
            // Just inside the bucket.
            rig.run(now, kind, count, total * quarter, device * quarter);
            now += 1;
        }
        assert_eq!(rig.kyber.depths()[..3], TOKENS[..3], "{}: before the timer", case.name);
        assert_eq!(rig.kyber.dispatch(Time(now + 101 * MS), false), None);
        assert_eq!(rig.kyber.depths()[..3], case.depth, "{}", case.name);
    }
}

#[test]
fn tokens_that_were_given_up_come_back_when_their_owner_suffers() {
    let mut rig = Rig::default();
    let mut now = 100_000 * MS;
    let mut depths = Vec::new();
    for (reads, writes) in [(8, 1), (8, 1), (8, 1), (8, 1), (8, 1), (8, 8), (1, 8), (1, 8), (8, 7)] {
        rig.run(now, 'R', 500, reads * MS / 2, reads * MS / 2);
        rig.run(now, 'W', 500, writes * 5 * MS / 2, writes * 5 * MS / 2);
        now += 200 * MS;
        assert_eq!(rig.kyber.dispatch(Time(now), false), None);
        depths.push((rig.kyber.depths()[READ], rig.kyber.depths()[WRITE]));
    }
    let expected = [(256, 32), (256, 8), (256, 2), (256, 1), (256, 1), (256, 2), (64, 4), (16, 8), (32, 14)];
    assert_eq!(depths, expected);
}

#[test]
fn after_a_second_few_samples_do() {
    let mut rig = Rig::default();
    let start = 100_000 * MS;
    rig.run(start, 'R', 10, 4 * MS, 4 * MS);
    rig.run(start, 'W', 10, MS, MS);
    // The first check, at 100 ms, starts the second of patience; later checks need a completion. At 1,100 ms the latencies of the
    // device are evaluated, which ends the domain's second, so those in all are not due before 2,100 ms.
    for ms in (100..2100).step_by(100) {
        assert_eq!(rig.kyber.dispatch(Time(start + ms * MS), false), None);
        assert_eq!(rig.kyber.depths(), TOKENS, "after {ms} ms");
        rig.run(start + ms * MS, 'D', 1, MS, MS);
    }
    rig.run(start + 2000 * MS, 'R', 10, 4 * MS, 4 * MS);
    assert_eq!(rig.kyber.dispatch(Time(start + 2100 * MS), false), None);
    // The discards came later, and their second is not over.
    assert_eq!(rig.kyber.depths(), [256, 32, 64, 16]);
}

#[test]
fn targets_are_set_in_nanoseconds() {
    let mut rig = Rig::default();
    let now = 100_000 * MS;
    rig.kyber.set("read_lat_nsec", 1000).expect("in range");
    rig.run(now, 'R', 500, 1001, 1001);
    rig.run(now, 'W', 500, MS, MS);
    assert_eq!(rig.kyber.dispatch(Time(now + 100 * MS), false), None);
    assert_eq!(rig.kyber.depths()[..2], [256, 32]);
}

#[test]
fn asynchronous_writes_have_three_quarters_of_the_requests() {
    let mut kyber = Kyber::default();
    let who = Context::new(1);
    kyber.depth_updated(64);
    let id = |index| RequestId { index, generation: 1 };
    for index in 0..48 {
        assert_eq!(kyber.may_queue_async(who, Dir::Write), MayQueue::May, "{index}");
        kyber.insert(Time(0), id(index), &info('W', false));
    }
    assert_eq!(kyber.may_queue_async(who, Dir::Write), MayQueue::No);
    assert_eq!(kyber.may_queue(who, Dir::Read), MayQueue::May);
    for index in 48..64 {
        assert_eq!(
            kyber.may_queue(who, Dir::Write),
            MayQueue::Must,
            "a quarter is reserved for synchronous requests"
        );
        kyber.insert(Time(0), id(index), &info('W', true));
    }
    assert_eq!(kyber.may_queue(who, Dir::Write), MayQueue::May, "then the pool decides");
    // A dispatch does not end the count of a request; a merge does.
    assert_eq!(kyber.dispatch(Time(0), false), Some(id(0)));
    assert_eq!(kyber.may_queue_async(who, Dir::Write), MayQueue::No);
    kyber.absorbed(id(1), id(2), &info('W', false));
    assert_eq!(kyber.may_queue_async(who, Dir::Write), MayQueue::May);
    // A request that became synchronous returns what it took.
    kyber.completed(Time(0), id(0), &info('W', true));
    assert_eq!((kyber.asyncs, kyber.writes), (46, 62));
}

#[test]
fn a_survivor_has_waited_as_long_as_the_older() {
    let mut kyber = Kyber::default();
    let id = |index| RequestId { index, generation: 1 };
    kyber.insert(Time(5), id(0), &info('R', true));
    kyber.insert(Time(9), id(1), &info('R', true));
    kyber.absorbed(id(1), id(0), &info('R', true));
    assert_eq!((kyber.len(), kyber.kept[1].arrived), (1, Time(5)));
}
