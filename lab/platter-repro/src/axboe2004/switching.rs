//! Elevators switched while a simulated disk is busy: nothing is lost, nothing passes a barrier, and how long the queue takes to
//! drain.

use super::barriers::ELEVATORS;
use super::{Figures, Stage, elevator};
use crate::ReproError;
use crate::disk::{IDE, open};
use platter_bench::processes::ProcessError;
use platter_block::bio::{Bio, Context, Flags};
use platter_block::fault::Error;

use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_sim::rng::Rng;
use std::sync::atomic::Ordering;

/// Bios outstanding at all times.
const DEPTH: usize = 64;
/// Bios between two switches.
const BETWEEN: u64 = 200;
/// Every so many bios is a write with a hard barrier, and every so many a write without.
const BARRIER: u64 = 97;
const WRITE: u64 = 3;
const BLOCK: u64 = 4096;

fn failed(error: Error) -> ReproError {
    ReproError::Processes(ProcessError::from(error))
}

/// The switches: from each elevator to each other one.
fn walk() -> Vec<&'static str> {
    let pairs = ELEVATORS.iter().flat_map(|from| ELEVATORS.iter().map(move |to| (*from, *to)));
    pairs.filter(|(from, to)| from != to).flat_map(|(from, to)| [from, to]).collect()
}

fn is_barrier(number: u64) -> bool {
    number % BARRIER == BARRIER - 1
}

/// A load that counts what comes back.
struct Load {
    channel: Channel,
    rng: Rng,
    blocks: u64,
    /// Place of each bio and whether it has come back.
    sent: Vec<(u64, bool)>,
    done: Vec<Bio>,
    completed: u64,
    /// Bios that came back twice, with an error or as another one.
    wrong: u64,
    /// Bios that came back before a barrier that they were behind, or after one that they were in front of.
    passed: u64,
    /// All bios up to this number have come back.
    all_before: u64,
    /// The highest barrier that has come back, plus one.
    barrier: u64,
}

impl Load {
    fn fill(&mut self) -> Result<(), ReproError> {
        while self.channel.outstanding() < DEPTH {
            let number = self.sent.len() as u64;
            let pos = self.rng.below(self.blocks) * BLOCK;
            let data = vec![0; BLOCK as usize];
            let write = is_barrier(number) || number.is_multiple_of(WRITE);
            let bio = if write { Bio::write(pos, data) } else { Bio::read(pos, data) };
            let mut bio = bio.map_err(|fault| ReproError::Stack(fault.to_string()))?;
            bio.set_token(number);
            bio.set_context(Context::new(1 + (number % 8) as u32));
            if is_barrier(number) {
                bio.add_flags(Flags::HARD_BARRIER);
            }
            self.sent.push((pos, false));
            self.channel.submit(bio).map_err(|_| ReproError::Stack("the channel is full".to_owned()))?;
        }
        Ok(())
    }

    /// Waits for some bios and checks them.
    fn collect(&mut self) {
        self.channel.wait(&mut self.done, None);
        for bio in std::mem::take(&mut self.done) {
            let number = bio.token();
            let right =
                self.sent.get_mut(number as usize).is_some_and(|(_, back)| !std::mem::replace(back, true));
            self.wrong += u64::from(
                !right || bio.status().is_err() || bio.end() - BLOCK != self.sent[number as usize].0,
            );
            self.completed += 1;
            // Behind a barrier that is not back, or before one that is.
            let before = number / BARRIER * BARRIER;
            let early = before > 0 && !self.sent[before as usize - 1].1;
            let late = number + 1 < self.barrier;
            let first = is_barrier(number) && self.sent[..number as usize].iter().any(|(_, back)| !back);
            self.passed += u64::from(early || late || first);
            if is_barrier(number) {
                self.barrier = self.barrier.max(number + 1);
            }
        }
        while self.sent.get(self.all_before as usize).is_some_and(|(_, back)| *back) {
            self.all_before += 1;
        }
    }

    fn run(&mut self, bios: u64, stage: &Stage<'_>) -> Result<(), ReproError> {
        let end = self.completed + bios;
        while self.completed < end {
            if stage.cancel.load(Ordering::Relaxed) {
                return Err(ReproError::Interrupted);
            }
            self.fill()?;
            self.collect();
        }
        Ok(())
    }

    /// Milliseconds until everything that is outstanding has come back, while more is submitted.
    fn drain(&mut self, stage: &Stage<'_>) -> Result<f64, ReproError> {
        self.fill()?;
        self.channel.flush();
        let (began, last) = (self.channel.clock().now(), self.sent.len() as u64);
        while self.all_before < last {
            if stage.cancel.load(Ordering::Relaxed) {
                return Err(ReproError::Interrupted);
            }
            self.collect();
            self.fill()?;
        }
        Ok(self.channel.clock().now().since(began).0 as f64 / 1e6)
    }
}

fn switch(device: &Device, name: &'static str) -> Result<(), ReproError> {
    elevator("2.6.7", name)?;
    device
        .switch_elevator(&|| match elevator("2.6.7", name) {
            Ok(made) => made,
            Err(_) => Box::new(platter_block::elevator::Noop::default()),
        })
        .map_err(failed)
}

/// The load over all switches.
pub(super) fn switching(stage: &Stage<'_>) -> Result<Figures, ReproError> {
    let device = open(IDE, ("2.6.7", ELEVATORS[0]), stage.seed)?;
    let mut load = Load {
        channel: device.channel(DEPTH).map_err(failed)?,
        rng: Rng::new(stage.seed),
        blocks: device.size() / BLOCK,
        sent: Vec::new(),
        done: Vec::new(),
        completed: 0,
        wrong: 0,
        passed: 0,
        all_before: 0,
        barrier: 0,
    };
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let walk = walk();
    for name in &walk {
        load.run(BETWEEN, stage)?;
        without.push(load.drain(stage)?);
        load.run(BETWEEN, stage)?;
        load.fill()?;
        load.channel.flush();
        switch(&device, name)?;
        with.push(load.drain(stage)?);
    }
    while load.channel.outstanding() > 0 {
        load.collect();
    }
    let lost = load.sent.iter().filter(|(_, back)| !back).count() as u64;
    let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
    Ok(Figures::from([
        ("switch-lost", (lost + load.wrong) as f64),
        ("switch-passed", load.passed as f64),
        ("switch-number", walk.len() as f64),
        ("switch-bios", load.sent.len() as f64),
        ("switch-drain", mean(&with)),
        ("switch-drain-most", with.iter().copied().fold(0.0, f64::max)),
        ("switch-without", mean(&without)),
        ("switch-without-most", without.iter().copied().fold(0.0, f64::max)),
        ("switch-drain-ratio", mean(&with) / mean(&without)),
    ]))
}
