//! The load: writes of a journal, every nth of them a barrier, as many at once as the disk has tags to spare.

use crate::ReproError;
use platter_block::bio::{Bio, Flags};
use platter_block::fault::Error;
use platter_block::queue::Ordered;
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_sim::catalogue::{self, Choices};
use platter_sim::rng::Rng;
use platter_sim::{SimDisk, World};
use std::sync::atomic::{AtomicBool, Ordering};

/// The disks: 10,000 and 15,000 rotations a minute, each with a queue that it serves by positioning time.
pub(super) const DISKS: [&str; 2] = ["man3367mp", "x15"];
/// Bytes of a write.
const BLOCK: u64 = 4096;
/// Writes that the program has submitted and not seen complete.
const DEPTH: usize = 32;

/// How barriers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The same writes without barriers.
    None,
    Drain,
    Tag,
}

/// Where the writes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// One after the other.
    Log,
    /// Anywhere on the disk.
    Random,
}

/// A simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) disk: &'static str,
    /// Writes complete in the disk's buffer; barriers flush it.
    pub(super) cache: bool,
    pub(super) place: Place,
    /// Each one of this many writes is a barrier.
    pub(super) every: u64,
    pub(super) order: Order,
}

/// The result of a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    /// Writes a second.
    pub(super) rate: f64,
    /// Mean time from submission to completion of the writes that are barriers, or would be.
    pub(super) commit: Span,
    pub(super) barriers: u64,
    pub(super) tagged: u64,
    pub(super) redone: u64,
}

/// Loads: place and number of writes for each barrier.
pub(super) const LOADS: [(Place, u64); 4] =
    [(Place::Log, 2), (Place::Log, 8), (Place::Random, 2), (Place::Random, 8)];

/// All simulations.
pub(super) fn cells() -> Vec<Cell> {
    let mut all = Vec::new();
    for disk in DISKS {
        for cache in [false, true] {
            for (place, every) in LOADS {
                let of = |order| Cell { disk, cache, place, every, order };
                all.extend([Order::None, Order::Drain, Order::Tag].map(of));
            }
        }
    }
    all
}

fn open(cell: &Cell, seed: u64) -> Result<Device, ReproError> {
    let row = catalogue::by_name(cell.disk).ok_or(ReproError::NoDisk(cell.disk))?;
    let choices = Choices { write_cache: Some(cell.cache), seed, ..Choices::default() };
    let model = row.make(choices).map_err(|_| ReproError::NoDisk(cell.disk))?;
    let disk = SimDisk::new(&World::new(seed), model, None);
    let mut settings = DiskSettings::default();
    settings.queue.plug = None;
    settings.queue.ordered = if cell.order == Order::Tag { Ordered::Tag } else { Ordered::Drain };
    // One queue for all requests; the disk has its own idea of their order.
    let elevator = platter_elevators::by_name("noop").map(|row| (row.make)());
    Device::from_disk(disk.attach(cell.disk), settings, elevator).map_err(failed)
}

fn failed(error: Error) -> ReproError {
    ReproError::Processes(error.into())
}

/// Runs a simulation of `writes` writes with a seed.
pub(super) fn run(cell: &Cell, (writes, seed): (u64, u64), cancel: &AtomicBool) -> Result<Found, ReproError> {
    let device = open(cell, seed)?;
    let blocks = device.size() / BLOCK;
    let mut channel = device.channel(DEPTH).map_err(failed)?;
    let mut rng = Rng::new(seed);
    let (mut sent, mut done) = (0, Vec::new());
    let mut began: Vec<Time> = Vec::with_capacity(writes as usize);
    let (mut commit, mut commits) = (0, 0);
    while sent < writes || channel.outstanding() > 0 {
        if cancel.load(Ordering::Relaxed) {
            return Err(ReproError::Interrupted);
        }
        while sent < writes && channel.outstanding() < DEPTH {
            let block = match cell.place {
                Place::Log => sent % blocks,
                Place::Random => rng.below(blocks),
            };
            let mut bio = Bio::write(block * BLOCK, vec![0; BLOCK as usize])
                .map_err(|fault| ReproError::Stack(fault.to_string()))?;
            bio.set_token(sent);
            if cell.order != Order::None && is_commit(sent, cell.every) {
                bio.add_flags(Flags::HARD_BARRIER);
            }
            began.push(channel.clock().now());
            if channel.submit(bio).is_err() {
                return Err(ReproError::Stack("the channel is full".to_owned()));
            }
            sent += 1;
        }
        channel.wait(&mut done, None);
        let now = channel.clock().now();
        for bio in done.drain(..) {
            bio.status().map_err(|fault| ReproError::Stack(fault.to_string()))?;
            if is_commit(bio.token(), cell.every) {
                commit += now.since(began[bio.token() as usize]).0;
                commits += 1;
            }
        }
    }
    let took = channel.clock().now().since(Time(0)).0.max(1);
    let counters = device.counters();
    Ok(Found {
        rate: writes as f64 * 1e9 / took as f64,
        commit: Span(commit / commits.max(1)),
        barriers: counters.barriers,
        tagged: counters.barriers_tagged,
        redone: counters.barriers_redone,
    })
}

/// Whether a write ends a group.
fn is_commit(number: u64, every: u64) -> bool {
    number % every == every - 1
}
