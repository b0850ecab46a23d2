//! Combines everything, from one seed: random limits, settings, disks and I/O; late bios; silent disks and failing requests;
//! elevators that change or are faulty; freezing, plugging, time. The seed of a failed run is printed; run it
//! alone with `PLATTER_SEED=n`, or more seeds with `PLATTER_SEEDS=n`.

use crate::disk::{FakeDisk, Mode, Rng};
use crate::odd::{Fault, Odd};
use crate::rig::{Done, Io, Rig, elevators, make_elevator};
use platter_block::bio::{Flags, Op};
use platter_block::driver::Features;
use platter_block::elevator::Elevator;
use platter_block::fault::Kind;
use platter_block::lane::{Cancel, Lane};
use platter_block::limits::Limits;
use platter_block::queue::{PlugSettings, Rest, Settings};
use platter_block::time::Span;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

const SIZE: u64 = 128 << 10;

fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

fn limits(rng: &mut Rng) -> Limits {
    Limits::unlimited(pick(rng, &[512, 4096]))
        .with_memory_align(pick(rng, &[1, 4, 512]))
        .with_max_transfer(pick(rng, &[4096, 20480, 1 << 20]))
        .with_max_segments(pick(rng, &[3, 16, 128]))
        .with_max_segment_size(pick(rng, &[4096, 1 << 16]))
        .with_segment_boundary(pick(rng, &[0, 4096]))
        .with_chunk(pick(rng, &[0, 16384]))
        .with_max_discard(pick(rng, &[4096, 1 << 20]))
}

fn elevator(rng: &mut Rng) -> Option<Box<dyn Elevator>> {
    let wrong =
        [Fault::None, Fault::Twice, Fault::Stale, Fault::Loses, Fault::Hides, Fault::Strict, Fault::Idles];
    if rng.chance(20) {
        return Some(Box::new(Odd::new(pick(rng, &wrong))));
    }
    make_elevator(pick(rng, &elevators()))
}

/// The promise of durability that a bio makes on completion, and the sectors concerned.
struct Promise {
    /// By sector: the version that was acknowledged when the flush was submitted.
    before: Option<Vec<u32>>,
    /// Whether everything acknowledged before its completion must be durable.
    all: bool,
    /// Its own sectors.
    own: Range<usize>,
}

struct Simulation {
    rig: Rig,
    rng: Rng,
    /// By sector: the newest version whose write succeeded.
    acknowledged: Vec<u32>,
    promises: BTreeMap<u64, Promise>,
    /// Written sectors by token.
    writes: BTreeMap<u64, Range<usize>>,
    seen: usize,
    /// Whether other queues of the device were busy at some time.
    outside: bool,
    taken_back: BTreeSet<u64>,
    /// Where the last I/O ended.
    near: u64,
}

impl Simulation {
    fn new(seed: u64) -> Simulation {
        let mut rng = Rng(seed);
        let features = Features::default().with_write_cache(rng.chance(60)).with_fua(rng.chance(50));
        let mut disk = FakeDisk::new(SIZE, limits(&mut rng), features, seed);
        disk.mode = Mode::Shuffled;
        disk.room = pick(&mut rng, &[1, 3, usize::MAX]);
        disk.partial = pick(&mut rng, &[0, 10, 40]);
        disk.flush_fails = pick(&mut rng, &[0, 0, 5]);
        disk.transient = pick(&mut rng, &[0, 0, 20]);
        disk.obeys = pick(&mut rng, &[0, 30, 100]);
        disk.no_zeroes = rng.chance(30);
        for _ in 0..pick(&mut rng, &[0, 0, 3]) {
            disk.bad.insert(rng.below(SIZE / 512));
        }
        let plug = rng.chance(50).then(PlugSettings::default);
        let timeout = rng.chance(50).then_some(Span::from_secs(1));
        let settings = Settings {
            depth: 1 + rng.below(12) as u32,
            nr_requests: 1 + rng.below(20) as u32,
            merges: rng.chance(80),
            plug,
            timeout,
            slow_timeout: rng.chance(50).then_some(Span::from_secs(2)),
            abort_grace: rng.chance(50).then_some(Span::from_millis(300)),
            barrier_timeout: Span::from_secs(1),
            ..Settings::default()
        };
        let elevator = elevator(&mut rng);
        let mut rig = Rig::with(disk, settings, elevator);
        rig.guards = true;
        Simulation {
            rig,
            rng,
            acknowledged: vec![0; (SIZE / 512) as usize],
            promises: BTreeMap::new(),
            writes: BTreeMap::new(),
            seen: 0,
            outside: false,
            taken_back: BTreeSet::new(),
            near: 0,
        }
    }

