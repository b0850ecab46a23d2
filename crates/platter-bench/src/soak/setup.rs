//! What a run is made of, all of it from its seed.

use platter_block::driver::{Features, Geometry};
use platter_block::elevator::{self, Elevator};
use platter_block::limits::Limits;
use platter_block::params::Unit;
use platter_block::queue::{PlugSettings, Settings};
use platter_block::time::{Span, Time};
use platter_disk::leaf::LeafSettings;
use platter_sim::catalogue::{self, Choices};
use platter_sim::disk::Policy;
use platter_sim::fault::{BadSectors, Death, FaultPlan, When};
use platter_sim::model::{Command, Ended, Model};
use platter_sim::rng::Rng;
use std::collections::BTreeSet;

/// Sectors that a run uses, from the first one: few, so that I/Os meet.
pub(super) const SECTORS: u64 = 256;

/// Longest that the disks of the soak take for a command that nothing is wrong with is far below this.
const TIMEOUT: Span = Span::from_secs(30);

/// What a run is made of.
pub(super) struct Setup {
    pub(super) settings: LeafSettings,
    pub(super) faults: FaultPlan,
    /// Whether power may be cut.
    pub(super) cuts: bool,
    pub(super) channels: usize,
    pub(super) steps: u64,
    /// Elevators may be switched.
    pub(super) switches: bool,
}

impl Setup {
    pub(super) fn new(rng: &mut Rng) -> Setup {
        let dies = rng.below(10) == 0;
        Setup {
            settings: settings(rng),
            faults: faults(rng, dies),
            cuts: !dies && rng.below(10) < 7,
            channels: 1 + rng.below(3) as usize,
            steps: 60 + rng.below(120),
            switches: rng.below(2) == 0,
        }
    }
}

/// A disk of the catalogue, or one that takes its commands in no order.
pub(super) fn model(rng: &mut Rng) -> Result<Box<dyn Model>, String> {
    if rng.below(4) == 0 {
        let row = &catalogue::TABLE[rng.below(catalogue::TABLE.len() as u64) as usize];
        let queue = rng.pick(&[None, Some(Policy::None), Some(Policy::Fcfs), Some(Policy::Sptf)]);
        let write_cache = rng.pick(&[None, Some(true)]);
        let choices = Choices { queue, write_cache, seed: rng.bits(), ..Choices::default() };
        return row.make(choices).map_err(|error| format!("{} cannot be made: {error}", row.name));
    }
    let features = Features { write_cache: rng.below(4) > 0, fua: rng.below(2) == 0, read_only: false };
    let geometry = Geometry { size: 1 << 20, limits: limits(rng), features };
    Ok(Box::new(Jittery {
        geometry,
        depth: 1 + rng.below(32) as u32,
        least: 10_000 + rng.below(1_000_000),
        jitter: rng.pick(&[1, 100_000, 4_000_000]),
        rng: Rng::new(rng.bits()),
        inside: BTreeSet::new(),
    }))
}

fn limits(rng: &mut Rng) -> Limits {
    Limits {
        memory_align: rng.pick(&[1, 4, 512]),
        max_transfer: rng.pick(&[4096, 20480, 1 << 20]),
        max_segments: rng.pick(&[3, 16, 128]),
        max_segment_size: rng.pick(&[4096, 1 << 16]),
        chunk: rng.pick(&[0, 0, 16384]),
        max_discard: rng.pick(&[4096, 1 << 20]),
        ..Limits::unlimited(rng.pick(&[512, 512, 4096]))
    }
}

fn settings(rng: &mut Rng) -> LeafSettings {
    let queue = Settings {
        depth: 1 + rng.below(32) as u32,
        nr_requests: 1 + rng.below(40) as u32,
        merges: rng.below(8) > 0,
        plug: (rng.below(2) == 0).then(PlugSettings::default),
        timeout: (rng.below(5) < 2).then_some(TIMEOUT),
        ..Settings::default()
    };
    LeafSettings { queue, caller_plug: rng.below(5) > 0, ..LeafSettings::default() }
}

fn faults(rng: &mut Rng, dies: bool) -> FaultPlan {
    let mut plan = FaultPlan { seed: rng.bits(), ..FaultPlan::default() };
    if dies {
        let when = When::Io(20 + rng.below(100));
        plan.death = Some(Death { when, lasts: Some(Span::from_millis(1 + rng.below(50))) });
    }
    if rng.below(2) == 0 {
        return plan;
    }
    plan.spike_chance = rng.pick(&[0, 20_000]);
    plan.spike = rng.pick(&[Span::from_millis(5), Span::from_secs(40)]);
    plan.stuck_chance = rng.pick(&[0, 3_000]);
    plan.read_error_chance = rng.pick(&[0, 20_000]);
    plan.write_error_chance = rng.pick(&[0, 20_000]);
    plan.flush_error_chance = rng.pick(&[0, 0, 50_000]);
    if rng.below(4) == 0 {
        let first = rng.below(SECTORS);
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

/// An elevator of the table with some of its parameters changed; `None`: none.
pub(super) fn elevator(rng: &mut Rng) -> Option<Box<dyn Elevator>> {
    let rows = elevator::TABLE;
    let row = rows.get(rng.below(rows.len() as u64 + 1) as usize)?;
    let mut made = (row.make)();
    for param in row.params {
        let room = param.max.min(longest(param.unit)).saturating_sub(param.min).max(0).unsigned_abs();
        // Small values are as likely as large ones.
        let most = room.checked_shr(rng.below(64) as u32).unwrap_or(0);
        let value = param.min.saturating_add_unsigned(rng.below(most.saturating_add(1)));
        if rng.below(4) == 0 {
            // Values that do not go with others may be refused.
            let _ = made.set(param.name, value);
        }
    }
    Some(made)
}

/// A disk that takes its commands in no order.
struct Jittery {
    geometry: Geometry,
    depth: u32,
    least: u64,
    jitter: u64,
    rng: Rng,
    inside: BTreeSet<(Time, u32)>,
}

impl Model for Jittery {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn depth(&self) -> u32 {
        self.depth
    }

    fn accept(&mut self, now: Time, command: &Command) -> bool {
        if self.inside.len() >= self.depth as usize {
            return false;
        }
        let takes = Span(self.least + self.rng.below(self.jitter));
        self.inside.insert((now + takes, command.tag));
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
