//! Snapshots whose process was killed between a write of their store and its flush: what was written is in the store's
//! volatile cache, where the next process reads it.

use platter_block::backend::Backend;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::power::{Supply, Survivors};
use platter_sim::{Options, SimDisk, World};
use platter_stack::snapshot::{Settings, Snapshot};
use std::ops::Range;
use std::sync::Arc;

const CHUNK: u64 = 4096;
const SIZE: u64 = 64 * CHUNK;
/// Chunks that the store has room for.
const ROOM: u64 = 8;

/// Where the first copy of the header, the table and the chunks are in the store.
const HEADER: Range<usize> = 0..4096;
const TABLE: Range<usize> = 8192..12288;
const CHUNKS: usize = 12288;

/// A chunk of which the header has no checksum, so that a change of the origin is not found when the snapshot is opened.
const AT: u64 = 20 * CHUNK;

struct Rig {
    world: Arc<World>,
    origin: SimDisk,
    store: SimDisk,
    /// Of the store alone.
    supply: Supply,
}

impl Rig {
    /// A snapshot of an origin full of sevens.
    fn new() -> Rig {
        let (world, supply) = (World::new(1), Supply::new());
        let disk = |size, supply| {
            let model = Ideal { size, latency: Span::from_micros(100), depth: 8, write_cache: true };
            let options = Options { medium: Some(Medium::new()), faults: None, supply };
            SimDisk::with(&world, model.into(), options)
        };
        let origin = disk(SIZE, None);
        let store = disk(CHUNKS as u64 + ROOM * CHUNK, Some(supply.clone()));
        let rig = Rig { world, origin, store, supply };
        raw(&rig.origin).write_at(&[7; SIZE as usize], 0).unwrap();
        drop(rig.open());
        rig
    }

    /// The origin and the snapshot.
    fn open(&self) -> (Device, Device) {
        let mut settings = Settings::default();
        settings.chunk = CHUNK;
        let both = Snapshot::open(below(&self.origin), below(&self.store), settings).unwrap();
        (Device::new(both.origin), Device::new(both.view))
    }

    /// Writes to a chunk of the origin in a process that is killed: `last` of the store is written and in its cache, everything
    /// before it is durable, and nothing after it has happened.
    fn write_and_be_killed(&self, last: Range<usize>) {
        let (origin, before) = (contents(&self.origin), contents(&self.store));
        let (live, view) = self.open();
        live.write_at(&[1; CHUNK as usize], AT).unwrap();
        drop((live, view));
        let after = contents(&self.store);
        assert!(before[last.clone()] != after[last.clone()], "it is written");
        let disk = raw(&self.origin);
        disk.write_at(&origin, 0).unwrap();
        disk.flush().unwrap();
        let mut durable = after.clone();
        durable[..CHUNKS].copy_from_slice(&before[..CHUNKS]);
        let disk = raw(&self.store);
        disk.write_at(&durable, 0).unwrap();
        disk.flush().unwrap();
        disk.write_at(&after[last.clone()], last.start as u64).unwrap();
    }

    /// Opens the snapshot, changes the chunk of the origin and flushes the origin. Then the store loses power with its cache.
    fn write_and_cut(&self) {
        let (live, view) = self.open();
        live.write_at(&[3; CHUNK as usize], AT).unwrap();
        live.flush().unwrap();
        self.supply.cut(self.world.clock().now(), Survivors::None);
        self.store.settle();
        // Closing would flush the store.
        drop((live, view));
        self.supply.restore();
    }
}

fn raw(disk: &SimDisk) -> Device {
    Device::from_disk(disk.attach("disk"), DiskSettings::default(), None).unwrap()
}

fn below(disk: &SimDisk) -> Arc<dyn Backend> {
    Arc::clone(raw(disk).backend())
}

fn contents(disk: &SimDisk) -> Vec<u8> {
    let device = raw(disk);
    let mut data = vec![0; device.size() as usize];
    device.read_at(&mut data, 0).unwrap();
    data
}

fn chunk(device: &Device, at: u64) -> [u8; CHUNK as usize] {
    let mut data = [0; CHUNK as usize];
    device.read_at(&mut data, at).unwrap();
    data
}

#[test]
fn an_entry_that_only_the_cache_of_the_store_has_is_durable_before_the_origin_changes() {
    let rig = Rig::new();
    rig.write_and_be_killed(TABLE);
    rig.write_and_cut();
    let (live, view) = rig.open();
    assert!(chunk(&live, AT) == [3; CHUNK as usize], "the origin");
    assert!(chunk(&view, AT) == [7; CHUNK as usize], "the snapshot shows the old contents");
}

/// The store is full, so the header says that the snapshot is invalid before the origin is changed.
#[test]
fn an_end_that_only_the_cache_of_the_store_has_is_durable_before_the_origin_changes() {
    let rig = Rig::new();
    let (live, view) = rig.open();
    (0..ROOM).for_each(|nth| live.write_at(&[2; CHUNK as usize], (30 + nth) * CHUNK).unwrap());
    live.flush().unwrap();
    assert!(chunk(&view, AT) == [7; CHUNK as usize], "it is valid");
    drop((live, view));
    rig.write_and_be_killed(HEADER);
    rig.write_and_cut();
    let (live, view) = rig.open();
    assert!(chunk(&live, AT) == [3; CHUNK as usize], "the origin");
    assert!(view.read_at(&mut [0; 512], AT).is_err(), "the snapshot is invalid");
}
