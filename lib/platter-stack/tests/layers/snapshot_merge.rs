//! A merge whose store fails: I/O goes on without it, and what is durable stays so.

use platter_block::backend::Backend;
use platter_block::bio::Flags;
use platter_block::fault::Kind;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::sync_io::IoOptions;
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::power::{Supply, Survivors};
use platter_sim::{Options, SimDisk, World};
use platter_stack::by_name;
use platter_stack::kit::table::GROUP;
use platter_stack::snapshot::{Settings, Snapshot};
use std::sync::Arc;

const CHUNK: u64 = 4096;

/// More than the 496 that one group of the table has entries for. A merge takes 256 at a time, so the second piece has entries
/// in both groups.
const CHUNKS: u64 = 600;
const SIZE: u64 = CHUNKS * CHUNK;

/// Where the table is in the store, behind the header, and how long it is.
const TABLE: u64 = 2 * GROUP;
const TABLE_BYTES: u64 = 2 * GROUP;

struct Rig {
    world: Arc<World>,
    supply: Supply,
    origin: SimDisk,
    store: SimDisk,
}

impl Rig {
    /// A snapshot of which every chunk has been written, with sixes.
    fn new() -> Rig {
        let (world, supply) = (World::new(1), Supply::new());
        let disk = |size| {
            let model = Ideal { size, latency: Span::from_micros(100), depth: 8, write_cache: true };
            let options = Options { medium: Some(Medium::new()), faults: None, supply: Some(supply.clone()) };
            SimDisk::with(&world, model.into(), options)
        };
        let (origin, store) = (disk(SIZE), disk(TABLE + TABLE_BYTES + SIZE));
        let mut settings = Settings::default();
        settings.chunk = CHUNK;
        let both = Snapshot::open(below(&origin), below(&store), settings).unwrap();
        let view = Device::new(both.view);
        view.write_at(&vec![6; SIZE as usize], 0).unwrap();
        view.flush().unwrap();
        drop((both.origin, view));
        Rig { world, supply, origin, store }
    }

    /// Both disks lose power with all that is not durable. It is there again when the devices have been dropped.
    fn cut<D>(&self, devices: D) {
        self.supply.cut(self.world.clock().now(), Survivors::None);
        [&self.origin, &self.store].into_iter().for_each(SimDisk::settle);
        // Closing would flush the store.
        drop(devices);
        self.supply.restore();
    }
}

fn below(disk: &SimDisk) -> Arc<dyn Backend> {
    let device = Device::from_disk(disk.attach("disk"), DiskSettings::default(), None).unwrap();
    Arc::clone(device.backend())
}

/// The first write to the second group of the table fails.
fn failing(store: &SimDisk) -> Arc<dyn Backend> {
    let write = 2;
    let params = [("op", write), ("offset", (TABLE + GROUP) as i64), ("length", GROUP as i64), ("times", 1)];
    by_name("error").unwrap().make(&params, vec![below(store)]).unwrap()
}

/// Of a commit that failed, the store may have a part: what is written after it must be found all the same.
#[test]
fn a_durable_write_after_a_failed_merge_survives_a_power_cut() {
    let rig = Rig::new();
    let merge = Snapshot::merge(below(&rig.origin), failing(&rig.store), false, 0).unwrap();
    let view = Device::new(Arc::clone(&merge.view));
    for _ in 0..100_000 {
        if merge.progress().result.is_some() {
            break;
        }
        view.read_at(&mut [0; 512], 0).unwrap();
    }
    let progress = merge.progress();
    let failure = progress.result.expect("the merge ends").unwrap_err();
    assert_eq!((failure.kind, progress.done), (Kind::Io, 256 * CHUNK));
    // Of the first group, whose entries the failed commit has cleared.
    let durable = IoOptions::flags(Flags::FUA);
    view.write_at_with(&[9; 512], 300 * CHUNK, durable).unwrap();
    // Nothing waits to be written to the table any more: the next one costs no more than itself.
    let before = rig.supply.ios();
    view.write_at_with(&[8; 512], 301 * CHUNK, durable).unwrap();
    assert_eq!(rig.supply.ios(), before + 1);
    rig.cut((view, merge));
    let merge = Snapshot::merge(below(&rig.origin), below(&rig.store), false, 0).unwrap();
    let view = Device::new(Arc::clone(&merge.view));
    let mut expected = vec![6; SIZE as usize];
    expected[300 * CHUNK as usize..][..512].fill(9);
    expected[301 * CHUNK as usize..][..512].fill(8);
    let mut data = vec![0; SIZE as usize];
    view.read_at(&mut data, 0).unwrap();
    let wrong = (0..SIZE as usize).find(|&at| data[at] != expected[at]);
    assert_eq!(wrong.map(|at| (at, data[at])), None);
}
