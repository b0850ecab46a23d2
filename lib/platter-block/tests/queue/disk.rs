//! A fake disk that follows a script, checks its requests, and records them.

use crate::memory::{drain_segments, fill_segments};
use platter_block::bio::Op;
use platter_block::driver::{Completion, Driver, Features, Geometry, Started};
use platter_block::limits::Limits;
use platter_block::segment::Segment;
use platter_block::time::Time;
use std::collections::BTreeSet;
use std::ops::Range;

/// A small random number generator (SplitMix64, Steele et al. 2014), the same on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    /// True in `percent` of all cases.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// When requests complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// All, at the next reap, in the order of their arrival.
    Prompt,
    /// Some of them at each reap, in any order.
    Shuffled,
    /// Only those that the test completes explicitly.
    Manual,
}

/// What the disk received and did, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A request arrived.
    Start(Op, u64, u64, bool),
    /// It completed with a result.
    Done(Op, u64, i64),
}

pub(crate) struct Held {
    pub(crate) tag: u32,
    pub(crate) op: Op,
    pub(crate) pos: u64,
    pub(crate) len: u64,
    pub(crate) fua: bool,
    pub(crate) atomic: bool,
    segments: Vec<Segment>,
    /// For a flush: the versions that it will make durable.
    covers: Vec<u32>,
}

pub(crate) struct FakeDisk {
    pub(crate) geometry: Geometry,
    pub(crate) data: Vec<u8>,
    pub(crate) mode: Mode,
    /// Most requests that it takes at once.
    pub(crate) room: usize,
    /// How often, in percent, a transfer stops early.
    pub(crate) partial: u64,
    /// Sectors (of 512 bytes) that cannot be transferred.
    pub(crate) bad: BTreeSet<u64>,
    /// It keeps requests that start at one of these sectors until the test completes them, or it obeys.
    pub(crate) keeps: BTreeSet<u64>,
    /// How often, in percent, a flush fails.
    pub(crate) flush_fails: u64,
    /// How often, in percent, a request ends with an error that says nothing about the disk.
    pub(crate) transient: u64,
    /// Write-zeroes is not supported, even if the limits allow it.
    pub(crate) no_zeroes: bool,
    /// Tags of requests that it was asked to cancel.
    pub(crate) cancelled: Vec<u32>,
    /// Tags of requests that it was asked to abort because they were overdue.
    pub(crate) overdue: Vec<u32>,
    /// How often, in percent, it does what it is asked and ends the request with `ECANCELED`.
    pub(crate) obeys: u64,
    pub(crate) held: Vec<Held>,
    pub(crate) log: Vec<Step>,
    pub(crate) refusals: u64,
    /// Violations of the contract by the queue.
    pub(crate) violations: Vec<String>,
    /// By sector: how often it was written, and the version that is on the medium.
    pub(crate) written: Vec<u32>,
    pub(crate) durable: Vec<u32>,
    finished: Vec<Completion>,
    rng: Rng,
}

impl FakeDisk {
    pub(crate) fn new(size: u64, limits: Limits, features: Features, seed: u64) -> FakeDisk {
        let mut rng = Rng(seed);
        let sectors = (size / 512) as usize;
        FakeDisk {
            geometry: Geometry::new(size, limits).with_features(features),
            data: (0..size).map(|_| rng.next() as u8).collect(),
            mode: Mode::Prompt,
            room: usize::MAX,
            partial: 0,
            bad: BTreeSet::new(),
            keeps: BTreeSet::new(),
            flush_fails: 0,
            transient: 0,
            no_zeroes: false,
            cancelled: Vec::new(),
            overdue: Vec::new(),
            obeys: 0,
            held: Vec::new(),
            log: Vec::new(),
            refusals: 0,
            violations: Vec::new(),
            written: vec![0; sectors],
            durable: vec![0; sectors],
            finished: Vec::new(),
            rng,
        }
    }

