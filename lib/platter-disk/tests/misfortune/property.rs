//! Several lanes of a device under random faults, against a small model: each bio completes once and by its deadline,
//! nothing that overlaps a late change starts, no flush or barrier succeeds while a change is late, nothing waits
//! without a reason, nothing passes a barrier, and reads return what was written. The seed of a failed run is
//! printed; run it alone with `PLATTER_SEED=n`, or more seeds with `PLATTER_SEEDS=n`.

use crate::disk::{Disk, Lane, Options, SCSI, SECOND, command, numbered};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::command::Reach;
use platter_block::driver::Features;
use platter_block::fault::Kind;
use platter_block::queue::Settings;
use platter_block::statistics::Gauges;
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use std::collections::BTreeMap;
use std::sync::Arc;

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 24;

/// Deadlines are kept in steps of 1,024 ns.
const STEP: Span = Span(1024);

struct Rng(u64);

impl Rng {
    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// A bio that has not come back.
#[derive(Debug)]
struct Live {
    op: Op,
    flags: Flags,
    blocks: std::ops::Range<u64>,
    version: u8,
    deadline: Time,
    started: bool,
    /// Its place among all bios, if known: a lane that is not polled orders its bios later.
    place: Option<u64>,
}

impl Live {
    /// Whether it is a barrier whose start the disk sees.
    fn is_barrier(&self) -> bool {
        self.op != Op::Flush && self.flags.intersects(Flags::SOFT_BARRIER.union(Flags::HARD_BARRIER))
    }
}

struct Member {
    lane: Lane,
    live: BTreeMap<u64, Live>,
    /// Number of steps for which it is not polled.
    neglected: u64,
    /// It was also polled at the last step, so a returned bio has just completed.
    fresh: bool,
}

struct Play {
    seed: u64,
    rng: Rng,
    disk: Arc<Disk>,
    device: Device,
    members: Vec<Member>,
    /// The possible results of a read of each block.
    allowed: Vec<Vec<u8>>,
    version: u8,
    token: u64,
    /// Whether some bio has failed, was cancelled or is late.
    unlucky: bool,
    depth: u64,
    /// Whether the disk interrupts requests, which are retried after a pause.
    interrupts: bool,
    /// Whether everything that can start does, with the present elevator.
    eager: bool,
    /// Place of the last barrier that has started.
    passed: u64,
    /// A barrier was late that the disk may still have.
    late_barrier: bool,
    /// A lane was closed that the disk may still have something of.
    left: bool,
    /// Barriers that later bios have passed, unless they failed before.
    overtaken: Vec<u64>,
}

impl Drop for Play {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("PLATTER_SEED={}", self.seed);
        }
    }
}

impl Play {
    fn new(seed: u64) -> Play {
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let features = Features::default().with_write_cache(rng.below(4) > 0).with_fua(rng.below(2) > 0);
        let features = features.with_commands(SCSI);
        let depth = rng.pick(&[1, 3, 8]);
        let queue = Settings { plug: None, depth, ..Settings::default() };
        let elevator = rng.pick(&["none", "none", "none", "noop", "deadline", "mq-deadline", "bfq"]);
        let (visible, interrupts) = (rng.below(2) > 0, rng.below(2) > 0);
        let (disk, device) = Disk::open(Options { elevator, queue, features, visible, ..Options::default() });
        let lanes = 1 + rng.below(3);
        let member =
            |_| Member { lane: Lane::open(&device), live: BTreeMap::new(), neglected: 0, fresh: true };
        let members = (0..lanes).map(member).collect();
        let allowed = vec![vec![0]; BLOCKS as usize];
        Play {
            seed,
            rng,
            disk,
            device,
            members,
            allowed,
            version: 0,
            token: 0,
            unlucky: false,
            depth: depth.into(),
            interrupts,
            eager: elevator != "bfq",
            passed: 0,
            late_barrier: false,
            left: false,
            overtaken: Vec::new(),
        }
    }

    /// Whether a bio must not be in flight together with the present ones. Reads do not overlap either, so that each
    /// request identifies its bio.
    fn conflicts(&self, blocks: &std::ops::Range<u64>) -> bool {
        let mut live = self.members.iter().flat_map(|member| member.live.values());
        live.any(|live| live.blocks.start < blocks.end && blocks.start < live.blocks.end)
    }

