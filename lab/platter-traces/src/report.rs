//! A trace summed up.
//!
//! Stages are those of btt. Everything else is counted at one event of each I/O, the *basis*: its arrival if the trace has
//! arrivals. Memory does not grow with the trace: percentiles come from buckets, reuse from a sample of blocks, working sets from
//! HyperLogLog; the numbers that are estimates are marked as such.

mod access;
mod distinct;
mod heat;
mod json;
mod reuse;
mod spread;
mod stages;
mod timeline;

pub use access::{Counted, KINDS, Seeks, Sizes};
pub use heat::Heat;
pub use spread::Spread;
pub use stages::STAGES;
pub use timeline::Span;

use crate::event::{Action, Device, Event, Kind};
use std::collections::HashMap;

/// Most devices that are told apart.
const MOST_DEVICES: usize = 1 << 16;

/// A trace that is summed up.
pub struct Report {
    basis: Action,
    /// Numbers of devices, in the order in which they were seen.
    devices: HashMap<Device, u64>,
    first_ns: Option<u64>,
    last_ns: u64,
    events: u64,
    errors: u64,
    stages: stages::Stages,
    accesses: access::Accesses,
    distances: reuse::Distances,
    all: distinct::Distinct,
    timeline: timeline::Timeline,
    grids: heat::Grids,
}

/// How often blocks are accessed again.
#[derive(Clone, Debug, PartialEq)]
pub struct Reuse {
    /// The share of blocks that was followed, in percent.
    pub sampled_pct: f64,
    /// The share of accesses to blocks that had none before, in percent.
    pub first_pct: Option<f64>,
    /// The least cache that has half of the others.
    pub median_bytes: Option<u64>,
    /// Sizes of LRU caches in bytes, and the miss ratio of each in percent.
    pub misses: Vec<(u64, f64)>,
}

/// The sum of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The event at which I/Os are counted.
    pub basis: Action,
    /// All events.
    pub events: u64,
    /// Completions with an error.
    pub errors: u64,
    /// Devices.
    pub devices: u64,
    /// From the first to the last event.
    pub duration_ns: u64,
    /// Each stage, as in [`STAGES`].
    pub stages: [Option<Spread>; 9],
    /// I/Os and requests whose end was not seen.
    pub unfinished: u64,
    /// Each kind, as in [`KINDS`].
    pub kinds: [Counted; 10],
    /// Sizes, by powers of two.
    pub sizes: Vec<Sizes>,
    /// Lengths of reads, writes and discards.
    pub lengths: [Option<Spread>; 3],
    /// Seeks and runs.
    pub seeks: Seeks,
    /// Reuse.
    pub reuse: Reuse,
    /// Bytes of different blocks that were read or written.
    pub footprint_bytes: u64,
    /// Length of a part of the time.
    pub span_ns: u64,
    /// The parts.
    pub spans: Vec<Span>,
    /// Grids over time and place.
    pub heat: Vec<Heat>,
    /// I/Os on devices without one.
    pub heat_outside: u64,
}

impl Report {
    /// A report in which I/Os are counted at this event.
    pub fn new(basis: Action) -> Report {
        Report {
            basis,
            devices: HashMap::new(),
            first_ns: None,
            last_ns: 0,
            events: 0,
            errors: 0,
            stages: stages::Stages::default(),
            accesses: access::Accesses::default(),
            distances: reuse::Distances::default(),
            // A standard error of 0.8 %.
            all: distinct::Distinct::new(14),
            timeline: timeline::Timeline::default(),
            grids: heat::Grids::default(),
        }
    }

    /// Adds an event. Events come in order of time.
    pub fn add(&mut self, event: &Event) {
        self.events += 1;
        self.errors += u64::from(event.error != 0);
        let first = *self.first_ns.get_or_insert(event.time_ns);
        self.last_ns = self.last_ns.max(event.time_ns.saturating_add(event.latency_ns.unwrap_or(0)));
        self.stages.add(event);
        if event.action != self.basis {
            return;
        }
        let count = self.devices.len() as u64;
        let device = match self.devices.get(&event.device) {
            Some(number) => *number,
            None if self.devices.len() < MOST_DEVICES => {
                *self.devices.entry(event.device.clone()).or_insert(count)
            }
            None => count,
        };
        let since = event.time_ns.saturating_sub(first);
        let hashes = || access::blocks(event).map(|block| access::hash(device, block));
        self.accesses.add(event);
        self.timeline.add(since, event, hashes());
        if matches!(event.kind(), Kind::Read | Kind::Write) {
            self.grids.add(since, event);
            for hash in hashes() {
                self.all.add(hash);
                self.distances.access(hash);
            }
        }
    }

    /// The sum of what was added.
    pub fn summary(&self) -> Summary {
        let misses = self.distances.misses().into_iter().map(|(blocks, pct)| (blocks * access::BLOCK, pct));
        Summary {
            basis: self.basis,
            events: self.events,
            errors: self.errors,
            devices: self.devices.len() as u64,
            duration_ns: self.last_ns.saturating_sub(self.first_ns.unwrap_or(0)),
            stages: self.stages.spreads(),
            unfinished: self.stages.unfinished(),
            kinds: self.accesses.kinds,
            sizes: self.accesses.sizes(),
            lengths: self.accesses.lengths(),
            seeks: self.accesses.seeks(),
            reuse: Reuse {
                sampled_pct: 100.0 * self.distances.rate(),
                first_pct: self.distances.cold_pct(),
                median_bytes: self.distances.median().map(|blocks| blocks * access::BLOCK),
                misses: misses.collect(),
            },
            footprint_bytes: self.all.count() * access::BLOCK,
            span_ns: self.timeline.width_ns,
            spans: self.timeline.spans(),
            heat: self.grids.grids(),
            heat_outside: self.grids.outside,
        }
    }
}
