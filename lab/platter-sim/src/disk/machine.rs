//! The disk as a state machine: commands go in, completions come out.

use super::cache::{Cache, SegmentState};
use super::error::ParamsError;
use super::layout::Layout;
use super::mech::{Arm, Mechanics, Passes};
use super::medium::Medium;
use super::params::{CacheParams, ControlParams, DiskParams, Preseek, WriteBack};
use super::sched::{Outlook, Policy, Waiting};
use super::shared::{Tables, tables};
use super::transfer::Bus;
use crate::model::{Command, Ended, InOrder, Model};
use platter_block::bio::Op;
use platter_block::driver::{Features, Geometry};
use platter_block::limits::Limits;
use platter_block::time::Time;
use std::sync::Arc;

/// Most sectors of a command if no limit is given.
const MOST_SECTORS: u32 = 8192;

/// Operating parameters of a disk, separate from its properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Order of the queue in the drive.
    pub queue: Policy,
    /// Most commands in the drive; 1 with [`Policy::None`].
    pub depth: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { queue: Policy::None, depth: 1 }
    }
}

/// A mechanical disk.
///
/// One command at a time uses the arm; when it is finished, the queueing policy chooses among the waiting
/// commands, before the host can send another: with depth `d` among `d − 1`. Read-ahead and write-back
/// continue in between.
#[derive(Clone, Debug)]
pub struct MechanicalDisk {
    pub(crate) layout: Arc<Layout>,
    pub(crate) mechanics: Arc<Mechanics>,
    pub(crate) control: ControlParams,
    pub(crate) params: CacheParams,
    pub(crate) cache: Cache,
    pub(crate) bus: Bus,
    policy: Policy,
    depth: u32,
    /// Commands accepted and not ended.
    inside: u32,
    pub(crate) waiting: Vec<Waiting>,
    ends: Vec<(u64, u32)>,
    pub(crate) in_order: InOrder,
    pub(crate) medium: Medium,
    /// The current or last activity of the medium.
    pub(crate) passes: Passes,
    /// Where the arm is when the medium is idle.
    pub(crate) arm: Arm,
    /// When an interrupted read-ahead releases the arm.
    pub(crate) stopped: u64,
    /// When the arm can be given to another command.
    pub(crate) arm_free: u64,
    /// When the bus can be given to another command.
    pub(crate) bus_free: u64,
    pub(crate) after_write: bool,
    /// Sector after the last that was accessed.
    pub(crate) last: u64,
}

impl MechanicalDisk {
    /// Builds a disk from its parameters.
    ///
    /// # Errors
    /// Parameters that no disk can have, named with value and range.
    pub fn new(params: DiskParams, options: Options) -> Result<MechanicalDisk, ParamsError> {
        check_cache(&params.cache)?;
        let most = if options.queue == Policy::None { 1 } else { 65_536 };
        if !(1..=most).contains(&options.depth) {
            let expected = format!("1 to {most} with this queue");
            return Err(ParamsError::new("queue depth", options.depth, expected));
        }
        let Tables { layout, mechanics } = tables(&(params.layout, params.mechanics))?;
        Ok(MechanicalDisk {
            mechanics,
            cache: Cache::new(&params.cache),
            bus: Bus::new(&params.bus),
            layout,
            control: params.control,
            params: params.cache,
            policy: options.queue,
            depth: options.depth,
            inside: 0,
            waiting: Vec::with_capacity(options.depth.min(1024) as usize),
            ends: Vec::with_capacity(options.depth.min(1024) as usize),
            in_order: InOrder::default(),
            medium: Medium::Idle,
            passes: Passes::with_capacity(16),
            arm: Arm::default(),
            stopped: 0,
            arm_free: 0,
            bus_free: 0,
            after_write: false,
            last: 0,
        })
    }

    /// Sectors of the disk.
    pub fn sectors(&self) -> u64 {
        self.layout.sectors()
    }

    /// Where the sectors lie.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Records the end of a command.
    pub(crate) fn end_at(&mut self, at: u64, tag: u32) {
        let at = self.in_order.end(at);
        let place = self.ends.partition_point(|&(other, _)| other > at);
        self.ends.insert(place, (at, tag));
    }

