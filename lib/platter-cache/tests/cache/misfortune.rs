//! Commands that get stuck and complete late; calls and bios that are late, and cancellation.

use crate::rig::{self, small};
use crate::script::{Hand, IgnoresCancel, Script};
use platter_block::backend::Backend;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::lane::Cancel;
use platter_block::time::Span;
use platter_cache::{self as cache, Settings, Write};
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::sync_io::IoOptions;
use platter_sim::fault::FaultPlan;
use platter_sim::ideal::Ideal;
use platter_sim::{SimDisk, World};
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const MS: u64 = 1_000_000;

fn kind(result: Result<(), Error>) -> Option<Kind> {
    result.err().map(|error| error.fault.kind)
}

/// Options for a call that has 10 ms.
fn soon() -> IoOptions {
    IoOptions::timeout(Span::from_millis(10))
}

/// A disk, and a cache of 32 pages over it.
struct Rig {
    world: Arc<World>,
    disk: SimDisk,
    device: Device,
    below: Device,
}

impl Rig {
    fn of(cache: &Settings) -> Rig {
        let ideal = Ideal { size: MIB, latency: Span::from_micros(10), depth: 64, write_cache: false };
        let world = World::new(1);
        let (disk, _) = rig::disk(&world, ideal, None);
        // The disk does not cancel a command that is stuck.
        let channels = disk.clone();
        // SAFETY: it reports a request only after the channel has.
        let channel = move || unsafe { channels.channel().into_driver() };
        let backend =
            rig::backend_by(&disk, DiskSettings::default(), move || Box::new(IgnoresCancel(channel())));
        let device = rig::cached(backend, cache);
        let below = Device::new(Arc::clone(&device.backend().below()[0]));
        Rig { world, disk, device, below }
    }

    /// Makes all further commands stick, or none.
    fn stick(&self, stuck: bool) {
        let plan =
            FaultPlan { stuck_chance: 1_000_000, stuck: Span::from_secs(3600), ..FaultPlan::default() };
        self.disk.set_faults(stuck.then_some(plan));
    }

    /// The disk completes the stuck commands.
    fn release(&self) {
        self.disk.release_stuck();
        self.world.clock().advance_to(self.world.clock().now() + Span::from_secs(10));
        self.disk.settle();
    }

    /// Flushes the cache while its disk does not answer.
    fn flush_late(&self) {
        self.stick(true);
        assert_eq!(kind(self.device.flush_with(soon())), Some(Kind::TimedOut));
        self.stick(false);
    }

    /// How a flush of a range ends.
    fn flush_range(&self, pos: u64, len: u64) -> Option<Kind> {
        let (mut channel, mut done) = (self.device.channel(1).unwrap(), Vec::new());
        let mut bio = Bio::new(Op::Flush, pos, len);
        bio.set_deadline(Some(self.world.clock().now() + Span::from_millis(10)));
        channel.submit(bio).unwrap();
        channel.wait(&mut done, None);
        done[0].status().err().map(|fault| fault.kind)
    }

    fn first(&self, device: &Device) -> u8 {
        let mut page = [0; 4096];
        device.read_at(&mut page, 0).unwrap();
        assert!(page.iter().all(|&byte| byte == page[0]));
        page[0]
    }
}

/// The disk has a write of a page and may carry it out at any time. No newer version of the page is reported as durable until the
/// disk has: otherwise the older data could overwrite it.
#[test]
fn a_write_that_lands_late_covers_nothing_that_was_flushed() {
    let rig = Rig::of(&small(32));
    rig.device.write_at(&[5; 4096], 0).unwrap();
    rig.flush_late();
    rig.device.write_at(&[7; 4096], 0).unwrap();
    assert_eq!(rig.first(&rig.device), 7);
    for _ in 0..3 {
        assert_eq!(kind(rig.device.flush_with(soon())), Some(Kind::TimedOut));
    }
    assert_eq!(rig.flush_range(0, 512), Some(Kind::TimedOut));
    let durable = rig.device.write_at_with(&[8; 4096], 0, soon().with_flags(Flags::FUA));
    assert_eq!(kind(durable), Some(Kind::TimedOut));
    // The device has that one, and it may still become durable.
    assert_eq!(kind(rig.device.flush()), Some(Kind::Unsettled));
    rig.release();
    assert_eq!(rig.first(&rig.device), 8);
    rig.device.flush().unwrap();
    assert_eq!(rig.first(&rig.below), 8);
    rig.world.clock().advance_to(rig.world.clock().now() + Span::from_secs(7200));
    rig.disk.settle();
    assert_eq!(rig.first(&rig.below), 8);
    // Also after the page was evicted.
    let mut page = [0; 4096];
    (1..128u64).for_each(|at| rig.device.read_at(&mut page, at * 4096).unwrap());
    assert_eq!(rig.first(&rig.device), 8);
}

