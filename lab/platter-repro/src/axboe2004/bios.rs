//! Bios through layers, the plug, and the allocation of requests, counted.

use super::engine::{BLOCK, Engine, SIZE};
use super::{Figures, Stage, elevator};
use crate::ReproError;
use platter_block::backend::Backend;
use platter_block::bio::Flags;
use platter_block::driver::Features;
use platter_block::elevator::Dir;
use platter_block::fault::Error;
use platter_block::queue::Settings;
use platter_block::time::Span;
use platter_block::trace::{Action, Event, Sink};
use platter_disk::device::Device;
use platter_elevators::presets;
use platter_stack::partition;
use std::sync::{Arc, Mutex, PoisonError};

/// The sector of the talk at which hda4 begins.
const HDA4: u64 = 1_004_060;
const SECTOR: u64 = 512;
/// Layers of the stack.
const LAYERS: u64 = 8;

fn broken(error: impl ToString) -> ReproError {
    ReproError::Stack(error.to_string())
}

/// Positions of the requests that a disk gets.
#[derive(Clone, Default)]
struct Places(Arc<Mutex<Vec<u64>>>);

impl Sink for Places {
    fn event(&mut self, event: &Event) {
        if event.action == Action::Issue {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event.pos);
        }
    }
}

/// The places on the disk of the requests for a read of `len` bytes at the start of the last of these partitions, each of
/// which begins at a sector of the one before.
fn through(sectors: &[u64], len: usize) -> Result<Vec<u64>, ReproError> {
    let disk = Device::null(SIZE).map_err(|error: Error| broken(error))?;
    let places = Places::default();
    let sink = places.clone();
    disk.backend().trace(Some(Arc::new(move || Box::new(sink.clone()))));
    let mut top: Arc<dyn Backend> = disk.backend().clone();
    for sector in sectors {
        top = partition::new(top, sector * SECTOR, None).map_err(broken)?;
    }
    Device::new(top).read_at(&mut vec![0; len], 0).map_err(broken)?;
    let places = places.0.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(places.iter().map(|pos| pos / SECTOR).collect())
}

/// Absolute places, and bios through layers.
pub(super) fn layers(_: &Stage<'_>) -> Result<Figures, ReproError> {
    let part = through(&[HDA4], BLOCK as usize)?;
    let stack = through(&[1000; LAYERS as usize], BLOCK as usize)?;
    let large = through(&[], 1 << 20)?;
    Ok(Figures::from([
        ("bio-place", part.first().map_or(f64::NAN, |sector| *sector as f64)),
        ("bio-data", large.len() as f64),
        ("bio-stack", stack.len() as f64),
        ("bio-stack-place", stack.first().map_or(f64::NAN, |sector| *sector as f64 / 1000.0)),
        ("four", presets::of_kernel("2.6.7").count() as f64),
    ]))
}

/// The plug.
pub(super) fn plug(_: &Stage<'_>) -> Result<Figures, ReproError> {
    let plugged = || {
        let settings = Settings { merges: false, ..Settings::default() };
        Ok::<Engine, ReproError>(Engine::with(elevator("2.6.5", "deadline")?, settings, Features::NONE))
    };
    let mut engine = plugged()?;
    let mut requests = 0;
    while engine.queue.next(engine.now).is_none() && requests < 128 {
        engine.submit(Dir::Read, requests * 16 * BLOCK, 1)?;
        requests += 1;
    }
    let mut engine = plugged()?;
    engine.submit(Dir::Read, 0, 1)?;
    let began = engine.serve()?.map_or(f64::NAN, |served| served.began.0 as f64 / 1e6);
    let mut engine = plugged()?;
    engine.submit_with(Dir::Read, 0, 1, Flags::SYNC)?;
    let waited = engine.serve()?.map_or(f64::NAN, |served| served.began.0 as f64 / 1e6);
    Ok(Figures::from([("plug-thresh", requests as f64), ("plug-delay", began), ("plug-sync", waited)]))
}

/// Requests that other processes get before one that asks while the pool is used up. The process that has used it up has one
/// more bio at all times; noop serves requests in the order in which they were allocated.
fn allocated_before(elevator_name: &'static str, dir: Dir) -> Result<f64, ReproError> {
    const REQUESTS: u32 = 128;
    let mut engine = Engine::new(elevator("2.6.7", elevator_name)?, REQUESTS, Span::from_millis(5));
    let mut next = (0..).map(|block| block * 2 * BLOCK);
    for pos in next.by_ref().take(1000) {
        engine.submit(Dir::Write, pos, 1)?;
        if engine.queue.pool_stats(Dir::Write).full
            && engine.queue.pool_stats(Dir::Write).used >= REQUESTS + 32
        {
            break;
        }
    }
    let held = engine.queue.pool_stats(Dir::Write).used;
    // One that waits, as a process that sleeps.
    engine.submit(Dir::Write, SIZE / 2, 1)?;
    let other = engine.submit(dir, SIZE - BLOCK, 2)?;
    let mut before = 0.0;
    while let Some(served) = engine.serve()? {
        if served.token == Some(other) {
            break;
        }
        before += 1.0;
        for pos in next.by_ref().take(1) {
            engine.submit(Dir::Write, pos, 1)?;
        }
    }
    Ok(before - f64::from(held))
}

/// Who gets the next request of a queue.
pub(super) fn allocation(_: &Stage<'_>) -> Result<Figures, ReproError> {
    Ok(Figures::from([
        ("allocation-write", allocated_before("noop", Dir::Write)?),
        ("allocation-read", allocated_before("noop", Dir::Read)?),
    ]))
}
