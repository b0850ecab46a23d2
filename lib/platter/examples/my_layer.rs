//! A layer of a program: a disk that stalls, as flash does while it collects garbage. Every nth write takes longer.

use platter::block::fault::Fault;
use platter::block::params::{Param, Unit};
use platter::block::time::{Span, Time};
use platter::stack::{LayerType, filter};
use platter::{Access, Op, open, register_layer};

static TYPE: LayerType = LayerType {
    name: "stall",
    summary: "a disk on which every nth write takes longer",
    params: &[
        Param::number("nth", Unit::Count, 100, (1, 1 << 30), "which of a thread's writes take longer"),
        Param::number("pause", Unit::Millis, 20, (0, 60_000), "how long these take at least"),
    ],
    members: 1..=1,
    build: |values, below| {
        let [nth, pause] = [values[0], values[1]].map(i64::unsigned_abs);
        filter::build(&TYPE, values, below, Stall { nth, pause: Span::from_millis(pause), writes: 0 })
    },
};

// Each lane of the device has a clone of its own.
#[derive(Clone)]
struct Stall {
    nth: u64,
    pause: Span,
    writes: u64,
}

impl filter::Filter for Stall {
    fn start(&mut self, now: Time, _slot: usize, bio: &mut filter::BioView<'_>) -> Result<Time, Fault> {
        self.writes += u64::from(bio.op() == Op::Write);
        let stalls = bio.op() == Op::Write && self.writes.is_multiple_of(self.nth);
        Ok(if stalls { now + self.pause } else { now })
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    register_layer(&TYPE)?;
    let disk = open("stall(nth=3, pause=5ms, ram(1M))", Access::read_write())?;
    (0..6).try_for_each(|at| disk.write_at(&[7; 4096], at * 4096))?;
    println!("{} on {}", disk.counters().dispatches, disk.name());
    Ok(())
}