/// A cache passes discards on. The channel of one that is late is closed while the disk has it.
#[test]
fn a_discard_that_a_closed_channel_has_left_is_late_until_the_disk_returns_it() {
    let rig = Rig::of(&small(32));
    rig.device.write_at(&[5; 4096], 0).unwrap();
    rig.device.flush().unwrap();
    rig.stick(true);
    let (mut channel, mut done) = (rig.device.channel(1).unwrap(), Vec::new());
    let mut bio = Bio::discard(0, 4096);
    bio.set_deadline(Some(rig.world.clock().now() + Span::from_millis(10)));
    channel.submit(bio).unwrap();
    channel.wait(&mut done, None);
    assert_eq!(done[0].status().err().map(|fault| fault.kind), Some(Kind::TimedOut));
    drop(channel);
    rig.stick(false);
    assert_eq!(kind(rig.device.flush()), Some(Kind::Unsettled));
    assert_eq!(kind(rig.device.write_at_with(&[6; 512], 512, soon())), Some(Kind::TimedOut));
    rig.release();
    rig.device.flush().unwrap();
}

/// Unrelated I/O continues: other ranges are flushed, and other pages written and read.
#[test]
fn only_what_is_late_is_held_up() {
    let rig = Rig::of(&small(32));
    rig.device.write_at(&[5; 4096], 0).unwrap();
    rig.flush_late();
    for at in 1..100u64 {
        rig.device.write_at(&[at as u8; 4096], at * 4096).unwrap();
        rig.device.flush_range(at * 4096, 4096).unwrap();
    }
    assert_eq!(rig.first(&rig.device), 5);
    rig.release();
    rig.device.flush().unwrap();
    let mut page = [0; 4096];
    for at in 1..100u64 {
        rig.below.read_at(&mut page, at * 4096).unwrap();
        assert_eq!(page, [at as u8; 4096], "page {at}");
    }
    assert_eq!(rig.first(&rig.below), 5);
}

/// Data written after a barrier is neither written back before what is late nor reported as durable.
#[test]
fn what_is_late_holds_back_what_is_behind_a_barrier() {
    let rig = Rig::of(&small(32));
    rig.device.write_at(&[5; 4096], 0).unwrap();
    rig.flush_late();
    rig.device.write_at_with(&[6; 4096], 8192, IoOptions::flags(Flags::SOFT_BARRIER)).unwrap();
    rig.device.write_at(&[7; 4096], 16384).unwrap();
    assert_eq!(rig.flush_range(16384, 4096), Some(Kind::TimedOut));
    let hard = rig.device.write_at_with(&[8; 4096], 20480, soon().with_flags(Flags::HARD_BARRIER));
    assert_eq!(kind(hard), Some(Kind::TimedOut));
    rig.release();
    rig.device.flush().unwrap();
    let mut page = [0; 4096];
    for (at, byte) in [(0, 5), (8192, 6), (16384, 7), (20480, 0)] {
        rig.below.read_at(&mut page, at).unwrap();
        assert_eq!(page, [byte; 4096]);
    }
}

/// Frames of reads that are late are used again when the disk has returned them. While it has all frames, I/O that needs one
/// waits.
#[test]
fn frames_come_back_from_a_disk_that_was_stuck() {
    let rig = Rig::of(&small(32));
    let mut page = [0; 4096];
    rig.stick(true);
    for at in 0..40u64 {
        assert_eq!(kind(rig.device.read_at_with(&mut page, at * 4096, soon())), Some(Kind::TimedOut), "{at}");
    }
    assert_eq!(kind(rig.device.write_at_with(&[1; 4096], MIB / 2, soon())), Some(Kind::TimedOut));
    rig.stick(false);
    rig.release();
    for at in 0..256u64 {
        rig.device.read_at(&mut page, at % 200 * 4096).unwrap();
    }
    rig.device.write_at(&[1; 4096], MIB / 2).unwrap();
    rig.device.flush().unwrap();
}