    fn submit(&mut self) {
        let rng = &mut self.rng;
        let op = rng.pick(&[Op::Read, Op::Write, Op::Write, Op::Write, Op::Flush, Op::WriteZeroes]);
        // A quarter of what transfers data travels as commands. One in 32 may change anything.
        let is_command = op != Op::Flush && rng.below(4) == 0;
        let is_wide = is_command && op == Op::WriteZeroes;
        let at_head = rng.below(2) == 0;
        let flags = rng.pick(&[
            Flags::NONE,
            Flags::NONE,
            Flags::NONE,
            Flags::FUA,
            Flags::PREFLUSH,
            Flags::SOFT_BARRIER,
            Flags::HARD_BARRIER,
        ]);
        let begin = rng.below(BLOCKS);
        let mut blocks = begin..(begin + 1 + rng.below(3)).min(BLOCKS);
        if op == Op::Flush {
            blocks = 0..0;
        }
        if is_wide {
            blocks = 0..BLOCKS;
        }
        let flags = if is_command { Flags::NONE } else { flags };
        let patience = rng.pick(&[SECOND, SECOND, Span(SECOND.0 / 3)]);
        let at = rng.below(self.members.len() as u64) as usize;
        if self.conflicts(&blocks) {
            return;
        }
        let len = (blocks.end - blocks.start) * BLOCK;
        let version = if op == Op::Write { self.version % 255 + 1 } else { 0 };
        let (pos, bytes) = (blocks.start * BLOCK, len as usize);
        let mut bio = match op {
            _ if is_wide => command(Reach::Everything, at_head, 0, 0),
            Op::Read if is_command => command(Reach::Reads { pos, len }, at_head, bytes, 0xee),
            Op::Write if is_command => command(Reach::Changes { pos, len }, at_head, bytes, version),
            Op::Read => Bio::read(blocks.start * BLOCK, vec![0xee; len as usize]).unwrap(),
            Op::Write => Bio::write(blocks.start * BLOCK, vec![version; len as usize]).unwrap(),
            Op::Flush => Bio::flush(),
            op => Bio::new(op, blocks.start * BLOCK, len),
        };
        if op == Op::Write {
            self.version = version;
        }
        if op.changes() {
            blocks.clone().for_each(|block| self.allowed[block as usize].push(version));
        }
        let deadline = self.disk.now() + patience;
        bio.set_deadline(Some(deadline));
        self.token += 1;
        let member = &mut self.members[at];
        let place = (member.neglected == 0).then_some(self.token);
        member.live.insert(self.token, Live { op, flags, blocks, version, deadline, started: false, place });
        let bio = numbered(bio, self.token, flags);
        assert!(member.lane.channel.submit(bio).is_ok());
    }

    /// Polls every lane that is not neglected, and checks the bios that come back.
    fn poll(&mut self) {
        for _ in 0..2 {
            for at in 0..self.members.len() {
                let member = &mut self.members[at];
                if member.neglected > 0 {
                    continue;
                }
                member.lane.poll();
                let starts = self.disk.take_starts();
                starts.into_iter().for_each(|(op, pos)| self.note_start(op, pos));
                let member = &mut self.members[at];
                for bio in std::mem::take(&mut member.lane.done) {
                    self.check(at, bio);
                }
            }
        }
        let now = self.disk.now();
        for member in self.members.iter().filter(|member| member.neglected == 0) {
            for (token, live) in &member.live {
                assert!(live.deadline + STEP > now, "{token} is late: {:?} {:?}", live.op, live.flags);
            }
        }
        self.members.iter_mut().for_each(|member| member.fresh = member.neglected == 0);
        assert_eq!(self.disk.violations(), Vec::<String>::new());
        self.check_waiting();
    }

