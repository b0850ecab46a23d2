//! Snapshots whose disks lose power at every I/O: the snapshot shows what the origin was, and neither loses what was
//! flushed.

use platter_block::backend::Backend;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_kit::{Failure, Kit, Outcome, Summary};
use platter_sim::SimDisk;
use platter_sim::ideal::Ideal;
use platter_stack::snapshot::{Settings, Snapshot};
use std::sync::Arc;

const CHUNK: u64 = 4096;
const SIZE: u64 = 12 * CHUNK;

/// The two views, or why they cannot be opened.
struct Views {
    live: Device,
    view: Device,
}

fn backend(disk: &SimDisk) -> Result<Arc<dyn Backend>, String> {
    let device = Device::from_disk(disk.attach("kit"), DiskSettings::default(), None);
    device.map(|device| Arc::clone(device.backend())).map_err(|error| error.to_string())
}

fn open(disks: &[SimDisk]) -> Result<Views, String> {
    let [origin, store] = parts(disks)?;
    let mut settings = Settings::default();
    settings.chunk = CHUNK;
    let both = Snapshot::open(origin, store, settings).map_err(|error| error.to_string())?;
    Ok(Views { live: Device::new(both.origin), view: Device::new(both.view) })
}

fn kit(seed: u64) -> Kit<Views> {
    let disk = Ideal { size: 1 << 20, latency: Span::from_micros(100), depth: 8, write_cache: true };
    Kit::new(seed).disks(disk, 2).open(open).tries(8)
}

/// What the engine was told: per view and block, the value that is durable, and those written since.
#[derive(Clone, Default)]
struct Told {
    blocks: [Vec<Vec<u8>>; 2],
}

impl Told {
    fn of(&mut self, view: usize, at: u64) -> &mut Vec<u8> {
        let blocks = &mut self.blocks[view];
        blocks.resize(blocks.len().max((SIZE / 512) as usize), vec![0]);
        &mut blocks[(at / 512) as usize]
    }

    fn write(&mut self, view: usize, at: u64, len: u64, value: u8) {
        for block in (at..at + len).step_by(512) {
            self.of(view, block).push(value);
        }
    }

    fn flushed(&mut self, view: usize) {
        for block in &mut self.blocks[view] {
            *block = vec![*block.last().unwrap_or(&0)];
        }
    }

    fn check(&self, view: usize, name: &str, device: &Device) -> Outcome {
        let mut data = vec![0; SIZE as usize];
        device.read_at(&mut data, 0)?;
        for (at, block) in data.chunks_exact(512).enumerate() {
            let may = self.blocks[view].get(at).cloned().unwrap_or_else(|| vec![0]);
            if block.iter().any(|&byte| byte != block[0]) || !may.contains(&block[0]) {
                return Err(format!("{name}: block {at} is {}, and may be {may:?}", block[0]).into());
            }
        }
        Ok(())
    }
}

/// Changes both views, and flushes now one, now the other.
fn engine(views: &Views, told: &mut Told) -> Outcome {
    let mut value = 0;
    let steps: &[(usize, u64, u64)] = &[
        (0, 512, 1024),
        (1, 3 * CHUNK + 512, CHUNK),
        (0, 3 * CHUNK, 2 * CHUNK),
        (1, 0, 512),
        (1, 6 * CHUNK, CHUNK),
        (0, 6 * CHUNK + 512, 3 * CHUNK),
    ];
    for (nth, &(view, at, len)) in steps.iter().enumerate() {
        value += 1;
        // It may be there as soon as it is being written.
        told.write(view, at, len, value);
        let device = if view == 0 { &views.live } else { &views.view };
        device.write_at(&vec![value; len as usize], at)?;
        if nth % 2 == 1 {
            let device = if nth % 4 == 1 { &views.view } else { &views.live };
            device.flush()?;
            told.flushed(usize::from(nth % 4 == 1));
        }
    }
    Ok(())
}

fn check(views: &Views, told: &Told) -> Outcome {
    told.check(0, "the origin", &views.live)?;
    told.check(1, "the snapshot", &views.view)
}

fn run(seed: u64) -> Result<Summary, Failure> {
    kit(seed).run(engine, check)
}

type Disks = [Arc<dyn Backend>; 2];

fn parts(disks: &[SimDisk]) -> Result<Disks, String> {
    let part = |disk: &SimDisk, len| {
        platter_stack::partition::new(backend(disk)?, 0, Some(len)).map_err(|error| error.to_string())
    };
    Ok([part(&disks[0], SIZE)?, part(&disks[1], SIZE * 2)?])
}

/// Writes to a snapshot, merges it, and goes on while that runs.
fn merging([origin, store]: &Disks, told: &mut Told) -> Outcome {
    let mut settings = Settings::default();
    settings.chunk = CHUNK;
    let view = Device::new(Snapshot::open(Arc::clone(origin), Arc::clone(store), settings)?.view);
    for (nth, at) in [512, 2 * CHUNK, 5 * CHUNK - 512, 9 * CHUNK].into_iter().enumerate() {
        told.write(1, at, 1024, nth as u8 + 1);
        view.write_at(&[nth as u8 + 1; 1024], at)?;
    }
    view.flush()?;
    told.flushed(1);
    drop(view);
    let merge = Snapshot::merge(Arc::clone(origin), Arc::clone(store), false, 0)?;
    let view = Device::new(Arc::clone(&merge.view));
    for (nth, at) in [1024, 7 * CHUNK, 9 * CHUNK + 512].into_iter().enumerate() {
        let value = nth as u8 + 10;
        told.write(1, at, 512, value);
        view.write_at(&[value; 512], at)?;
        view.flush()?;
        told.flushed(1);
    }
    while merge.progress().result.is_none() {
        view.read_at(&mut [0; 512], 0)?;
    }
    told.check(1, "while it is merged", &view)
}

fn merged([origin, store]: &Disks, told: &Told) -> Outcome {
    let view = match Snapshot::merge(Arc::clone(origin), Arc::clone(store), false, 0) {
        Ok(merge) => merge.view,
        // The cut came before there was a snapshot.
        Err(_) => Snapshot::open(Arc::clone(origin), Arc::clone(store), Settings::default())?.view,
    };
    told.check(1, "after a merge", &Device::new(view))
}

fn run_merge(seed: u64) -> Result<Summary, Failure> {
    let disk = Ideal { size: 1 << 20, latency: Span::from_micros(100), depth: 8, write_cache: true };
    Kit::new(seed).disks(disk, 2).open(parts).tries(8).each_write().run(merging, merged)
}

#[test]
fn no_cut_costs_what_was_flushed() {
    let summary = run(1).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(summary.cuts > 300, "{summary:?}");
}

#[test]
fn no_cut_costs_a_merge_anything() {
    let summary = run_merge(1).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(summary.cuts > 300, "{summary:?}");
}
