//! Exact counts: sorting, bios in a stack, the plug.

use super::Results;
use crate::ReproError;
use platter_bench::ladder::{self, Ladder};
use platter_bench::report::{Column, Table};
use platter_block::backend::Backend;
use platter_block::bio::{Bio, Op};
use platter_block::driver::Geometry;
use platter_block::elevator::{Dir, Elevator, RequestId, RequestInfo, SectorMap};
use platter_block::fault::Error;
use platter_block::limits::Limits;
use platter_block::queue::{PlugSettings, SchedQueue, Settings};
use platter_block::time::{Span, Time};
use platter_block::trace::{Action, Event, Sink};
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_elevators::Linus;
use platter_sim::rng::Rng;
use std::sync::{Arc, Mutex, PoisonError};

/// Requests in the queue.
pub(super) const QUEUES: [u64; 4] = [128, 512, 2048, 8192];
/// Requests that are sorted in at each size.
const INSERTED: u64 = 64;
/// First sector of the partition of the slide "New 2.6 io unit": hda4 is hda from there on.
const FIRST_SECTOR: u64 = 1_004_060;

/// What was counted.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    /// By size of the queue: requests that linus looks at, and rounds of deadline, for a new request.
    pub(super) sorting: Vec<(u64, f64, f64)>,
    /// Units of a call of 256 KiB with pages as units, and with bios.
    pub(super) units: [u64; 2],
    /// Sector of the disk at which sector 0 of the partition is read.
    pub(super) sector: u64,
    /// Requests after which a plugged device starts, and the time after which it starts with fewer.
    pub(super) threshold: u64,
    pub(super) delay: Span,
}

fn failed(error: Error) -> ReproError {
    ReproError::Processes(error.into())
}

pub(super) fn count() -> Result<Counted, ReproError> {
    let (threshold, delay) = plug()?;
    Ok(Counted {
        sorting: QUEUES.iter().map(|&requests| sorting(requests)).collect(),
        units: [units("SBIR")?, units("bio")?],
        sector: sector()?,
        threshold,
        delay,
    })
}

fn info(pos: u64) -> RequestInfo {
    RequestInfo {
        pos,
        len: 4096,
        dir: Dir::Read,
        op: Op::Read,
        sync: true,
        ioprio: Default::default(),
        context: Default::default(),
    }
}

/// The cost of a new request in a queue of this many, as mean of [`INSERTED`] that are put into the same queue.
fn sorting(requests: u64) -> (u64, f64, f64) {
    let mut rng = Rng::new(requests);
    let (mut linus, mut map) = (Linus::default(), SectorMap::new());
    // 2.4.0 has next to no ageing, so that scans are not cut short.
    let aged = linus.set("kernel", 0);
    debug_assert!(aged.is_ok());
    let id = |index: u64| RequestId { index: index as u32, generation: 0 };
    for index in 0..requests {
        let pos = rng.below(1 << 28) * 4096;
        linus.insert(Time(0), id(index), &info(pos));
        map.insert(pos, id(index));
    }
    let mut examined = 0;
    for _ in 0..INSERTED {
        let mut queue = linus.clone();
        queue.insert(Time(0), id(requests), &info(rng.below(1 << 28) * 4096));
        examined += queue.examined() - linus.examined();
    }
    (requests, examined as f64 / INSERTED as f64, f64::from(map.search_rounds()))
}

/// Units of a call of 256 KiB on a rung of the ladder.
fn units(rung: &'static str) -> Result<u64, ReproError> {
    let row = ladder::find(rung).ok_or_else(|| ReproError::Stack(format!("there is no rung `{rung}`")))?;
    let open = |settings, elevator| Device::ram_with(1 << 20, settings, elevator);
    let disk = Ladder::open(row.switches, DiskSettings::default(), open).map_err(failed)?;
    let mut memory = vec![0u8; (256 << 10) + 4096];
    let begin = memory.as_ptr().align_offset(4096);
    let before = disk.counters().bios;
    let call = &mut memory[begin..begin + (256 << 10)];
    disk.handle().and_then(|mut handle| handle.read_at(call, 0)).map_err(failed)?;
    Ok(disk.counters().bios - before)
}

/// Keeps the places of bios that come to a disk.
#[derive(Clone, Default)]
struct Places(Arc<Mutex<Vec<u64>>>);

impl Sink for Places {
    fn event(&mut self, event: &Event) {
        if event.action == Action::Queue {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event.pos);
        }
    }
}

/// Reads the first sector of a partition.
fn sector() -> Result<u64, ReproError> {
    let disk = Device::null(1 << 30).map_err(failed)?;
    let places = Places::default();
    let sink = places.clone();
    disk.backend().trace(Some(Arc::new(move || Box::new(sink.clone()) as Box<dyn Sink>)));
    let below: Arc<dyn Backend> = disk.backend().clone();
    let part = platter_stack::partition::new(below, FIRST_SECTOR * 512, None)
        .map_err(|error| ReproError::Stack(error.to_string()))?;
    Device::new(part).read_at(&mut [0; 512], 0).map_err(failed)?;
    let places = places.0.lock().unwrap_or_else(PoisonError::into_inner);
    places.first().map(|pos| pos / 512).ok_or_else(|| ReproError::Stack("no bio reached the disk".to_owned()))
}

/// When a plugged device starts.
fn plug() -> Result<(u64, Span), ReproError> {
    let queue = || {
        let geometry = Geometry::new(1 << 30, Limits::unlimited(512));
        let settings = Settings { plug: Some(PlugSettings::default()), ..Settings::default() };
        let elevator = platter_elevators::by_name("deadline").map(|row| (row.make)());
        SchedQueue::new(geometry, settings, elevator, Arc::default())
    };
    let read = |queue: &mut SchedQueue, number: u64| {
        let bio = Bio::read(number << 20, vec![0u8; 512]);
        bio.map(|bio| queue.submit(Time(0), bio)).map_err(|fault| ReproError::Stack(fault.to_string()))
    };
    let (mut full, mut requests) = (queue(), 0);
    while full.next(Time(0)).is_none() && requests < 1000 {
        read(&mut full, requests)?;
        requests += 1;
    }
    let mut timed = queue();
    read(&mut timed, 0)?;
    let mut delay = None;
    if let Some(at) = timed.next_wakeup()
        && timed.next(Time(0)).is_none()
    {
        timed.tick(at);
        delay = timed.next(at).map(|_| at.since(Time(0)));
    }
    let delay = delay.ok_or_else(|| ReproError::Stack("a plugged queue never starts".to_owned()))?;
    Ok((requests, delay))
}

pub(super) fn table(results: &Results) -> Table {
    let mut table = Table::new([
        Column::number("requests", "in the queue"),
        Column::number("linus", "requests looked at"),
        Column::number("deadline", "rounds"),
    ]);
    for (requests, looks, rounds) in results.counted().iter().flat_map(|counted| &counted.sorting) {
        table.row([requests.to_string(), format!("{looks:.0}"), format!("{rounds:.1}")]);
    }
    table
}
