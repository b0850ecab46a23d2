//! Changes that fail before a snapshot has begun to carry them out: nothing of them is done later. Time is virtual.

use platter_block::backend::Backend;
use platter_block::bio::Bio;
use platter_block::fault::Kind;
use platter_block::time::{Span, Time};
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::sync_io::IoOptions;
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::{SimDisk, World};
use platter_stack::by_name;
use platter_stack::kit::Table;
use platter_stack::snapshot::{Settings, Snapshot};
use std::sync::Arc;

const CHUNK: u64 = 4096;
const SIZE: u64 = 8 << 20;
/// What is changed: four times as much as is copied at a time.
const HALF: u64 = SIZE / 2;

struct Rig {
    world: Arc<World>,
    live: Device,
    view: Device,
}

impl Rig {
    /// An origin full of sevens, and a store with room for this many chunks, whose commands take so long.
    fn new(chunks: u64, store: Span) -> Rig {
        let world = World::new(1);
        let origin = disk(&world, SIZE, Span::from_millis(1));
        let store = disk(&world, data(chunks) + chunks * CHUNK, store);
        Rig::over(world, origin, store)
    }

    fn over(world: Arc<World>, origin: Arc<dyn Backend>, store: Arc<dyn Backend>) -> Rig {
        Device::new(Arc::clone(&origin)).write_at(&vec![7; SIZE as usize], 0).unwrap();
        let mut settings = Settings::default();
        settings.chunk = CHUNK;
        let both = Snapshot::open(origin, store, settings).unwrap();
        Rig { world, live: Device::new(both.origin), view: Device::new(both.view) }
    }

    /// In 50 ms.
    fn soon(&self) -> Time {
        self.world.clock().now() + Span::from_millis(50)
    }

    /// A minute passes, in which the channel is polled.
    fn pass(&self, channel: &mut Channel) {
        let clock = self.world.clock();
        for _ in 0..60 {
            clock.advance_to(clock.now() + Span::from_secs(1));
            channel.poll(&mut Vec::new());
        }
    }
}

/// Byte offset of the first chunk in a store that can hold this many chunks.
fn data(chunks: u64) -> u64 {
    8192 + Table::bytes(chunks)
}

fn disk(world: &Arc<World>, size: u64, latency: Span) -> Arc<dyn Backend> {
    let model = Ideal { size, latency, depth: 32, write_cache: true };
    let disk = SimDisk::new(world, model.into(), Some(Medium::new()));
    let device = Device::from_disk(disk.attach("disk"), DiskSettings::default(), None).unwrap();
    Arc::clone(device.backend())
}

fn contents(device: &Device) -> Vec<u8> {
    let mut data = vec![0; SIZE as usize];
    device.read_at(&mut data, 0).unwrap();
    data
}

/// Hands a bio over, which does not end at once.
fn submit(channel: &mut Channel, token: u64, deadline: Option<Time>, mut bio: Bio) {
    bio.set_token(token);
    bio.set_deadline(deadline);
    assert!(channel.submit(bio).is_ok());
    assert_eq!(channel.poll(&mut Vec::new()), 0);
}

/// Runs the channel until all bios have ended. Returns how the one with this token did.
fn result(channel: &mut Channel, token: u64) -> Option<Kind> {
    let mut done = Vec::new();
    while channel.outstanding() > 0 {
        channel.wait(&mut done, None);
    }
    let bio = done.iter().find(|bio| bio.token() == token).expect("it has ended");
    bio.status().err().map(|fault| fault.kind)
}

#[test]
fn zeroes_that_fail_before_they_are_begun_change_nothing() {
    for is_cancelled in [false, true] {
        let rig = Rig::new(SIZE / CHUNK, Span::from_secs(1));
        let mut channel = rig.view.channel(8).unwrap();
        // As many as copy at the same time.
        for nth in 0..4 {
            let data = vec![1u8; CHUNK as usize];
            submit(&mut channel, nth, None, Bio::write(HALF + nth * CHUNK, data).unwrap());
        }
        let deadline = (!is_cancelled).then(|| rig.soon());
        submit(&mut channel, 9, deadline, Bio::write_zeroes(0, HALF));
        if is_cancelled {
            channel.cancel(9);
        }
        let expected = if is_cancelled { Kind::Cancelled } else { Kind::TimedOut };
        assert_eq!(result(&mut channel, 9), Some(expected));
        rig.pass(&mut channel);
        let mut expected = vec![7; SIZE as usize];
        expected[HALF as usize..][..4 * CHUNK as usize].fill(1);
        assert!(contents(&rig.view) == expected, "cancelled: {is_cancelled}");
    }
}

/// Cancelled means that nothing was done.
#[test]
fn zeroes_that_were_begun_are_not_cancelled() {
    let rig = Rig::new(SIZE / CHUNK, Span::from_millis(10));
    let mut channel = rig.view.channel(1).unwrap();
    submit(&mut channel, 9, None, Bio::write_zeroes(0, HALF));
    channel.cancel(9);
    assert_eq!(result(&mut channel, 9), None);
    let mut expected = vec![7; SIZE as usize];
    expected[..HALF as usize].fill(0);
    assert!(contents(&rig.view) == expected);
}

/// The store has room for half of the range.
#[test]
fn a_discard_of_the_origin_that_has_failed_takes_no_more_room() {
    let rig = Rig::new(512, Span::from_millis(100));
    let mut channel = rig.live.channel(1).unwrap();
    let deadline = rig.soon();
    submit(&mut channel, 9, Some(deadline), Bio::discard(0, HALF));
    assert_eq!(result(&mut channel, 9), Some(Kind::TimedOut));
    rig.pass(&mut channel);
    assert_eq!(rig.view.layers()[0].number("snapshot chunks kept"), Some(256), "those that were begun");
    assert!(contents(&rig.view) == vec![7; SIZE as usize] && contents(&rig.live) == contents(&rig.view));
}

/// The store has room for one chunk.
#[test]
fn a_copy_that_fails_after_its_write_has_costs_neither_the_snapshot_nor_room() {
    let world = World::new(1);
    let origin = disk(&world, SIZE, Span::from_millis(100));
    let write = 2;
    let params = [("op", write), ("offset", data(1) as i64), ("length", CHUNK as i64), ("times", 1)];
    let store = disk(&world, data(1) + CHUNK, Span::from_millis(1));
    let store = by_name("error").unwrap().make(&params, vec![store]).unwrap();
    let rig = Rig::over(world, origin, store);
    let limit = IoOptions::timeout(Span::from_millis(50));
    let error = rig.live.write_at_with(&[1; 512], 0, limit).unwrap_err();
    assert_eq!(error.fault.kind, Kind::TimedOut, "while the origin is read");
    rig.pass(&mut rig.view.channel(1).unwrap());
    assert!(contents(&rig.view) == vec![7; SIZE as usize]);
    rig.live.write_at(&[1; 512], 0).unwrap();
    assert!(contents(&rig.view) == vec![7; SIZE as usize]);
    let mut expected = vec![7; SIZE as usize];
    expected[..512].fill(1);
    assert!(contents(&rig.live) == expected);
}