    fn io(&mut self) -> Io {
        let (rng, limits) = (&mut self.rng, self.rig.lane.queue.geometry().limits);
        let op = pick(
            rng,
            &[Op::Read, Op::Read, Op::Write, Op::Write, Op::Write, Op::Flush, Op::Discard, Op::WriteZeroes],
        );
        let flags = pick(
            rng,
            &[
                Flags::NONE,
                Flags::NONE,
                Flags::NONE,
                Flags::SYNC,
                Flags::FUA,
                Flags::PREFLUSH,
                Flags::FUA | Flags::PREFLUSH,
                Flags::SOFT_BARRIER,
                Flags::SOFT_BARRIER | Flags::FUA,
                Flags::HARD_BARRIER,
                Flags::NOMERGE,
                Flags::READAHEAD,
                Flags::BORROWED,
            ],
        );
        let block = u64::from(limits.logical_block);
        let most = if rng.chance(20) { 24 * 1024 / block } else { 3 };
        let blocks = 1 + rng.below(most);
        let last = SIZE / block - blocks;
        // Half of them start where the one before ended, so that there is something to merge.
        let near = (self.near / block + rng.below(6)).saturating_sub(2);
        let pos = if rng.chance(50) { near.min(last) } else { rng.below(last + 1) } * block;
        self.near = pos + blocks * block;
        let io = Io::new(op, pos, (blocks * block) as usize).with(flags).of(rng.below(4) as u32);
        let patience = pick(rng, &[100_000, 3_000_000, 300_000_000, 3_000_000_000]);
        let deadline = rng.chance(30).then(|| self.rig.now + Span(1 + rng.below(patience)));
        let io = Io { deadline, ..io };
        match op {
            Op::Flush => Io { pos: 0, lens: vec![0], ..io },
            Op::Read | Op::Write => {
                let half = io.lens[0] / 2 / 512 * 512;
                let lens = if rng.chance(40) { vec![half, io.lens[0] - half] } else { io.lens.clone() };
                Io { lens, gaps: vec![0, if rng.chance(50) { 1536 } else { 0 }], ..io }
            }
            _ => io,
        }
    }

    fn submit(&mut self) {
        let io = self.io();
        if self.rig.conflicts(&io) {
            self.settle();
        }
        let sectors = (io.pos / 512) as usize..((io.pos + io.len()) / 512) as usize;
        let hard = io.flags.contains(Flags::HARD_BARRIER);
        let flush = io.op == Op::Flush || io.flags.contains(Flags::PREFLUSH) || hard;
        let durable = io.op.changes() && (hard || io.flags.contains(Flags::FUA));
        let changes = io.op.changes();
        let before = flush.then(|| self.acknowledged.clone());
        let may_be_late = io.deadline.is_some();
        let token = self.rig.submit(io);
        if may_be_late {
            self.taken_back.insert(token);
        }
        if changes {
            self.writes.insert(token, sectors.clone());
        }
        let own = if durable { sectors } else { 0..0 };
        self.promises.insert(token, Promise { before, all: hard, own });
    }

    /// Checks the bios that have completed since the last call.
    fn check(&mut self) {
        let done = self.rig.done[self.seen..].to_vec();
        self.seen = self.rig.done.len();
        for done in done {
            let promise = self.promises.remove(&done.token).expect("every bio promises something");
            let write = self.writes.remove(&done.token);
            if let Some(kind) = done.kind() {
                use Kind::{
                    BadSegments, Cancelled, FlushFailed, Gone, Io, NoMemory, Short, TimedOut, Unsettled,
                    Unsupported, WouldBlock,
                };
                let expected = match kind {
                    // Only a queue whose requests were overdue can be silent.
                    Gone => self.rig.counts().aborts > 0,
                    Cancelled => true,
                    Unsettled => self.outside,
                    // It was taken back, or the device has failed, so no zeroes are written instead.
                    Unsupported => self.taken_back.contains(&done.token) || self.rig.counts().aborts > 0,
                    NoMemory => self.rig.lane.driver().transient > 0,
                    _ => matches!(kind, BadSegments | FlushFailed | Io | Short | TimedOut | WouldBlock),
                };
                assert!(expected, "{done:?}");
                continue;
            }
            let disk = self.rig.lane.driver();
            let kept = |promised: &[u32]| promised.iter().zip(&disk.durable).all(|(p, d)| d >= p);
            assert!(promise.before.is_none_or(|before| kept(&before)), "{done:?} flushed too little");
            assert!(!promise.all || kept(&self.acknowledged), "{done:?} does not cover what is before it");
            for sector in promise.own {
                assert_eq!(disk.durable[sector], disk.written[sector], "{done:?} is not durable");
            }
            for sector in write.into_iter().flatten() {
                self.acknowledged[sector] = disk.written[sector];
            }
        }
    }