/// The written part of a page is kept while the rest is read.
#[test]
fn a_page_that_could_not_be_read_in_time_keeps_what_was_written() {
    let rig = Rig::of(&small(32));
    rig.below.write_at(&[1; 4096], 0).unwrap();
    rig.device.write_at(&[2; 512], 1024).unwrap();
    rig.stick(true);
    let mut page = [0; 4096];
    assert_eq!(kind(rig.device.read_at_with(&mut page, 0, soon())), Some(Kind::TimedOut));
    rig.stick(false);
    rig.release();
    rig.device.write_at(&[3; 512], 0).unwrap();
    rig.device.read_at(&mut page, 0).unwrap();
    let found: Vec<u8> = page.chunks(512).map(|sector| sector[0]).collect();
    assert_eq!(found, [3, 1, 2, 1, 1, 1, 1, 1]);
    rig.device.flush().unwrap();
}

/// A cache over a scripted device, with a clock that the test controls.
fn scripted(settings: &Settings) -> (Script, Arc<dyn Backend>) {
    let script = Script::new("script", 16 * MIB);
    let device = cache::new(script.backend(), settings).unwrap();
    (script, device)
}

fn by(token: u64, mut bio: Bio) -> Bio {
    bio.set_token(token);
    bio
}

fn read(pos: u64) -> Bio {
    Bio::read(pos, vec![0u8; 4096]).unwrap()
}

fn write(pos: u64) -> Bio {
    Bio::write(pos, vec![1u8; 4096]).unwrap()
}

/// Write-back that times out is tried again at growing intervals.
#[test]
fn write_back_that_times_out_is_tried_less_and_less_often() {
    let (script, device) = scripted(&Settings { background: 0, dirty: 100, ..small(64) });
    let mut hand = Hand::on(&device);
    script.fail(Some(Fault::new(Kind::TimedOut, Stage::Queue)));
    (0..2).for_each(|page| hand.submit(0, by(1, write(page * 4096))));
    let (mut now, mut attempts) = (0, Vec::new());
    while attempts.len() < 6 {
        hand.ended(now);
        if !script.seen().is_empty() {
            attempts.push(now / MS);
        }
        now = hand.lane.next_wakeup().unwrap().0.max(now + 1);
    }
    assert_eq!(attempts, [0, 100, 300, 700, 1500, 3100]);
    script.fail(None);
    hand.submit(now, by(2, Bio::flush()));
    assert_eq!(hand.kinds(now).len(), 1, "the writer is told of the errors");
    hand.submit(now, by(3, Bio::flush()));
    assert_eq!(hand.kinds(now), [(3, None)]);
}

/// Whatever a bio waits for in the cache, it ends as soon as it is late or cancelled, with its memory.
#[test]
fn bios_are_taken_back_whatever_they_wait_for() {
    for is_late in [true, false] {
        let (script, device) = scripted(&Settings { background: 13, dirty: 13, window: 0, ..small(64) });
        let mut hand = Hand::on(&device);
        // Eight is the limit of dirty pages.
        (0..8).for_each(|page| hand.submit(0, by(page, write(page * 4096))));
        assert_eq!(hand.kinds(0).len(), 8);
        script.hold(true);
        let range = |op: Op| Bio::new(op, 2048, 4096);
        let waits = [read(65536), write(65536 * 2), Bio::flush(), range(Op::Discard), read(65536)];
        let waits: Vec<Bio> = waits.into_iter().zip(10..).map(|(bio, token)| by(token, bio)).collect();
        let late: Vec<Cancel> = waits.iter().map(|bio| Cancel::late(bio.identity())).collect();
        waits.into_iter().for_each(|bio| hand.submit(0, bio));
        assert_eq!(hand.kinds(0), []);
        for (token, late) in (10..14).zip(late) {
            let (which, kind) = match is_late {
                true => (late, Kind::TimedOut),
                false => (Cancel::token(token), Kind::Cancelled),
            };
            hand.cancel(0, which);
            assert_eq!(hand.kinds(0), [(token, Some(kind))]);
        }
        // The device works again, and so does the cache: no data was lost.
        script.hold(false);
        let ended: Vec<_> = (0..4).flat_map(|_| hand.kinds(3 * MS)).collect();
        assert_eq!(ended, [(14, None)]);
        hand.submit(4 * MS, by(20, Bio::flush()));
        hand.submit(4 * MS, by(21, range(Op::Discard)));
        assert_eq!(hand.kinds(4 * MS), [(20, None), (21, None)]);
    }
}