    /// While the disk has only late requests, only bios that overlap those wait, and what waits for them in order: a barrier with what is
    /// behind it, and for a while a flush; when the disk has as many as it takes, nothing starts.
    fn check_waiting(&mut self) {
        self.late_barrier &= !self.disk.held().is_empty();
        let polled = self.members.iter().all(|member| member.fresh);
        let live = || self.members.iter().flat_map(|member| member.live.values());
        // One flush runs at a time, so flushes behind a late one wait for it.
        if !polled
            || !self.eager
            || self.interrupts
            || self.disk.has_flush()
            || live().any(|live| live.started)
        {
            return;
        }
        let drains = !self.disk.held().is_empty()
            && (self.late_barrier
                || live().any(|live| live.op == Op::Flush || live.flags.intersects(Flags::ORDERED)));
        let held = self.disk.held().len() as u64;
        // What waits for a closed lane waits for all that the disk has of it.
        self.left &= held > 0;
        if drains || self.left || held >= self.depth {
            return;
        }
        for live in live() {
            let overlaps = self.disk.is_late(live.blocks.start * BLOCK, live.blocks.end * BLOCK);
            assert!(overlaps, "{live:?} waits for nothing: the disk has {:?}", self.disk.held());
        }
    }

    /// The disk starts a request. Bios do not overlap, so its position identifies the bio.
    fn note_start(&mut self, op: Op, pos: u64) {
        let all = || self.members.iter().flat_map(|member| &member.live);
        let of = all().find(|(_, live)| live.op == op && live.blocks.start * BLOCK == pos && op != Op::Flush);
        let Some((&token, live)) = of.filter(|(_, live)| !live.started) else { return };
        if let Some(place) = live.place {
            assert!(place > self.passed, "{op} at {pos} starts behind a barrier that came later");
            // If they fail, the time of the failure is not known here.
            let barriers = all().filter(|(_, other)| {
                other.is_barrier() && !other.started && other.place.is_some_and(|other| other < place)
            });
            let passed: Vec<u64> = barriers.map(|(&barrier, _)| barrier).collect();
            if live.is_barrier() {
                self.passed = place;
            }
            self.overtaken.extend(passed);
        }
        let live = self.members.iter_mut().find_map(|member| member.live.get_mut(&token));
        live.into_iter().for_each(|live| live.started = true);
    }

    fn check(&mut self, at: usize, mut bio: Bio) {
        let live = self.members[at].live.remove(&bio.token()).expect("each bio comes back once");
        let fresh = self.members[at].fresh;
        let blocks = live.blocks.start as usize..live.blocks.end as usize;
        match bio.status() {
            Ok(()) => {
                assert!(!self.overtaken.contains(&bio.token()), "a later bio has passed {live:?}");
                let orders = live.op == Op::Flush || live.flags.intersects(Flags::HARD_BARRIER);
                assert!(
                    !fresh || !orders || !self.disk.is_late(0, BLOCKS * BLOCK),
                    "{:?} while a change is late",
                    live.op
                );
                if live.op.changes() {
                    // Earlier given-up requests have ended, or this one would not have started.
                    self.allowed[blocks].iter_mut().for_each(|allowed| *allowed = vec![live.version]);
                } else if live.op == Op::Read {
                    let read = bio.take_buffer::<Vec<u8>>().expect("its memory");
                    for (allowed, bytes) in self.allowed[blocks].iter().zip(read.chunks(BLOCK as usize)) {
                        assert!(
                            bytes.iter().all(|byte| allowed.contains(byte)),
                            "{} of {allowed:?}",
                            bytes[0]
                        );
                    }
                }
            }
            Err(fault) => {
                let expected = match fault.kind {
                    Kind::TimedOut | Kind::Io => true,
                    Kind::Unsettled | Kind::Cancelled | Kind::FlushFailed => self.unlucky,
                    _ => false,
                };
                assert!(expected, "{:?} {:?}: {fault:?}", live.op, live.flags);
                self.unlucky = true;
                self.late_barrier |= live.started && live.flags.intersects(Flags::ORDERED);
                if live.op.changes() && fault.kind == Kind::TimedOut {
                    self.disk.note_late(live.blocks.start * BLOCK, live.blocks.end * BLOCK);
                }
            }
        }
    }

