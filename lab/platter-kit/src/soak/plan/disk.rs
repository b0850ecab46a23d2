//! The simulated disks of a run: model, limits, queue, elevator, faults.

use super::super::feature::{Feature, Features};
use super::transport::Transport;
use platter_block::driver::{Features as DiskFeatures, Geometry};
use platter_block::elevator::Elevator;
use platter_block::limits::Limits;
use platter_block::params::Unit;
use platter_block::queue::{Ordered, PlugSettings, Settings};
use platter_block::time::{Span, Time};
use platter_disk::disk_backend::{DiskSettings, OnReturn};
use platter_sim::catalogue::{self, Choices};
use platter_sim::disk::Policy;
use platter_sim::fault::{BadSectors, Death, FaultPlan, Lands, When};
use platter_sim::model::{Command, Ended, InOrder, Model};
use platter_sim::rng::Rng;
use std::collections::BTreeSet;
use std::fmt;

/// Timeout of disks that have one. Without a fault, disks of the soak take far less time.
const TIMEOUT: Span = Span::from_secs(30);

/// A disk of a run.
#[derive(Clone, Debug)]
pub(in super::super) struct DiskPlan {
    pub(in super::super) model: ModelPlan,
    pub(in super::super) settings: DiskSettings,
    pub(in super::super) elevator: Option<ElevatorPlan>,
    pub(in super::super) faults: FaultPlan,
    /// Only the owner of a channel can see what the disk has completed.
    pub(in super::super) owner_only: bool,
    /// It is behind a target.
    pub(in super::super) transport: Option<Transport>,
}

/// What a disk is.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum ModelPlan {
    /// A disk of the catalogue.
    Known(&'static str, Choices),
    /// A disk that takes its commands in random order.
    Jittery(Jitter),
}

/// A disk that takes its commands in random order.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Jitter {
    pub(in super::super) geometry: Geometry,
    pub(in super::super) depth: u32,
    /// Least time of a command, and what is added at random, in ns.
    pub(in super::super) least: u64,
    pub(in super::super) jitter: u64,
    pub(in super::super) seed: u64,
}

/// An elevator and the parameters that are not its defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct ElevatorPlan {
    pub(in super::super) name: &'static str,
    pub(in super::super) params: Vec<(&'static str, i64)>,
}

impl DiskPlan {
    /// A disk of about `sectors` sectors, if it has a choice.
    pub(super) fn new(rng: &mut Rng, on: Features, sectors: u64) -> DiskPlan {
        let model = ModelPlan::new(rng, on, sectors);
        DiskPlan {
            model,
            settings: settings(rng, on),
            elevator: on.has(Feature::Elevators).then(|| ElevatorPlan::new(rng)),
            faults: faults(rng, on, sectors),
            owner_only: rng.below(2) == 0,
            transport: None,
        }
    }
}

impl DiskPlan {
    /// Sends the barriers of the disk as ordered tags, if it takes these and the generator chooses so.
    pub(super) fn tag_barriers(&mut self, rng: &mut Rng) {
        let chosen = rng.below(2) == 0;
        if let ModelPlan::Jittery(jitter) = &mut self.model {
            jitter.geometry.features.ordered_tags = true;
        }
        if chosen && self.model.make().is_ok_and(|model| model.geometry().features.ordered_tags) {
            self.settings.queue.ordered = Ordered::Tag;
        }
    }

    /// Limits the time of all requests of a disk with a timeout, or changes what follows, in some of the cases; and how late commands
    /// come back that are stuck.
    pub(super) fn limit_time(&mut self, rng: &mut Rng) {
        let queue = &mut self.settings.queue;
        queue.slow_timeout = rng.pick(&[None, Some(TIMEOUT), Some(Span(2 * TIMEOUT.0))]);
        queue.abort_grace = rng.pick(&[None, None, Some(Span::from_secs(1)), Some(Span::from_secs(120))]);
        self.settings.on_return =
            rng.pick(&[OnReturn::Refresh, OnReturn::Refresh, OnReturn::Refresh, OnReturn::Stay]);
        self.faults.stuck = rng.pick(&[self.faults.stuck, Span::from_secs(45), Span::from_secs(100)]);
    }

    /// Puts the disk behind a target, if the generator chooses so.
    pub(super) fn put_away(&mut self, rng: &mut Rng, on: Features) {
        // UNMAP leaves what is not a whole unit of the disk, which the oracle takes for data.
        let inexact = on.has(Feature::Discards) && matches!(self.model, ModelPlan::Known(..));
        if rng.below(3) > 0 && !inexact {
            self.transport = Some(Transport::new(rng, on));
        }
    }

    /// Whether the disk was made for the plan, so that all of it is used.
    pub(super) fn is_small(&self) -> bool {
        matches!(self.model, ModelPlan::Jittery(..))
    }

    /// Sectors of a disk that is small.
    pub(super) fn sectors(&self) -> u64 {
        match &self.model {
            ModelPlan::Jittery(jitter) => jitter.geometry.size / 512,
            ModelPlan::Known(..) => 0,
        }
    }