    /// When the arm may go to the next command after one that ends on the bus at `end` and on the medium at
    /// `through`. `complete` is the part of the time before `end` for the completion alone.
    pub(crate) fn release(&self, end: u64, complete: u64, through: u64) -> u64 {
        match self.control.preseek {
            Preseek::AfterCompletion => end.max(through),
            Preseek::DuringCompletion => through.max(end - complete),
            Preseek::AfterMedium => through,
        }
    }

    fn take(&mut self, now: u64, command: &Command) {
        let arrived = now + self.control.per_request;
        let overhead = self.overhead(command.op, command.fua, self.after_write);
        let mut one = Waiting {
            tag: command.tag,
            op: command.op,
            fua: command.fua,
            after_write: self.after_write,
            sectors: command.sectors,
            sector: command.sector,
            arrived,
            ready: arrived + overhead,
            run: None,
            order: command.order,
        };
        if self.waiting.is_empty() {
            self.in_order.begin(one.order);
        }
        if let Some(constant) = self.mechanics.constant() {
            return self.serve_constant(&one, now, constant);
        }
        // A command that must follow another one waits with it.
        let is_behind = self.waiting.first().is_some_and(|first| first.order < one.order);
        if command.op == Op::Discard && !is_behind {
            // What it follows may be with the arm, while others of its number wait.
            self.in_order.begin(one.order);
            self.cache.invalidate(one.sector, one.end(), None);
            return self.end_at(one.ready, one.tag);
        }
        self.sync(now);
        if self.waiting.is_empty() {
            if now >= self.arm_free && !self.must_write_first(&one) {
                return self.serve(&one, now, true);
            }
            if self.serve_without_arm(&one, now, true) {
                return;
            }
        }
        if self.policy.looks_at_places() && command.op != Op::Flush {
            one.run = Some(self.layout.run(command.sector));
        }
        self.waiting.push(one);
    }

    /// Time from arrival until the arm may move.
    fn overhead(&self, op: Op, fua: bool, after_write: bool) -> u64 {
        let times = match op {
            Op::Read => self.control.read_miss,
            _ if self.completes_early(fua) || op == Op::Flush => self.control.write_hit,
            _ => self.control.write_miss,
        };
        if after_write { times.write } else { times.read }
    }

    /// Whether a write ends in the buffer.
    pub(crate) fn completes_early(&self, fua: bool) -> bool {
        self.params.write_back != WriteBack::Off && !fua
    }

    fn serve_constant(&mut self, one: &Waiting, now: u64, constant: u64) {
        let end = self.arm_free.max(now) + constant;
        self.arm_free = end;
        self.end_at(end, one.tag);
    }

    /// When the arm can serve a waiting command or waiting data.
    fn next_pick(&self) -> Option<u64> {
        (!self.waiting.is_empty() || self.cache.dirty_waiting()).then_some(self.arm_free)
    }

    /// Gives the arm to the next command or segment.
    fn pick(&mut self, now: u64) {
        self.sync(now);
        self.take_in_writes(now);
        let eligible = self.eligible();
        if let Some(at) = self.waiting[..eligible].iter().position(|one| one.op == Op::Flush) {
            if self.cache.dirty_waiting() {
                return self.write_back(now);
            }
            let flush = self.waiting.remove(at);
            return self.end_at(now.max(flush.ready), flush.tag);
        }
        let outlook = Outlook {
            mechanics: &self.mechanics,
            cache: &self.cache,
            arm: self.arm_at(now),
            now: now.max(self.stopped),
            last: self.last,
            minimum_seek: self.control.minimum_seek,
        };
        let Some(next) = self.policy.choose(&self.waiting[..eligible], outlook) else {
            return self.write_back(now);
        };
        if self.must_write_first(&self.waiting[next]) {
            return self.write_back(now);
        }
        let one = self.waiting.remove(next);
        self.serve(&one, now, false);
    }

    /// Number of waiting commands that may be served now: those before the first ordered tag, or that tag alone.
    fn eligible(&mut self) -> usize {
        let Some(first) = self.waiting.first().map(|one| one.order) else { return 0 };
        self.in_order.begin(first);
        self.waiting.partition_point(|one| one.order == first)
    }

