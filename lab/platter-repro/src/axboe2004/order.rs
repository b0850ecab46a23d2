//! In which order elevators serve requests, and how long one may wait, on a disk that takes a constant time.

use super::engine::{BLOCK, Engine, SIZE, Served};
use super::{Figures, Stage, elevator};
use crate::ReproError;
use platter_block::elevator::{Dir, Elevator};
use platter_block::time::Span;
use platter_sim::rng::Rng;
use std::collections::BTreeSet;

/// An elevator of a kernel with parameters of its own.
fn tuned(
    kernel: &'static str,
    name: &'static str,
    params: &[(&str, i64)],
) -> Result<Box<dyn Elevator>, ReproError> {
    let mut made = elevator(kernel, name)?;
    for (param, value) in params {
        made.set(param, *value).map_err(|error| ReproError::Stack(error.to_string()))?;
    }
    Ok(made)
}

/// Longer than any of these runs, in milliseconds.
const NEVER: i64 = 1_000_000;
/// Reads that wait while scans are observed, and that are served.
const WAITING: usize = 16;
const SERVED: usize = 8192;

/// The share of steps back, and the share of those steps back that do not return to the lowest request that waits.
fn steps_back(elevator: Box<dyn Elevator>, seed: u64) -> Result<(f64, f64), ReproError> {
    let mut engine = Engine::new(elevator, 128, Span::from_millis(5));
    let mut rng = Rng::new(seed);
    let mut waiting = BTreeSet::new();
    let (mut last, mut back, mut short) = (0, 0, 0);
    for process in 0..SERVED as u32 {
        while waiting.len() < WAITING {
            let pos = rng.below(SIZE / BLOCK) * BLOCK;
            if waiting.insert(pos) {
                // Each is of a process of its own, for which no elevator waits.
                engine.submit(Dir::Read, pos, process + 1)?;
            }
        }
        let Some(Served { pos, .. }) = engine.serve()? else { break };
        back += usize::from(pos < last);
        short += usize::from(pos < last && waiting.first() != Some(&pos));
        waiting.remove(&pos);
        last = pos;
    }
    Ok((back as f64 / SERVED as f64, short as f64 / SERVED as f64))
}

/// One-way scans.
pub(super) fn scans(stage: &Stage<'_>) -> Result<Figures, ReproError> {
    let patient = [("read_expire", NEVER)];
    let linus = steps_back(elevator("2.4.20", "linus")?, stage.seed)?;
    let deadline = steps_back(tuned("2.6.7", "deadline", &patient)?, stage.seed)?;
    let patient = [("read_expire", NEVER), ("antic_expire", 0)];
    let anticipatory = steps_back(tuned("2.6.7", "anticipatory", &patient)?, stage.seed)?;
    let noop = steps_back(elevator("2.6.7", "noop")?, stage.seed)?;
    Ok(Figures::from([
        ("scan-2.4", linus.0),
        ("scan-deadline", deadline.1),
        ("scan-as", anticipatory.1),
        ("back-linus", linus.0),
        ("back-deadline", deadline.0),
        ("back-as", anticipatory.0),
        ("back-noop", noop.0),
        ("short-linus", linus.1),
        ("short-deadline", deadline.1),
        ("short-as", anticipatory.1),
        ("short-noop", noop.1),
    ]))
}

/// Milliseconds that a read at the end of the disk waits while reads at its start keep coming, and how many of them
/// are served first. Some of the latter always wait.
fn far_read(elevator: Box<dyn Elevator>) -> Result<(f64, f64), ReproError> {
    /// More than any elevator with a limit needs.
    const MOST: u64 = 4096;
    let mut engine = Engine::new(elevator, 128, Span::from_millis(10));
    let mut stream = (0..).map(|block| block * BLOCK);
    for pos in stream.by_ref().take(8) {
        engine.submit(Dir::Read, pos, 1)?;
    }
    let far = engine.submit(Dir::Read, SIZE - BLOCK, 2)?;
    for served in 0..MOST {
        match engine.serve()? {
            Some(read) if read.token == Some(far) => return Ok((read.began.0 as f64 / 1e6, served as f64)),
            Some(_) => {}
            None => break,
        }
        for pos in stream.by_ref().take(1) {
            engine.submit(Dir::Read, pos, 1)?;
        }
    }
    Ok((f64::INFINITY, MOST as f64))
}

