//! Elevators switched while I/O runs.

use crate::ReproError;
use crate::disk::{IDE, open};
use platter_block::bio::Bio;
use platter_block::fault::Error;
use platter_block::time::{Span, Time};
use platter_elevators::presets::{self, Preset};
use platter_sim::rng::Rng;
use std::sync::atomic::{AtomicBool, Ordering};

const DEPTH: usize = 32;
/// I/Os at full size, and the least.
const IOS: u64 = 64_000;
const LEAST: u64 = 4_000;
/// Completions between two switches.
const EVERY: u64 = 100;
const KERNEL: &str = "2.6.10";
const BLOCK: u64 = 4096;

/// What became of the I/Os.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Switched {
    pub(super) submitted: u64,
    /// Completed once, without an error.
    pub(super) completed: u64,
    pub(super) switches: u64,
    /// Rate over that of the same I/Os with the first elevator throughout.
    pub(super) rate: f64,
}

fn failed(error: Error) -> ReproError {
    ReproError::Processes(error.into())
}

pub(super) fn run((scale, seed): (u64, u64), cancel: &AtomicBool) -> Result<Switched, ReproError> {
    let ios = (IOS / scale).max(LEAST);
    let (switched, took) = load((ios, seed), true, cancel)?;
    let (_, alone) = load((ios, seed), false, cancel)?;
    Ok(Switched { rate: alone.0 as f64 / took.0.max(1) as f64, ..switched })
}

fn load((ios, seed): (u64, u64), switch: bool, cancel: &AtomicBool) -> Result<(Switched, Span), ReproError> {
    let presets: Vec<&Preset> = presets::of_kernel(KERNEL).collect();
    let first = presets.first().ok_or(ReproError::NoPreset { kernel: KERNEL, elevator: "" })?.elevator;
    let device = open(IDE, (KERNEL, first), seed)?;
    let blocks = device.size() / BLOCK;
    let mut channel = device.channel(DEPTH).map_err(failed)?;
    let mut rng = Rng::new(seed);
    let mut found = Switched { submitted: 0, completed: 0, switches: 0, rate: 0.0 };
    let (mut seen, mut done) = (vec![false; ios as usize], Vec::new());
    while found.submitted < ios || channel.outstanding() > 0 {
        if cancel.load(Ordering::Relaxed) {
            return Err(ReproError::Interrupted);
        }
        while found.submitted < ios && channel.outstanding() < DEPTH {
            let (at, memory) = (rng.below(blocks) * BLOCK, vec![0; BLOCK as usize]);
            let bio = if rng.below(2) == 0 { Bio::read(at, memory) } else { Bio::write(at, memory) };
            let mut bio = bio.map_err(|fault| ReproError::Stack(fault.to_string()))?;
            bio.set_token(found.submitted);
            if channel.submit(bio).is_err() {
                return Err(ReproError::Stack("the channel is full".to_owned()));
            }
            found.submitted += 1;
        }
        channel.wait(&mut done, None);
        for bio in done.drain(..) {
            let again = std::mem::replace(&mut seen[bio.token() as usize], true);
            found.completed += u64::from(bio.status().is_ok() && !again);
        }
        if switch && found.completed / EVERY > found.switches {
            found.switches += 1;
            let next = presets[found.switches as usize % presets.len()];
            if let Some(error) = change(&device, next) {
                return Err(error);
            }
        }
    }
    Ok((found, channel.clock().now().since(Time(0))))
}

/// Switches to an elevator of the table, which each makes: the rows were tested to make one.
fn change(device: &platter_disk::device::Device, next: &'static Preset) -> Option<ReproError> {
    next.make()?;
    let make = || next.make().unwrap_or_else(|| Box::<platter_block::elevator::Noop>::default());
    device.switch_elevator(&make).err().map(failed)
}
