//! Barriers: their order, their flushes and their cost.

use super::engine::{BLOCK, Engine, SIZE};
use super::{Figures, Stage, elevator};
use crate::ReproError;
use crate::ordered::{Order, Place, barrier_rate};
use platter_block::bio::{Flags, Op};
use platter_block::driver::Features;
use platter_block::elevator::Dir;
use platter_block::queue::Settings;
use platter_sim::rng::Rng;

/// The elevators of 2.6 at the time.
pub(super) const ELEVATORS: [&str; 4] = ["noop", "anticipatory", "deadline", "cfq-v1"];
/// Every so many writes is a barrier.
const EVERY: u64 = 16;
const WRITES: u64 = 1024;

/// Writes that a disk began before one that a barrier puts before them, and the number of flushes.
fn out_of_order(name: &'static str, flags: Flags, seed: u64) -> Result<(f64, f64), ReproError> {
    let features = Features::NONE.with_write_cache(true);
    let settings = Settings { merges: false, plug: None, ..Settings::default() };
    let mut engine = Engine::with(elevator("2.6.7", name)?, settings, features);
    let mut rng = Rng::new(seed);
    // The place tells the number of the write: a different part of the disk each.
    let mut places: Vec<u64> = (0..WRITES).collect();
    (1..places.len()).rev().for_each(|last| places.swap(last, rng.below(last as u64 + 1) as usize));
    let step = SIZE / WRITES / BLOCK * BLOCK;
    let (mut sent, mut latest, mut wrong, mut flushes) = (0, 0, 0.0, 0.0);
    let mut completed = 0;
    while completed < WRITES {
        while sent < WRITES && sent < completed + 64 {
            let flags = if sent % EVERY == EVERY - 1 { flags } else { Flags::NONE };
            engine.submit_with(Dir::Write, places[sent as usize] * step, 1, flags)?;
            sent += 1;
        }
        let Some(served) = engine.serve()? else {
            return Err(ReproError::Stack(format!("{name}: the queue keeps {} writes", WRITES - completed)));
        };
        completed += served.completed;
        if served.op == Op::Flush {
            flushes += 1.0;
            continue;
        }
        let number = places.iter().position(|place| place * step == served.pos).unwrap_or_default() as u64;
        // A barrier has a number of its own between those of the groups.
        let group = number / EVERY * 2 + u64::from(number % EVERY == EVERY - 1);
        wrong += f64::from(u8::from(group < latest));
        latest = latest.max(group);
    }
    Ok((wrong, flushes))
}

/// The order that barriers keep, whatever the elevator, and their flushes.
pub(super) fn kinds(stage: &Stage<'_>) -> Result<Figures, ReproError> {
    let sums = |flags| {
        let mut sums = (0.0, 0.0);
        for name in ELEVATORS {
            let (wrong, flushes) = out_of_order(name, flags, stage.seed)?;
            sums = (sums.0 + wrong, sums.1 + flushes);
        }
        Ok::<(f64, f64), ReproError>(sums)
    };
    let barriers = (WRITES / EVERY * ELEVATORS.len() as u64) as f64;
    let (none, soft, hard) = (sums(Flags::NONE)?, sums(Flags::SOFT_BARRIER)?, sums(Flags::HARD_BARRIER)?);
    let mut engine =
        Engine::with(elevator("2.6.7", "noop")?, Settings::default(), Features::NONE.with_write_cache(true));
    engine.flush();
    let mut flushed = 0.0;
    while let Some(served) = engine.serve()? {
        flushed += f64::from(u8::from(served.op == Op::Flush));
    }
    Ok(Figures::from([
        ("barrier-none", none.0),
        ("barrier-soft", soft.0),
        ("barrier-hard", hard.0),
        ("barrier-soft-flushes", soft.1 / barriers),
        ("barrier-hard-flushes", hard.1 / barriers),
        ("barrier-flush", flushed),
    ]))
}

/// Writes a second of a log and of random writes, each eighth a barrier: by draining the queue, as an IDE disk has it, and as
/// ordered tags, as SCSI has them.
pub(super) fn cost(stage: &Stage<'_>) -> Result<Figures, ReproError> {
    let rate = |place, order| barrier_rate(place, order, stage.scale, stage.seed, stage.cancel);
    let [none, drain, tag] =
        [rate(Place::Log, Order::None)?, rate(Place::Log, Order::Drain)?, rate(Place::Log, Order::Tag)?];
    let [random_none, random_drain, random_tag] = [
        rate(Place::Random, Order::None)?,
        rate(Place::Random, Order::Drain)?,
        rate(Place::Random, Order::Tag)?,
    ];
    Ok(Figures::from([
        ("log-none", none),
        ("log-drain", drain),
        ("log-tag", tag),
        ("random-none", random_none),
        ("random-drain", random_drain),
        ("random-tag", random_tag),
        ("barrier-cost-drain", none / drain),
        ("barrier-cost-tag", none / tag),
        ("barrier-scsi", tag / drain),
        ("barrier-scsi-random", random_tag / random_drain),
    ]))
}