/// Limits of latency.
pub(super) fn latency(_: &Stage<'_>) -> Result<Figures, ReproError> {
    let linus = far_read(elevator("2.4.20", "linus")?)?;
    let deadline = far_read(elevator("2.6.7", "deadline")?)?;
    let without = far_read(tuned("2.6.7", "deadline", &[("read_expire", NEVER)])?)?;
    Ok(Figures::from([
        ("latency-2.4", linus.1),
        ("latency-deadline", deadline.0),
        ("latency-unlimited", without.1),
    ]))
}

/// Lengths of the runs of requests in one direction.
struct Runs {
    requests: Vec<u64>,
    time: Vec<Span>,
}

impl Runs {
    fn mean(&self) -> f64 {
        self.requests.iter().sum::<u64>() as f64 / self.requests.len() as f64
    }

    fn mean_millis(&self) -> f64 {
        self.time.iter().map(|span| span.0 as f64 / 1e6).sum::<f64>() / self.time.len() as f64
    }
}

/// The runs of reads and of writes while both wait all the time, each a sequence of its own.
fn runs(elevator: Box<dyn Elevator>) -> Result<[Runs; 2], ReproError> {
    const SERVED: u64 = 4096;
    let service = Span::from_millis(5);
    let mut engine = Engine::new(elevator, 128, service);
    let mut next = [0, SIZE / 2];
    let mut submit = |engine: &mut Engine, dir: Dir| {
        let pos = next[dir as usize];
        next[dir as usize] += BLOCK;
        // Readers take turns, so that none is the one to wait for.
        engine.submit(dir, pos, 1 + (pos / BLOCK % 8) as u32).map(|_| ())
    };
    for _ in 0..64 {
        submit(&mut engine, Dir::Read)?;
        submit(&mut engine, Dir::Write)?;
    }
    let mut found = [Dir::Read, Dir::Write].map(|_| Runs { requests: Vec::new(), time: Vec::new() });
    let (mut current, mut length) = (None, 0);
    for _ in 0..SERVED {
        let Some(dir) = engine.serve()?.map(|served| served.op.dir()) else { break };
        if let Some(before) = current.replace(dir).filter(|before| *before != dir) {
            found[before as usize].requests.push(length);
            found[before as usize].time.push(Span(length * service.0));
            length = 0;
        }
        length += 1;
        submit(&mut engine, dir)?;
    }
    // The first run of each starts with an idle disk.
    found.iter_mut().for_each(|runs| {
        runs.requests.remove(0);
        runs.time.remove(0);
    });
    Ok(found)
}

/// Requests served before a read that arrives while many writes wait; the most of several times of arrival.
fn before_a_read(name: &'static str, seed: u64) -> Result<f64, ReproError> {
    const WRITES: u32 = 1000;
    let mut rng = Rng::new(seed);
    let mut most = 0;
    for early in 0..40 {
        let mut engine = Engine::new(elevator("2.6.7", name)?, WRITES, Span::from_millis(5));
        for _ in 0..WRITES {
            engine.submit(Dir::Write, rng.below(SIZE / BLOCK) * BLOCK, 1)?;
        }
        for _ in 0..early {
            engine.serve()?;
        }
        let read = engine.submit(Dir::Read, rng.below(SIZE / BLOCK) * BLOCK, 2)?;
        let mut before = 0;
        while engine.serve()?.is_some_and(|served| served.token != Some(read)) {
            before += 1;
        }
        most = before.max(most);
    }
    Ok(f64::from(most))
}

/// Batches, and reads that writes do not hold up.
pub(super) fn batches(stage: &Stage<'_>) -> Result<Figures, ReproError> {
    let [_, deadline] = runs(elevator("2.6.7", "deadline")?)?;
    let [reads, writes] = runs(elevator("2.6.7", "anticipatory")?)?;
    Ok(Figures::from([
        ("batch-deadline", deadline.mean()),
        ("batch-as-reads", reads.mean_millis()),
        ("batch-as-writes", writes.mean_millis()),
        ("separate-deadline", before_a_read("deadline", stage.seed)?),
        ("separate-noop", before_a_read("noop", stage.seed)?),
    ]))
}