/// A reader that is late does not affect another that waits for the same page.
#[test]
fn one_reader_s_deadline_is_not_another_s() {
    let (script, device) = scripted(&Settings { window: 0, ..small(64) });
    let mut hand = Hand::on(&device);
    script.hold(true);
    let bios = [1, 2, 3].map(|token| by(token, read(0)));
    let late = Cancel::late(bios[0].identity());
    bios.into_iter().for_each(|bio| hand.submit(0, bio));
    assert_eq!(hand.kinds(0), []);
    hand.cancel(MS, late);
    assert_eq!(hand.kinds(MS), [(1, Some(Kind::TimedOut))]);
    assert_eq!(script.seen().len(), 1, "one read for three");
    script.hold(false);
    assert_eq!(hand.kinds(4 * MS), [(2, None), (3, None)]);
    assert_eq!(script.seen().len(), 0);
}

/// A durable write whose data is with the disk ends with it, also in a cache that writes through.
#[test]
fn a_write_that_the_disk_has_is_not_taken_back() {
    for (through, flags) in [(Write::Back, Flags::FUA), (Write::Through, Flags::NONE)] {
        let (script, device) = scripted(&Settings { write: through, ..small(64) });
        let mut hand = Hand::on(&device);
        let mut bio = by(1, write(0));
        bio.add_flags(flags);
        let late = Cancel::late(bio.identity());
        script.hold(true);
        hand.submit(0, bio);
        assert_eq!(hand.kinds(0), []);
        for which in [late, Cancel::token(1)] {
            hand.cancel(0, which);
            assert_eq!(hand.kinds(0), []);
        }
        script.hold(false);
        assert_eq!(hand.kinds(0), [(1, None)]);
        assert!(hand.lane.is_idle());
    }
}

/// Pages are written back individually: the cache cannot write several atomically.
#[test]
fn atomic_writes_are_refused() {
    let (script, device) = scripted(&small(64));
    assert_eq!(device.geometry().limits.atomic_write, 0);
    let mut hand = Hand::on(&device);
    let mut bio = by(1, write(0));
    bio.add_flags(Flags::ATOMIC);
    hand.submit(0, bio);
    assert_eq!(hand.kinds(0), [(1, Some(Kind::Unsupported))]);
    assert!(script.seen().is_empty());
}

/// A discard waits for the writes in its range that the disk has.
#[test]
fn a_discard_waits_for_what_is_late() {
    let rig = Rig::of(&small(32));
    rig.device.write_at(&[5; 4096], 0).unwrap();
    rig.flush_late();
    let mut channel = rig.device.channel(4).unwrap();
    let now = rig.world.clock().now();
    let mut bio = Bio::new(Op::Discard, 0, 65536);
    bio.set_deadline(Some(now + Span::from_secs(1)));
    assert!(channel.submit(bio).is_ok());
    assert!(channel.submit(Bio::new(Op::Discard, 65536, 65536)).is_ok());
    let mut done = Vec::new();
    while channel.outstanding() > 0 {
        channel.wait(&mut done, None);
    }
    assert_eq!((done[0].pos() / 65536, done[0].status()), (2, Ok(())), "it begins behind the late write");
    assert_eq!(done[1].status().unwrap_err().kind, Kind::TimedOut);
    assert!(channel.submit(Bio::new(Op::Discard, 0, 65536)).is_ok());
    channel.poll(&mut done);
    assert_eq!(channel.outstanding(), 1);
    rig.release();
    channel.wait(&mut done, None);
    assert_eq!(done[2].status(), Ok(()));
    assert_eq!(rig.first(&rig.device), 0);
}
