//! Disks that lose what is not durable when a flush fails, and are flushed again when the program has acknowledged that: it costs
//! what the program has written, and nothing else.

use platter_block::backend::Backend;
use platter_block::bio::{Bio, Op};
use platter_block::fault::Kind;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_sim::fault::{Blow, Strike};
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::power::{Supply, Survivors};
use platter_sim::{Options, SimDisk, World};
use platter_stack::snapshot::{Settings, Snapshot};
use std::sync::Arc;

const CHUNK: u64 = 4096;
/// A merge takes 256 at a time.
const CHUNKS: u64 = 512;
const SIZE: u64 = CHUNKS * CHUNK;

/// A disk that can lose what is not durable.
struct Forgetful {
    disk: SimDisk,
    supply: Supply,
}

impl Forgetful {
    fn new(world: &Arc<World>, size: u64) -> Forgetful {
        let model = Ideal { size, latency: Span::from_micros(100), depth: 8, write_cache: true };
        let supply = Supply::new();
        let options = Options { medium: Some(Medium::new()), faults: None, supply: Some(supply.clone()) };
        Forgetful { disk: SimDisk::with(world, model.into(), options), supply }
    }

    fn backend(&self) -> Arc<dyn Backend> {
        let device = Device::from_disk(self.disk.attach("disk"), DiskSettings::default(), None).unwrap();
        Arc::clone(device.backend())
    }

    /// The next flush fails.
    fn fail_flush(&self) {
        self.disk.strike(Strike { op: Some(Op::Flush), blow: Blow::Error });
    }

    /// It loses all that is not durable. It has no commands.
    fn forget(&self) {
        assert_eq!(self.disk.inside(), []);
        self.supply.cut(self.disk.world().clock().now(), Survivors::None);
        self.disk.settle();
        self.supply.restore();
    }

    /// The first byte of a chunk.
    fn first(&self, chunk: u64) -> u8 {
        let mut sector = [0; 512];
        self.disk.contents(chunk * CHUNK / 512, &mut sector);
        sector[0]
    }
}

struct Rig {
    world: Arc<World>,
    origin: Forgetful,
    store: Forgetful,
}

impl Rig {
    /// An origin full of sevens, and a store with room for all of it.
    fn new() -> Rig {
        let world = World::new(1);
        let (origin, store) = (Forgetful::new(&world, SIZE), Forgetful::new(&world, SIZE + (1 << 20)));
        let device = Device::new(origin.backend());
        device.write_at(&vec![7; SIZE as usize], 0).unwrap();
        device.flush().unwrap();
        Rig { world, origin, store }
    }

    /// The origin and the view.
    fn open(&self) -> (Device, Device) {
        let mut settings = Settings::default();
        settings.chunk = CHUNK;
        let both = Snapshot::open(self.origin.backend(), self.store.backend(), settings).unwrap();
        (Device::new(both.origin), Device::new(both.view))
    }
}

fn contents(device: &Device) -> Vec<u8> {
    let mut data = vec![0; SIZE as usize];
    device.read_at(&mut data, 0).unwrap();
    data
}

/// Sevens, with ones in some ranges of bytes.
fn with_ones(ranges: &[(u64, u64)]) -> Vec<u8> {
    let mut data = vec![7; SIZE as usize];
    ranges.iter().for_each(|&(at, len)| data[at as usize..][..len as usize].fill(1));
    data
}

fn flush_fails(device: &Device, kind: Kind) {
    assert_eq!(device.flush().unwrap_err().fault.kind, kind);
}

/// Where the program writes a block.
const AT: u64 = 5 * CHUNK + 1024;

/// When the program writes its block again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    BeforeAcknowledging,
    AfterThat,
    Never,
}

#[test]
fn a_failed_flush_of_the_store_costs_what_was_written() {
    for again in [Again::BeforeAcknowledging, Again::AfterThat, Again::Never] {
        for is_read in [false, true] {
            let rig = Rig::new();
            let (live, view) = rig.open();
            view.write_at(&[2; 512], AT).unwrap();
            rig.store.fail_flush();
            flush_fails(&view, Kind::Io);
            rig.store.forget();
            let write = |when| {
                if again == when {
                    view.write_at(&[1; 512], AT).unwrap();
                }
            };
            flush_fails(&view, Kind::FlushFailed);
            write(Again::BeforeAcknowledging);
            view.acknowledge_flush_failure();
            write(Again::AfterThat);
            let expected = if again == Again::Never { with_ones(&[]) } else { with_ones(&[(AT, 512)]) };
            assert!(!is_read || contents(&view) == expected, "{again:?}: read at once");
            view.flush().unwrap();
            assert!(contents(&view) == expected, "{again:?}, {is_read}");
            drop((live, view));
            rig.store.forget();
            assert!(contents(&rig.open().1) == expected, "{again:?}, {is_read}: opened again");
        }
    }
}