    fn run(&mut self) {
        self.rig.run();
        self.check();
    }

    /// Runs until everything has completed.
    fn settle(&mut self) {
        self.rig.lane.queue.unquiesce();
        let now = self.rig.now;
        self.rig.lane.queue.set_outside(now, Rest::Settled);
        if self.rng.chance(30) {
            // What the disk keeps may be overdue meanwhile.
            for _ in 0..8 {
                self.rig.now += Span::from_millis(500);
                self.run();
            }
        }
        self.rig.disk().keeps.clear();
        for round in 0.. {
            if self.rig.lane.is_idle() {
                break;
            }
            assert!(round < 100_000, "the queue does not come to an end");
            // In steps, so that promises are checked at the time they are made.
            let log = self.rig.disk().log.len();
            self.run();
            if log == self.rig.disk().log.len() {
                self.rig.now += Span::from_millis(500);
            }
        }
        self.rig.drain();
        self.check();
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..55 => self.submit(),
            55..80 => self.run(),
            80..84 => self.rig.now += Span(self.rng.below(4_000_000)),
            84..86 => self.rig.now += Span(self.rng.below(2_000_000_000)),
            86..88 => {
                let elevator = elevator(&mut self.rng);
                self.rig.lane.queue.switch_elevator(self.rig.now, elevator);
            }
            88 => self.rig.lane.queue.quiesce(),
            89..91 => self.rig.lane.queue.unquiesce(),
            91 => self.rig.lane.queue.set_depth(1 + self.rng.below(12) as u32),
            92..94 => {
                let rest = pick(&mut self.rng, &[Rest::Settled, Rest::Started, Rest::Waits]);
                self.outside |= rest != Rest::Settled;
                self.rig.lane.queue.set_outside(self.rig.now, rest);
            }
            94..96 => self.rig.lane.queue.unplug_for_waiter(self.rig.now),
            96 => self.rig.lane.queue.acknowledge_flush_failure(),
            97 => {
                let token = self.rng.below(self.rig.tokens().max(1));
                self.taken_back.insert(token);
                self.rig.lane.cancel(self.rig.now, &Cancel::token(token));
            }
            98 => {
                let sector = self.rng.below(SIZE / 512);
                self.rig.disk().keeps.extend(sector..sector + 8);
            }
            _ => self.settle(),
        }
    }
}

/// Returns the kinds of the failures of its bios.
fn simulate(seed: u64) -> Vec<Kind> {
    let mut simulation = Simulation::new(seed);
    for _ in 0..250 {
        simulation.step();
    }
    simulation.settle();
    simulation.rig.done.iter().filter_map(Done::kind).collect()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: a number")))
}

#[test]
fn random_lives_of_a_queue() {
    let seeds = match number("PLATTER_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("PLATTER_SEEDS").unwrap_or(400),
    };
    let (all, mut met) = (seeds.end - seeds.start >= 400, BTreeMap::new());
    for seed in seeds {
        match catch_unwind(AssertUnwindSafe(|| simulate(seed))) {
            Ok(kinds) => kinds.iter().for_each(|kind| *met.entry(format!("{kind:?}")).or_insert(0) += 1),
            Err(panic) => {
                eprintln!("the simulation failed; run it again with PLATTER_SEED={seed}");
                resume_unwind(panic);
            }
        }
    }
    for kind in ["Cancelled", "FlushFailed", "Gone", "TimedOut", "Unsettled", "WouldBlock"] {
        assert!(!all || met.contains_key(kind), "{kind} never happened, in {met:?}");
    }
}