    /// Puts the disk behind a target that is reached in two ways, if the generator chooses so.
    pub(super) fn put_behind_paths(&mut self, rng: &mut Rng, on: Features) -> bool {
        let mut transport = Transport::new(rng, on);
        transport.double(rng);
        let is_double = transport.is_double();
        self.transport = is_double.then_some(transport);
        is_double
    }

    /// The part of the disk to use, in sectors; `None`: it is small, and all of it is used.
    pub(super) fn part(&self, rng: &mut Rng, sectors: u64) -> Option<(u64, u64)> {
        let ModelPlan::Known(..) = self.model else { return None };
        let from = rng.below(8) * 8;
        Some((from, from + sectors))
    }
}

impl ModelPlan {
    fn new(rng: &mut Rng, on: Features, sectors: u64) -> ModelPlan {
        if rng.below(5) == 0 {
            let row = &catalogue::TABLE[rng.below(catalogue::TABLE.len() as u64) as usize];
            let queue = rng.pick(&[None, Some(Policy::None), Some(Policy::Fcfs), Some(Policy::Sptf)]);
            let write_cache = rng.pick(&[None, Some(true)]);
            let choices = Choices { queue, write_cache, seed: rng.bits(), ..Choices::default() };
            return ModelPlan::Known(row.name, choices);
        }
        let write_cache = rng.below(4) > 0;
        let features = DiskFeatures::NONE.with_write_cache(write_cache).with_fua(rng.below(2) == 0);
        let limits = limits(rng, on);
        // Some disks end in the middle of a block.
        let block = u64::from(limits.logical_block / 512);
        let tail = if rng.below(8) == 0 { rng.below(block) } else { 0 };
        let size = (sectors.next_multiple_of(block) + tail) * 512;
        ModelPlan::Jittery(Jitter {
            geometry: Geometry::new(size, limits).with_features(features),
            depth: 1 + rng.below(32) as u32,
            least: 10_000 + rng.below(1_000_000),
            jitter: rng.pick(&[1, 100_000, 4_000_000]),
            seed: rng.bits(),
        })
    }

    /// Makes the disk.
    ///
    /// # Errors
    /// One of the catalogue that cannot be made so.
    pub(in super::super) fn make(&self) -> Result<Box<dyn Model>, String> {
        match *self {
            ModelPlan::Known(name, choices) => {
                let row = catalogue::by_name(name).ok_or_else(|| format!("there is no disk `{name}`"))?;
                row.make(choices).map_err(|error| format!("{name} cannot be made: {error}"))
            }
            ModelPlan::Jittery(jitter) => {
                let rng = Rng::new(jitter.seed);
                Ok(Box::new(Jittery { jitter, rng, inside: BTreeSet::new(), in_order: InOrder::default() }))
            }
        }
    }
}

impl fmt::Display for DiskPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.model {
            ModelPlan::Known(name, choices) => write!(f, "{name} {choices:?}")?,
            ModelPlan::Jittery(jitter) => {
                let Geometry { size, limits, features, .. } = jitter.geometry;
                write!(f, "{} sectors, depth {}, {features:?}, {limits:?}", size / 512, jitter.depth)?;
            }
        }
        write!(f, "; {:?}, caller's plug {}", self.settings.queue, self.settings.caller_plug)?;
        if self.settings.on_return != OnReturn::default() {
            write!(f, "; on return {:?}", self.settings.on_return)?;
        }
        if let Some(elevator) = &self.elevator {
            write!(f, "; {} {:?}", elevator.name, elevator.params)?;
        }
        if let Some(transport) = &self.transport {
            write!(f, "; behind a target: {transport:?}")?;
        }
        if self.faults != (FaultPlan { seed: self.faults.seed, ..FaultPlan::default() }) {
            write!(f, "; {:?}", self.faults)?;
        }
        Ok(())
    }
}

fn limits(rng: &mut Rng, on: Features) -> Limits {
    let logical_block = rng.pick(&[512, 512, 4096]);
    Limits::unlimited(logical_block)
        .with_memory_align(rng.pick(&[1, 4, 512]))
        .with_length_align(rng.pick(&[1, logical_block]))
        .with_max_transfer(rng.pick(&[4096, 20480, 1 << 20]))
        .with_max_segments(rng.pick(&[3, 16, 128]))
        .with_max_segment_size(rng.pick(&[4096, 1 << 16]))
        .with_segment_boundary(rng.pick(&[0, 0, 4096]))
        .with_chunk(rng.pick(&[0, 0, 16384]))
        .with_max_discard(rng.pick(&[4096, 1 << 20]))
        .with_discard_granularity(if rng.below(6) == 0 { 0 } else { logical_block })
        .with_write_zeroes(rng.below(6) > 0)
        .with_atomic_write(if on.has(Feature::Atomic) { rng.pick(&[0, 4096, 16384]) } else { 0 })
}