/// A write waits for the old contents of its chunk when a flush fails. It succeeds after that, and is not lost.
#[test]
fn a_write_that_ends_after_a_failed_flush_is_kept() {
    let rig = Rig::new();
    let (_live, view) = rig.open();
    view.write_at(&[1; 512], 9 * CHUNK).unwrap();
    rig.origin.disk.strike(Strike { op: Some(Op::Read), blow: Blow::Spike(Span::from_secs(10)) });
    let (mut channel, mut done) = (view.channel(4).unwrap(), Vec::new());
    assert!(channel.submit(Bio::write(AT, vec![1u8; 512]).unwrap()).is_ok());
    channel.poll(&mut done);
    rig.store.fail_flush();
    flush_fails(&view, Kind::Io);
    rig.store.forget();
    view.acknowledge_flush_failure();
    channel.poll(&mut done);
    assert!(done.is_empty(), "the write has ended before the flush failed");
    while channel.outstanding() > 0 {
        channel.wait(&mut done, None);
    }
    assert_eq!(done[0].status(), Ok(()));
    view.flush().unwrap();
    assert!(contents(&view) == with_ones(&[(AT, 512)]));
}

#[test]
fn a_lost_copy_is_made_again_before_the_origin_changes() {
    let rig = Rig::new();
    let (live, view) = rig.open();
    view.write_at(&[2; 512], AT).unwrap();
    rig.store.fail_flush();
    flush_fails(&view, Kind::Io);
    rig.store.forget();
    live.acknowledge_flush_failure();
    live.write_at(&[1; 512], AT + 512).unwrap();
    assert!(contents(&view) == with_ones(&[]));
    assert!(contents(&live) == with_ones(&[(AT + 512, 512)]));
    drop((live, view));
    rig.store.forget();
    assert!(contents(&rig.open().1) == with_ones(&[]), "opened again");
}

/// One chunk of a section is on the origin, and another one still being read, when the origin loses what it has.
#[test]
fn a_merge_copies_again_what_the_origin_has_lost() {
    let rig = Rig::new();
    let (live, view) = rig.open();
    // The slots of the first section do not lie beside each other, so that each is read by a command of its own.
    for chunk in [0, 300, 10] {
        view.write_at(&[1; CHUNK as usize], chunk * CHUNK).unwrap();
    }
    view.flush().unwrap();
    drop((live, view));
    let merge = Snapshot::merge(rig.origin.backend(), rig.store.backend(), false, 0).unwrap();
    let view = Device::new(Arc::clone(&merge.view));
    for span in [Span::ZERO, Span::from_secs(10)] {
        rig.store.disk.strike(Strike { op: Some(Op::Read), blow: Blow::Spike(span) });
    }
    let run_until = |is_so: &dyn Fn() -> bool| {
        for _ in 0..1000 {
            if is_so() {
                return;
            }
            view.read_at(&mut [0; 512], 400 * CHUNK).unwrap();
        }
        panic!("it never happens");
    };
    run_until(&|| rig.origin.first(0) == 1);
    assert_eq!(rig.origin.first(10), 7);
    rig.origin.fail_flush();
    flush_fails(&view, Kind::Io);
    rig.origin.forget();
    assert_eq!(rig.origin.first(0), 7);
    view.acknowledge_flush_failure();
    let clock = rig.world.clock();
    clock.advance_to(clock.now() + Span::from_secs(20));
    run_until(&|| merge.progress().result.is_some());
    assert_eq!(merge.progress().result, Some(Ok(())));
    let expected = with_ones(&[0, 10, 300].map(|chunk| (chunk * CHUNK, CHUNK)));
    assert!(contents(&view) == expected);
    drop((view, merge));
    rig.origin.forget();
    assert!(contents(&Device::new(rig.origin.backend())) == expected);
}
