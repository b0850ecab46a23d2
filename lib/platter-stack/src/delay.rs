//! `delay`: a device whose completions are delayed.
//!
//! An I/O is passed down at once. Its completion is held back until the delay of its operation has passed
//! since the I/O started. A device that is slower than the delay is not slowed further. Barriers are passed down too:
//! the device below keeps their order, and completions that are held back keep it.

use crate::LayerType;
use crate::filter::{BioView, CommandRule, Filter, Filtered, only};
use crate::random::Random;
use platter_block::backend::Backend;
use platter_block::bio::Op;
use platter_block::fault::Fault;
use platter_block::params::{Param, Unit};
use platter_block::time::{Span, Time};
use std::sync::Arc;

const MOST: i64 = 3_600_000_000;

pub(crate) const TYPE: LayerType = LayerType {
    name: "delay",
    summary: "a device whose completions are delayed",
    params: &[
        Param::number("read", Unit::Micros, 0, (0, MOST), "least time of a read"),
        Param::number("write", Unit::Micros, 0, (0, MOST), "least time of a write, discard or write-zeroes"),
        Param::number("flush", Unit::Micros, 0, (0, MOST), "least time of a flush"),
        Param::number("jitter", Unit::Micros, 0, (0, MOST), "random time of up to this much added"),
        Param::number("seed", Unit::Count, 1, (0, i64::MAX), "seed of the jitter"),
    ],
    members: 1..=1,
    build: |values, below| {
        let span = |at: usize| Span::from_micros(values[at].unsigned_abs());
        let delays = Delays { read: span(0), write: span(1), flush: span(2), jitter: span(3) };
        Ok(new(only("delay", below)?, delays, values[4].unsigned_abs()))
    },
};

/// Least times of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Of a read.
    pub read: Span,
    /// Of a write, discard or write-zeroes.
    pub write: Span,
    /// Of a flush.
    pub flush: Span,
    /// Upper bound of a random time that is added, evenly distributed.
    pub jitter: Span,
}

/// A device on which no I/O completes sooner than `delays` say. Each lane seeds its jitter with `seed` and
/// its number, which counts lanes in the order in which they are opened.
pub fn new(below: Arc<dyn Backend>, delays: Delays, seed: u64) -> Arc<dyn Backend> {
    let parts =
        [("read", delays.read), ("write", delays.write), ("flush", delays.flush), ("jitter", delays.jitter)];
    let given = parts.iter().filter(|(_, span)| *span > Span::ZERO);
    let params: Vec<String> = given.map(|(name, span)| format!("{name}={}us", span.0 / 1000)).collect();
    Arc::new(Filtered::new("delay", &params.join(", "), below, Late { delays, random: Random(seed) }))
}

#[derive(Clone)]
struct Late {
    delays: Delays,
    random: Random,
}

impl Filter for Late {
    fn commands(&self) -> CommandRule {
        CommandRule::All
    }

    fn keeps_places(&self) -> bool {
        true
    }

    fn for_lane(&self, number: u64) -> Late {
        Late { random: Random(self.random.0 ^ number << 32), ..*self }
    }

    fn start(&mut self, now: Time, _slot: usize, bio: &mut BioView<'_>) -> Result<Time, Fault> {
        let least = match bio.op() {
            Op::Read => self.delays.read,
            Op::Flush => self.delays.flush,
            Op::Write | Op::Discard | Op::WriteZeroes | Op::Command => self.delays.write,
        };
        let jitter = match self.delays.jitter {
            Span::ZERO => 0,
            Span(most) => self.random.below(most + 1),
        };
        Ok(now + least + Span(jitter))
    }
}