fn settings(rng: &mut Rng, on: Features) -> DiskSettings {
    let queue = Settings {
        depth: 1 + rng.below(32) as u32,
        nr_requests: 1 + rng.below(40) as u32,
        merges: rng.below(8) > 0,
        plug: (rng.below(2) == 0).then(PlugSettings::default),
        timeout: on.has(Feature::Timeouts).then_some(TIMEOUT),
        ..Settings::default()
    };
    DiskSettings::default().with_queue(queue).with_caller_plug(rng.below(5) > 0)
}

fn faults(rng: &mut Rng, on: Features, sectors: u64) -> FaultPlan {
    let seed = rng.bits();
    let mut chance = |feature, chances: &[u32]| {
        let drawn = rng.pick(chances);
        if on.has(feature) { drawn } else { 0 }
    };
    let mut plan = FaultPlan {
        seed,
        spike_chance: chance(Feature::Spikes, &[0, 20_000, 100_000]),
        stuck_chance: chance(Feature::Stuck, &[0, 3_000, 20_000]),
        stuck_lands: Lands::Either,
        // Rare enough that a request does not fail more often than queues retry it.
        transient_chance: chance(Feature::Transient, &[0, 2_000, 10_000]),
        read_error_chance: chance(Feature::Errors, &[0, 20_000]),
        write_error_chance: chance(Feature::Errors, &[0, 20_000]),
        flush_error_chance: chance(Feature::FlushErrors, &[0, 50_000]),
        ..FaultPlan::default()
    };
    plan.spike = rng.pick(&[Span::from_millis(5), Span::from_secs(40)]);
    if on.has(Feature::Death) {
        let when = When::Io(5 + rng.below(60));
        plan.death = Some(Death { when, lasts: Some(Span::from_millis(1 + rng.below(50))) });
    }
    if on.has(Feature::BadSectors) && rng.below(2) == 0 {
        let first = rng.below(sectors);
        let sectors = first..first + 1 + rng.below(4);
        plan.bad.push(BadSectors { sectors, reads: true, writes: rng.below(2) == 0 });
    }
    plan
}

/// Largest value of a parameter that is a time: ten minutes, so that a run comes to its end.
fn longest(unit: Unit) -> i64 {
    match unit {
        Unit::Millis => 600_000,
        Unit::Micros => 600_000_000,
        Unit::Nanos => 600_000_000_000,
        _ => i64::MAX,
    }
}

impl ElevatorPlan {
    /// An elevator of the table with some of its parameters changed.
    pub(super) fn new(rng: &mut Rng) -> ElevatorPlan {
        let row = &platter_elevators::TABLE[rng.below(platter_elevators::TABLE.len() as u64) as usize];
        let mut params = Vec::new();
        for param in row.params {
            let room = param.max.min(longest(param.unit)).saturating_sub(param.min).max(0).unsigned_abs();
            // Small values are as likely as large ones.
            let most = room.checked_shr(rng.below(64) as u32).unwrap_or(0);
            let value = param.min.saturating_add_unsigned(rng.below(most.saturating_add(1)));
            if rng.below(4) == 0 {
                params.push((param.name, value));
            }
        }
        ElevatorPlan { name: row.name, params }
    }

    /// Bounds its times, for a cache that wakes up every millisecond: simulating minutes of that takes too long.
    pub(super) fn hasten(&mut self) {
        let Some(row) = platter_elevators::by_name(self.name) else { return };
        for (name, value) in &mut self.params {
            let unit = row.params.iter().find(|param| param.name == *name).map(|param| param.unit);
            if let Some(unit @ (Unit::Millis | Unit::Micros | Unit::Nanos)) = unit {
                *value = (*value).min(longest(unit) / 60);
            }
        }
    }

    /// Creates the elevator. A value that is refused in combination with others is replaced by its default.
    pub(in super::super) fn make(&self) -> Option<Box<dyn Elevator>> {
        let mut made = (platter_elevators::by_name(self.name)?.make)();
        for &(name, value) in &self.params {
            let _ = made.set(name, value);
        }
        Some(made)
    }
}

struct Jittery {
    jitter: Jitter,
    rng: Rng,
    inside: BTreeSet<(Time, u32)>,
    in_order: InOrder,
}

impl Model for Jittery {
    fn geometry(&self) -> Geometry {
        self.jitter.geometry
    }

    fn depth(&self) -> u32 {
        self.jitter.depth
    }

    fn accept(&mut self, now: Time, command: &Command) -> bool {
        if self.inside.len() >= self.jitter.depth as usize {
            return false;
        }
        let takes = Span(self.jitter.least + self.rng.below(self.jitter.jitter));
        self.in_order.begin(command.order);
        self.inside.insert((Time(self.in_order.end((now + takes).0)), command.tag));
        true
    }

    fn next_event(&self) -> Option<Time> {
        self.inside.first().map(|&(at, _)| at)
    }

    fn advance(&mut self, now: Time, ended: &mut Vec<Ended>) {
        while let Some((at, tag)) = self.inside.first().copied().filter(|&(at, _)| at <= now) {
            self.inside.remove(&(at, tag));
            ended.push(Ended { tag, at });
        }
    }
}
