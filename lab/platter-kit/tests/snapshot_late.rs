//! Snapshots whose store is slow: what is written too late, after a deadline or after the snapshot was closed.

use platter_block::bio::{Bio, Op};
use platter_block::fault::Kind;
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::sync_io::IoOptions;
use platter_sim::fault::{Blow, FaultPlan, Strike};
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::{SimDisk, World};
use platter_stack::snapshot::{Settings, Snapshot};
use std::sync::Arc;

const CHUNK: u64 = 4096;

struct Rig {
    world: Arc<World>,
    origin: SimDisk,
    store: SimDisk,
}

impl Rig {
    fn new() -> Rig {
        let world = World::by_hand(1);
        let disk = Ideal { size: 16 * CHUNK, latency: Span::from_micros(100), depth: 8, write_cache: true };
        let [origin, store] = [(); 2].map(|()| SimDisk::new(&world, disk.into(), Some(Medium::new())));
        // It carries out all that it has taken, whether or not it is asked to cancel.
        store.set_faults(Some(FaultPlan { abort_chance: 0, ..FaultPlan::default() }));
        Rig { world, origin, store }
    }

    fn view(&self) -> Device {
        let part = |disk: &SimDisk, len| {
            let device = Device::from_disk(disk.attach("disk"), DiskSettings::default(), None).unwrap();
            platter_stack::partition::new(Arc::clone(device.backend()), 0, Some(len)).unwrap()
        };
        let mut settings = Settings::default();
        settings.chunk = CHUNK;
        let both = Snapshot::open(part(&self.origin, 4 * CHUNK), part(&self.store, 16 * CHUNK), settings);
        Device::new(both.unwrap().view)
    }

    /// The next command of this kind takes so long on the store.
    fn slow(&self, op: Op, span: Span) {
        self.store.strike(Strike { op: Some(op), blow: Blow::Spike(span) });
    }
}

fn block(device: &Device, at: u64) -> u8 {
    let mut data = [0; 512];
    device.read_at(&mut data, at).unwrap();
    assert!(data.iter().all(|&byte| byte == data[0]), "half of a block at {at}");
    data[0]
}

/// What overlaps a write that timed out waits until the store has carried it out. It is there then as a whole or not at all, and
/// that does not change any more.
#[test]
fn a_write_that_timed_out_is_settled_before_anything_overlaps_it() {
    for again in [false, true] {
        let rig = Rig::new();
        let view = rig.view();
        rig.slow(Op::Write, Span::from_secs(10));
        let second = IoOptions::timeout(Span::from_secs(1));
        let error = view.write_at_with(&[1; 512], CHUNK, second).unwrap_err();
        assert_eq!(error.fault.kind, Kind::TimedOut);
        assert_eq!(rig.store.inside().len(), 1, "the store still has it");
        assert_eq!(view.flush().unwrap_err().fault.kind, Kind::Unsettled);
        let seen = block(&view, CHUNK);
        assert!([0, 1].contains(&seen), "{seen}");
        assert!(rig.world.clock().now().since(Time(0)) >= Span::from_secs(10));
        if again {
            view.write_at(&[2; 512], CHUNK).unwrap();
        }
        rig.world.clock().advance_to(rig.world.clock().now() + Span::from_secs(20));
        let expected = if again { 2 } else { seen };
        assert_eq!(block(&view, CHUNK), expected);
        view.flush().unwrap();
        drop(view);
        assert_eq!(block(&rig.view(), CHUNK), expected, "opened again");
    }
}

/// A channel is closed while the store has a write of it that is late, or that has no deadline. The snapshot gives up waiting after 30 s.
#[test]
fn what_a_closed_channel_has_left_is_settled_before_anything_overlaps_it() {
    for deadline in [Some(Span::from_secs(1)), None] {
        let rig = Rig::new();
        let view = rig.view();
        rig.slow(Op::Write, Span::from_secs(100));
        let now = || rig.world.clock().now();
        let (began, mut channel, mut done) = (now(), view.channel(4).unwrap(), Vec::new());
        let mut bio = Bio::write(CHUNK, vec![1u8; CHUNK as usize]).unwrap();
        bio.set_deadline(deadline.map(|span| began + span));
        channel.submit(bio).unwrap();
        match deadline {
            Some(_) => {
                channel.wait(&mut done, None);
                assert_eq!(done[0].status().unwrap_err().kind, Kind::TimedOut);
            }
            None => channel.flush(),
        }
        drop(channel);
        assert!(now().since(began) < Span::from_secs(60), "closing ends");
        assert_eq!(rig.store.inside().len(), 1, "the store still has it ({deadline:?})");
        assert_eq!(view.flush().unwrap_err().fault.kind, Kind::Unsettled);
        let seen = block(&view, CHUNK);
        assert!(now().since(began) >= Span::from_secs(100), "it waits: {:?}", now().since(began));
        rig.world.clock().advance_to(now() + Span::from_secs(20));
        assert_eq!(block(&view, CHUNK), seen);
        view.flush().unwrap();
        let after = now();
        drop(view.channel(4).unwrap());
        assert_eq!(now(), after, "nothing is left to wait for");
    }
}

/// Closing a snapshot writes its table, and gives up after 30 s; that costs what was not flushed.
#[test]
fn a_snapshot_whose_store_is_slow_when_it_is_closed_keeps_what_was_flushed() {
    for (slow, kept) in [(Span::from_secs(20), true), (Span::from_secs(40), false)] {
        let rig = Rig::new();
        let view = rig.view();
        view.write_at(&[1; 512], 0).unwrap();
        view.flush().unwrap();
        view.write_at(&[2; 512], CHUNK).unwrap();
        let begin = rig.world.clock().now();
        rig.slow(Op::Flush, slow);
        drop(view);
        let took = rig.world.clock().now().since(begin);
        assert!(took < Span::from_secs(60), "closing ends: {took:?}");
        rig.world.clock().advance_to(begin + Span::from_secs(60));
        let view = rig.view();
        assert_eq!(block(&view, 0), 1, "it was flushed");
        assert_eq!(block(&view, CHUNK) == 2, kept);
        // All of it works again.
        view.write_at(&[3; 512], CHUNK).unwrap();
        view.flush().unwrap();
        drop(view);
        assert_eq!((block(&rig.view(), 0), block(&rig.view(), CHUNK)), (1, 3));
    }
}