    /// Whether it has a request for some of this range.
    pub(crate) fn has(&self, pos: u64, end: u64) -> bool {
        self.held.iter().any(|held| held.pos < end && pos < held.pos + held.len)
    }

    /// Whether it has a request that changes some of this range.
    pub(crate) fn may_change(&self, pos: u64, end: u64) -> bool {
        let mut changes = self.held.iter().filter(|held| held.op.changes());
        changes.any(|held| held.pos < end && pos < held.pos + held.len)
    }

    /// Whether it has a request over some of this memory.
    pub(crate) fn uses(&self, memory: &[Segment]) -> bool {
        let range =
            |segment: &Segment| segment.addr() as usize..segment.addr() as usize + segment.len() as usize;
        let meets = |one: Range<usize>, other: Range<usize>| one.start < other.end && other.start < one.end;
        let held = self.held.iter().flat_map(|held| &held.segments);
        memory.iter().any(|own| held.clone().any(|other| meets(range(own), range(other))))
    }

    /// The starts, without the completions.
    pub(crate) fn starts(&self) -> Vec<(Op, u64, u64, bool)> {
        let start = |step: &Step| match *step {
            Step::Start(op, pos, len, fua) => Some((op, pos, len, fua)),
            Step::Done(..) => None,
        };
        self.log.iter().filter_map(start).collect()
    }

    /// Completes the request at this index of `held` as a good disk would, except for bad sectors.
    pub(crate) fn finish(&mut self, at: usize) {
        let (op, pos, len) = (self.held[at].op, self.held[at].pos, self.held[at].len);
        let result = if self.rng.chance(self.transient) {
            -[4, 11, 12, 125][self.rng.below(4) as usize]
        } else if self.no_zeroes && op == Op::WriteZeroes {
            -95
        } else if op == Op::Flush {
            if self.rng.chance(self.flush_fails) { -5 } else { 0 }
        } else if self.bad.range(pos / 512..(pos + len).div_ceil(512)).next().is_some() {
            -5
        } else if op.has_data() && self.rng.chance(self.partial) {
            self.rng.below(len + 1) as i64
        } else {
            len as i64
        };
        self.finish_with(at, result);
    }

    /// Completes the request at this index of `held` with a result that the test chooses.
    pub(crate) fn finish_with(&mut self, at: usize, result: i64) {
        let held = self.held.remove(at);
        if result >= 0 {
            self.execute(&held, result as u64);
        }
        self.log.push(Step::Done(held.op, held.pos, result));
        self.finished.push(Completion { tag: held.tag, result });
    }

    /// Completes everything in the order of arrival; good sectors succeed.
    pub(crate) fn finish_all(&mut self) {
        while !self.held.is_empty() {
            self.finish(0);
        }
    }

    fn execute(&mut self, held: &Held, bytes: u64) {
        if held.op == Op::Command {
            return;
        }
        let bytes = if held.op.has_data() { bytes.min(held.len) } else { held.len };
        let range = held.pos as usize..(held.pos + bytes) as usize;
        match held.op {
            Op::Read => fill_segments(&held.segments, &self.data[range]),
            Op::Write => drain_segments(&held.segments, &mut self.data[range]),
            Op::WriteZeroes | Op::Discard => self.data[range].fill(0),
            Op::Flush => {
                let covered = self.durable.iter_mut().zip(&held.covers);
                covered.for_each(|(durable, &covers)| *durable = covers.max(*durable));
            }
            Op::Command => unreachable!("it has returned"),
        }
        if held.op.changes() {
            for sector in (held.pos / 512) as usize..((held.pos + bytes) / 512) as usize {
                self.written[sector] += 1;
                if held.fua || !self.geometry.features.write_cache {
                    self.durable[sector] = self.written[sector];
                }
            }
        }
    }