    /// Whether dirty data in the buffer must be written before this command can be served.
    fn must_write_first(&self, one: &Waiting) -> bool {
        if !self.cache.dirty_waiting() {
            return false;
        }
        match one.op {
            Op::Flush => true,
            Op::Read if self.params.read_hits_on_writes => {
                self.cache.victim(false, (one.sector, one.end())).is_none()
            }
            _ => {
                self.cache.dirty_overlap(one.sector, one.end()).is_some()
                    || self.cache.victim(one.is_write(), (one.sector, one.end())).is_none()
            }
        }
    }

    fn serve(&mut self, one: &Waiting, now: u64, at_once: bool) {
        match one.op {
            Op::Read => self.read(one, now, at_once),
            Op::Write | Op::WriteZeroes => self.write(one, now, at_once),
            Op::Flush | Op::Command => self.end_at(one.ready.max(now), one.tag),
            Op::Discard => {
                self.cache.invalidate(one.sector, one.end(), None);
                self.end_at(one.ready.max(now), one.tag);
            }
        }
    }

    /// The dirty segment that should be written next.
    fn write_back(&mut self, now: u64) {
        let arm = self.arm_at(now);
        let nearest = |segment: &usize| {
            let run = self.layout.run(self.cache.get(*segment).start);
            self.mechanics.positioning(arm, now, &run, true)
        };
        let next = {
            let mut dirty = self.cache.in_state(SegmentState::Dirty);
            if self.policy == Policy::Sptf { dirty.min_by_key(nearest) } else { dirty.next() }
        };
        if let Some(segment) = next {
            self.destage(segment, now);
        }
    }
}

impl Model for MechanicalDisk {
    fn geometry(&self) -> Geometry {
        let mut limits = Limits::unlimited(512);
        limits.max_transfer = self.control.most_sectors.unwrap_or(MOST_SECTORS).saturating_mul(512);
        let write_cache = self.params.write_back != WriteBack::Off;
        let tags = self.policy != Policy::None;
        Geometry::new(self.layout.sectors() * 512, limits).with_features(
            Features::default()
                .with_write_cache(write_cache)
                .with_fua(true)
                .with_ordered_tags(tags)
                .with_prebuild(true),
        )
    }

    fn depth(&self) -> u32 {
        self.depth
    }

    fn accept(&mut self, now: Time, command: &Command) -> bool {
        if self.inside >= self.depth {
            return false;
        }
        // Commands chosen before now affect this one; completions are kept until they are collected.
        while let Some(pick) = self.next_pick().filter(|&pick| pick < now.0) {
            self.pick(pick);
        }
        self.inside += 1;
        self.take(now.0, command);
        true
    }

    fn next_event(&self) -> Option<Time> {
        let end = self.ends.last().map(|&(at, _)| at);
        let next = match (end, self.next_pick()) {
            (Some(end), Some(pick)) => Some(end.min(pick)),
            (end, pick) => end.or(pick),
        };
        next.map(Time)
    }

    fn advance(&mut self, now: Time, ended: &mut Vec<Ended>) {
        loop {
            let end = self.ends.last().copied().filter(|&(at, _)| at <= now.0);
            let pick = self.next_pick().filter(|&at| at <= now.0);
            match (end, pick) {
                (Some((at, _)), Some(pick)) if pick < at => self.pick(pick),
                (Some((at, tag)), _) => {
                    self.ends.pop();
                    self.inside -= 1;
                    ended.push(Ended { tag, at: Time(at) });
                }
                (None, Some(pick)) => self.pick(pick),
                (None, None) => return,
            }
        }
    }
}

fn check_cache(cache: &CacheParams) -> Result<(), ParamsError> {
    let range = |what: &str, value: u32, least: u32, most: u32| {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        Err(ParamsError::new(what, value, format!("{least} to {most}")))
    };
    let least = if cache.dedicated_write_segment { 2 } else { 1 };
    range("number of buffer segments", cache.segments, least, 65_535)?;
    range("segment size (in blks)", cache.segment_size, 1, 1 << 30)?;
    range("maximum number of write segments", cache.write_segments, 1, cache.segments)?;
    range("high (read) water mark, in millionths,", cache.read_watermark, 0, 1_000_000)?;
    range("low (write) water mark, in millionths,", cache.write_watermark, 0, 1_000_000)
}