    fn step(&mut self) {
        match self.rng.below(20) {
            0..8 => self.submit(),
            8..14 => {
                let held = self.disk.held();
                if !held.is_empty() {
                    let pos = self.rng.pick(&held);
                    let passing = if self.interrupts { Some(-4) } else { None };
                    let result = self.rng.pick(&[None, None, None, None, passing, Some(-5)]);
                    self.unlucky |= result == Some(-5);
                    self.disk.finish_with(pos, result);
                }
            }
            14 => {
                let span = Span(self.rng.below(SECOND.0 / 4));
                self.pass(span);
            }
            15 => {
                let at = self.rng.below(self.members.len() as u64) as usize;
                self.members[at].neglected = self.rng.below(12);
            }
            16 => {
                let at = self.rng.below(self.members.len() as u64) as usize;
                let tokens: Vec<u64> = self.members[at].live.keys().copied().collect();
                if !tokens.is_empty() {
                    let token = self.rng.pick(&tokens);
                    self.unlucky = true;
                    self.members[at].lane.channel.cancel(token);
                }
            }
            17 => {
                let at = self.rng.below(self.members.len() as u64) as usize;
                // Requests that a closed lane has queued may be carried out later, so only a lane without any is
                // closed.
                if self.members[at].live.is_empty() {
                    self.left = true;
                    self.members[at].lane = Lane::open(&self.device);
                }
            }
            18 => self.device.acknowledge_flush_failure(),
            _ => {}
        }
        for member in &mut self.members {
            member.neglected = member.neglected.saturating_sub(1);
        }
        self.poll();
    }

    /// Advances time, perhaps past deadlines.
    fn pass(&mut self, span: Span) {
        self.disk.pass(span);
        let now = self.disk.now();
        let mut live = self.members.iter().flat_map(|member| member.live.values());
        self.unlucky |= live.any(|live| live.deadline <= now);
    }

    /// The result of a flush by this lane.
    fn flush(&mut self, at: usize) -> Option<Kind> {
        self.token += 1;
        self.members[at].lane.send(numbered(Bio::flush(), self.token, Flags::NONE));
        for _ in 0..40 {
            self.disk.finish_all();
            // All, because what is late in one of them may be waiting for its retry.
            self.members.iter_mut().for_each(|member| member.lane.poll());
            self.disk.pass(Span::from_millis(20));
        }
        let gauges = self.device.statistics().gauges;
        let lane = &mut self.members[at].lane;
        assert!(
            lane.is_done(self.token),
            "a flush does not end: the disk has {:?}, {gauges:?}",
            self.disk.held()
        );
        let kind = lane.kind(self.token);
        lane.done.clear();
        kind
    }

    /// The disk completes everything that it has: all bios end, and the device works as if it was new.
    fn settle(&mut self) {
        for member in &mut self.members {
            member.neglected = 0;
        }
        for round in 0.. {
            self.poll();
            if self.members.iter().all(|member| member.live.is_empty()) && self.disk.held().is_empty() {
                break;
            }
            if round >= 1000 {
                for (at, member) in self.members.iter().enumerate() {
                    for (token, live) in &member.live {
                        eprintln!("lane {at}: {token} {:?} {:?} {:?}", live.op, live.flags, live.blocks);
                    }
                }
                panic!(
                    "it does not come to an end: the disk has {:?}, {:?}",
                    self.disk.held(),
                    self.device.statistics().gauges
                );
            }
            self.disk.finish_all();
            // Pauses before retries.
            self.pass(Span::from_millis(1));
        }
        // Also completes what closed lanes have left in the shared queue, which is run by what waits for it.
        let mut tries = (0..10).map(|_| self.flush(0));
        assert!(tries.any(|kind| kind != Some(Kind::Unsettled)), "a change stays late");
        self.device.acknowledge_flush_failure();
        for at in 0..self.members.len() {
            assert_eq!(self.flush(at), None, "the device works again");
        }
        assert_eq!(self.device.statistics().gauges, Gauges::default());
        self.unlucky = false;
        for block in 0..BLOCKS {
            let byte = self.disk.byte(block * BLOCK);
            assert!(self.allowed[block as usize].contains(&byte), "block {block} has {byte}");
            self.allowed[block as usize] = vec![byte];
        }
    }
}

fn play(seed: u64) {
    let mut play = Play::new(seed);
    for _ in 0..3 {
        (0..80).for_each(|_| play.step());
        play.settle();
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn lanes_keep_their_promises_under_misfortune() {
    match number("PLATTER_SEED") {
        Some(seed) => play(seed),
        None => (0..number("PLATTER_SEEDS").unwrap_or(1500)).for_each(play),
    }
}