    fn complain(&mut self, request: &Started<'_>, what: String) {
        self.violations.push(format!("{} {}+{}: {what}", request.op, request.pos, request.len));
    }

    fn check(&mut self, request: &Started<'_>, segments: &[Segment]) {
        let Geometry { size, limits, features, .. } = self.geometry;
        let mut bad: Vec<String> = Vec::new();
        let mut must = |good: bool, what: &str| {
            if !good {
                bad.push(what.to_string());
            }
        };
        must(self.held.iter().all(|held| held.tag != request.tag), "its tag is in use");
        must(!request.fua || (features.fua && request.op == Op::Write), "FUA");
        if request.op == Op::Flush {
            must(features.write_cache, "a flush without a cache");
            must(request.len == 0 && segments.is_empty(), "a flush with data");
        } else {
            let (pos, len, block) = (request.pos, request.len, u64::from(limits.logical_block));
            must(len > 0 && pos + len <= size, "range");
            let tail = limits.is_tail(pos, len, size);
            must(pos % block == 0 && (len % block == 0 || tail), "alignment");
            let most =
                if request.op.has_data() { u64::from(limits.max_transfer) } else { limits.max_discard };
            must(len <= most.max(block), "too long");
            must(
                limits.chunk == 0 || pos / limits.chunk == (pos + len - 1) / limits.chunk,
                "crosses a chunk",
            );
        }
        if request.op.has_data() {
            let total: u64 = segments.iter().map(|s| u64::from(s.len())).sum();
            must(total == request.len, "segments do not add up");
            must(segments.len() <= usize::from(limits.max_segments), "too many segments");
            let single = request.single_segment();
            must(single.is_none_or(|one| segments == [one]), "the single segment is another one");
        }
        for segment in segments {
            let (addr, len) = (segment.addr() as u64, u64::from(segment.len()));
            must(len > 0, "an empty segment");
            must(len <= u64::from(limits.max_segment_size), "segment too large");
            must((addr | len) % u64::from(limits.memory_align) == 0, "segment misaligned");
            let boundary = limits.segment_boundary;
            must(boundary == 0 || addr / boundary == (addr + len - 1) / boundary, "segment over a boundary");
        }
        for what in bad {
            self.complain(request, what);
        }
    }
}

impl Driver for FakeDisk {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        if self.held.len() >= self.room {
            self.refusals += 1;
            return false;
        }
        let mut segments = Vec::new();
        request.for_each_segment(|segment| segments.push(segment));
        self.check(request, &segments);
        self.log.push(Step::Start(request.op, request.pos, request.len, request.fua));
        let covers = if request.op == Op::Flush { self.written.clone() } else { Vec::new() };
        let &Started { tag, op, pos, len, fua, atomic, .. } = request;
        self.held.push(Held { tag, op, pos, len, fua, atomic, segments, covers });
        true
    }

    fn submit(&mut self, _now: Time) {}

    fn cancel(&mut self, _now: Time, tag: u32) -> bool {
        assert!(
            self.held.iter().any(|held| held.tag == tag) || self.finished.iter().any(|done| done.tag == tag)
        );
        self.cancelled.push(tag);
        if let Some(at) = self.held.iter().position(|held| held.tag == tag)
            && self.rng.chance(self.obeys)
        {
            self.finish_with(at, -125);
        }
        true
    }

    fn given_up(&mut self, now: Time, tag: u32) {
        self.overdue.push(tag);
        self.cancel(now, tag);
    }

    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        match self.mode {
            Mode::Prompt => self.finish_all(),
            Mode::Shuffled => {
                for _ in 0..=self.rng.below(self.held.len() as u64) {
                    let at = self.rng.below(self.held.len() as u64) as usize;
                    if self.held.get(at).is_some_and(|held| !self.keeps.contains(&(held.pos / 512))) {
                        self.finish(at);
                    }
                }
            }
            Mode::Manual => {}
        }
        done.append(&mut self.finished);
    }
}
