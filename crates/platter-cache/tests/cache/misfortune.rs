//! Commands that get stuck, complete late or are lost; deadlines and cancellation.

use crate::rig::{self, small};
use crate::script::{Deaf, Hand, Script};
use platter_block::backend::Backend;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::time::{Span, Time};
use platter_cache::{self as cache, Settings};
use platter_disk::channel::Channel;
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

/// A disk whose commands time out after 10 ms, and a cache of 32 pages over it.
struct Rig {
    world: Arc<World>,
    disk: SimDisk,
    device: Device,
    below: Device,
}

impl Rig {
    fn new() -> Rig {
        Rig::of(&small(32))
    }

    fn of(cache: &Settings) -> Rig {
        Rig::sized(MIB, cache)
    }

    fn sized(size: u64, cache: &Settings) -> Rig {
        let ideal = Ideal { size, latency: Span::from_micros(10), depth: 64, write_cache: false };
        let world = World::new(1);
        let (disk, _) = rig::disk(&world, ideal, None);
        let mut settings = DiskSettings::default();
        settings.queue.timeout = Some(Span::from_millis(10));
        // The disk does not cancel a command that is stuck.
        let channels = disk.clone();
        // SAFETY: it reports a request only after the channel has.
        let channel = move || unsafe { channels.channel().into_driver() };
        let backend = rig::backend_by(&disk, settings, move || Box::new(Deaf(channel())));
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

    fn fact(&self, name: &str) -> u64 {
        let facts = self.device.facts();
        facts.iter().find(|(key, _)| *key == name).map_or(0, |(_, value)| value.parse().unwrap())
    }

    fn first(&self, device: &Device) -> u8 {
        let mut page = [0; 4096];
        device.read_at(&mut page, 0).unwrap();
        assert!(page.iter().all(|&byte| byte == page[0]));
        page[0]
    }
}

/// The disk has a write that timed out and may carry it out at any time. No newer version of the page is
/// reported as durable until the disk has: otherwise the older data could overwrite it.
#[test]
fn a_write_that_lands_late_covers_nothing_that_was_flushed() {
    let rig = Rig::new();
    rig.device.write_at(&[5; 4096], 0).unwrap();
    rig.stick(true);
    assert_eq!(kind(rig.device.flush()), Some(Kind::TimedOut));
    rig.stick(false);
    rig.device.write_at(&[7; 4096], 0).unwrap();
    assert_eq!(rig.first(&rig.device), 7);
    for _ in 0..3 {
        assert_eq!(kind(rig.device.flush()), Some(Kind::InDoubt));
    }
    assert_eq!(kind(rig.device.flush_range(0, 512)), Some(Kind::InDoubt));
    let durable = rig.device.write_at_with(&[8; 4096], 0, IoOptions::flags(Flags::FUA));
    assert_eq!(kind(durable), Some(Kind::InDoubt));
    assert_eq!((rig.first(&rig.device), rig.fact("pages with the driver")), (8, 1));
    rig.release();
    rig.device.flush().unwrap();
    assert_eq!((rig.first(&rig.below), rig.fact("pages with the driver")), (8, 0));
    rig.world.clock().advance_to(rig.world.clock().now() + Span::from_secs(7200));
    rig.disk.settle();
    assert_eq!(rig.first(&rig.below), 8);
    // Also after the page was evicted.
    let mut page = [0; 4096];
    (1..128u64).for_each(|at| rig.device.read_at(&mut page, at * 4096).unwrap());
    assert_eq!(rig.first(&rig.device), 8);
}

/// Unrelated I/O continues: other ranges are flushed, and other pages written and read.
#[test]
fn only_what_is_in_doubt_is_held_up() {
    let rig = Rig::new();
    rig.device.write_at(&[5; 4096], 0).unwrap();
    rig.stick(true);
    assert_eq!(kind(rig.device.flush()), Some(Kind::TimedOut));
    rig.stick(false);
    for at in 1..100u64 {
        rig.device.write_at(&[at as u8; 4096], at * 4096).unwrap();
        rig.device.flush_range(at * 4096, 4096).unwrap_or_else(|error| {
            // The disk itself fails all flushes while one write is in doubt.
            assert_eq!(error.fault.kind, Kind::InDoubt, "{error}");
        });
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

/// Data written after a barrier is neither written back before the data in doubt nor reported as durable.
#[test]
fn what_is_in_doubt_holds_back_what_is_behind_a_barrier() {
    let rig = Rig::new();
    rig.device.write_at(&[5; 4096], 0).unwrap();
    rig.stick(true);
    assert_eq!(kind(rig.device.flush()), Some(Kind::TimedOut));
    rig.stick(false);
    rig.device.write_at_with(&[6; 4096], 8192, IoOptions::flags(Flags::SOFT_BARRIER)).unwrap();
    rig.device.write_at(&[7; 4096], 16384).unwrap();
    assert_eq!(kind(rig.device.flush_range(16384, 4096)), Some(Kind::InDoubt));
    let hard = rig.device.write_at_with(&[8; 4096], 20480, IoOptions::flags(Flags::HARD_BARRIER));
    assert_eq!(kind(hard), Some(Kind::InDoubt));
    rig.release();
    rig.device.flush().unwrap();
    let mut page = [0; 4096];
    for (at, byte) in [(0, 5), (8192, 6), (16384, 7)] {
        rig.below.read_at(&mut page, at).unwrap();
        assert_eq!(page, [byte; 4096]);
    }
}

/// Frames of reads that timed out are reused when the disk has returned them. While it has all frames, an I/O
/// that needs one fails.
#[test]
fn frames_come_back_from_a_disk_that_was_stuck() {
    let rig = Rig::new();
    let mut page = [0; 4096];
    rig.stick(true);
    for at in 0..40u64 {
        let failed = kind(rig.device.read_at(&mut page, at * 4096));
        assert!(matches!(failed, Some(Kind::TimedOut | Kind::Stuck)), "{at}: {failed:?}");
        assert!(at < 36 || failed == Some(Kind::Stuck), "{at}: {failed:?}");
    }
    assert_eq!(rig.fact("pages with the driver"), 32);
    assert_eq!(kind(rig.device.write_at(&[1; 4096], MIB / 2)), Some(Kind::Stuck));
    rig.stick(false);
    rig.release();
    for at in 0..256u64 {
        rig.device.read_at(&mut page, at % 200 * 4096).unwrap();
    }
    assert_eq!(rig.fact("pages with the driver"), 0);
    rig.device.write_at(&[1; 4096], MIB / 2).unwrap();
    rig.device.flush().unwrap();
}

/// The written part of a page is kept, whatever becomes of reading the rest.
#[test]
fn a_page_that_could_not_be_read_in_time_keeps_what_was_written() {
    let rig = Rig::new();
    rig.below.write_at(&[1; 4096], 0).unwrap();
    rig.device.write_at(&[2; 512], 1024).unwrap();
    rig.stick(true);
    let mut page = [0; 4096];
    assert_eq!(kind(rig.device.read_at(&mut page, 0)), Some(Kind::TimedOut));
    rig.stick(false);
    rig.device.write_at(&[3; 512], 0).unwrap();
    rig.device.read_at(&mut page[..512], 1024).unwrap();
    assert_eq!(page[..512], [2; 512]);
    rig.release();
    rig.device.read_at(&mut page, 0).unwrap();
    let found: Vec<u8> = page.chunks(512).map(|sector| sector[0]).collect();
    assert_eq!(found, [3, 1, 2, 1, 1, 1, 1, 1]);
    rig.device.flush().unwrap();
    assert_eq!(rig.fact("pages with the driver"), 0);
}

/// A cache over a scripted device, with a clock that the test controls.
fn scripted(settings: &Settings) -> (Script, Arc<dyn Backend>) {
    let script = Script::new("script", 16 * MIB);
    let device = cache::new(script.backend(), settings).unwrap();
    (script, device)
}

fn by(token: u64, deadline: u64, mut bio: Bio) -> Bio {
    bio.set_token(token);
    bio.set_deadline((deadline > 0).then_some(Time(deadline)));
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
    (0..2).for_each(|page| hand.submit(0, by(1, 0, write(page * 4096))));
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
    hand.submit(now, by(2, 0, Bio::flush()));
    assert_eq!(hand.kinds(now).len(), 1, "the writer is told of the errors");
    hand.submit(now, by(3, 0, Bio::flush()));
    assert_eq!(hand.kinds(now), [(3, None)]);
}

/// Whatever a bio waits for in the cache, it ends by its deadline, with its memory.
#[test]
fn bios_end_by_their_deadlines_whatever_they_wait_for() {
    let (script, device) = scripted(&Settings { background: 13, dirty: 13, window: 0, ..small(64) });
    let mut hand = Hand::on(&device);
    // Eight is the limit of dirty pages.
    (0..8).for_each(|page| hand.submit(0, by(page, 0, write(page * 4096))));
    assert_eq!(hand.kinds(0).len(), 8);
    script.hold(true);
    let range = |op: Op| Bio::new(op, 2048, 4096);
    let waits = [
        (10, by(10, MS, read(65536))),
        (11, by(11, MS, write(65536 * 2))),
        (12, by(12, MS, Bio::flush())),
        (13, by(13, MS, range(Op::Discard))),
        (14, by(14, 2 * MS, read(65536))),
    ];
    let expected: Vec<_> = waits.iter().map(|(token, _)| (*token, Some(Kind::TimedOut))).collect();
    waits.into_iter().for_each(|(_, bio)| hand.submit(0, bio));
    hand.lane.run(Time(0));
    assert_eq!(hand.lane.next_wakeup(), Some(Time(MS.next_multiple_of(1024))));
    assert_eq!(hand.kinds(MS), []);
    assert_eq!(hand.kinds(MS + 1024), expected[..4]);
    assert_eq!(hand.kinds(2 * MS + 1024), expected[4..]);
    // The device works again, and so does the cache: no data was lost.
    script.hold(false);
    (0..4).for_each(|_| drop(hand.kinds(3 * MS)));
    hand.submit(4 * MS, by(20, 0, Bio::flush()));
    hand.submit(4 * MS, by(21, 0, range(Op::Discard)));
    assert_eq!(hand.kinds(4 * MS), [(20, None), (21, None)]);
}

/// A reader with a short deadline does not affect another that waits for the same page.
#[test]
fn one_reader_s_deadline_is_not_another_s() {
    let (script, device) = scripted(&Settings { window: 0, ..small(64) });
    let mut hand = Hand::on(&device);
    script.hold(true);
    hand.submit(0, by(1, MS, read(0)));
    hand.submit(0, by(2, 0, read(0)));
    hand.submit(0, by(3, 3 * MS, read(0)));
    hand.lane.run(Time(0));
    let [first] = &script.seen()[..] else { panic!("one read for three") };
    assert_eq!(first.deadline, Some(Time(MS.next_multiple_of(1024))), "the device knows of it");
    assert_eq!(hand.kinds(MS + 1024), [(1, Some(Kind::TimedOut))]);
    assert_eq!(script.seen().len(), 1, "the others try again");
    assert_eq!(hand.kinds(3 * MS + 1024), [(3, Some(Kind::TimedOut))]);
    script.hold(false);
    assert_eq!(hand.kinds(4 * MS), [(2, None)]);
}

#[test]
fn cancelling_reaches_a_bio_wherever_it_waits() {
    let (script, device) = scripted(&Settings { background: 13, dirty: 13, window: 0, ..small(64) });
    let mut hand = Hand::on(&device);
    (0..8).for_each(|page| hand.submit(0, by(page, 0, write(page * 4096))));
    assert_eq!(hand.kinds(0).len(), 8);
    script.hold(true);
    hand.submit(0, by(10, 0, read(65536)));
    hand.submit(0, by(11, 0, write(65536 * 2)));
    hand.submit(0, by(12, 0, Bio::flush()));
    hand.submit(0, by(13, 0, Bio::new(Op::Discard, MIB, 65536)));
    hand.submit(0, by(14, 0, read(65536)));
    hand.lane.run(Time(0));
    for token in 10..14 {
        hand.lane.cancel(Time(0), token);
        assert_eq!(hand.kinds(0), [(token, Some(Kind::Cancelled))], "{token}");
    }
    script.hold(false);
    (0..4).for_each(|_| hand.lane.run(Time(0)));
    assert_eq!(hand.kinds(0), [(14, None)]);
    hand.submit(0, by(20, 0, Bio::flush()));
    assert_eq!(hand.kinds(0), [(20, None)]);
}

/// Pages are written back individually: the cache cannot write several atomically.
#[test]
fn atomic_writes_are_refused() {
    let (script, device) = scripted(&small(64));
    assert_eq!(device.geometry().limits.atomic_write, 0);
    let mut hand = Hand::on(&device);
    let mut bio = by(1, 0, write(0));
    bio.add_flags(Flags::ATOMIC);
    hand.submit(0, bio);
    assert_eq!(hand.kinds(0), [(1, Some(Kind::Unsupported))]);
    assert!(script.seen().is_empty());
}

/// A discard waits for the writes in doubt in its range, or fails with `InDoubt`.
#[test]
fn a_discard_waits_for_what_is_in_doubt() {
    let rig = Rig::new();
    rig.device.write_at(&[5; 4096], 0).unwrap();
    rig.stick(true);
    assert_eq!(kind(rig.device.flush()), Some(Kind::TimedOut));
    rig.stick(false);
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
    assert_eq!((done[0].pos() / 65536, done[0].status()), (2, Ok(())), "it begins behind the doubt");
    assert_eq!(done[1].status().unwrap_err().kind, Kind::InDoubt);
    assert!(channel.submit(Bio::new(Op::Discard, 0, 65536)).is_ok());
    channel.poll(&mut done);
    assert_eq!(channel.outstanding(), 1);
    rig.release();
    channel.wait(&mut done, None);
    assert_eq!(done[2].status(), Ok(()));
    assert_eq!(rig.first(&rig.device), 0);
}

/// A discard that waits for writes in doubt is no reason for writers at the limit to wait, too.
#[test]
fn writers_are_told_of_doubt_beside_a_discard_that_waits() {
    let rig = Rig::of(&Settings { background: 25, dirty: 25, ..small(32) });
    // As many as may be dirty.
    (0..8u64).for_each(|page| rig.device.write_at(&[5; 4096], page * 4096).unwrap());
    rig.stick(true);
    assert_eq!(kind(rig.device.flush()), Some(Kind::TimedOut));
    rig.stick(false);
    let (mut channel, mut done) = (rig.device.channel(4).unwrap(), Vec::new());
    assert!(channel.submit(Bio::new(Op::Discard, 0, 4096)).is_ok());
    assert!(channel.poll(&mut done) == 0 && channel.outstanding() == 1);
    // The pause of write-back is over.
    rig.world.clock().advance_to(rig.world.clock().now() + Span::from_secs(1));
    assert!(channel.submit(write(65536)).is_ok());
    (0..8).for_each(|_| _ = channel.poll(&mut done));
    let found: Vec<_> =
        done.iter().map(|bio| (bio.op(), bio.status().err().map(|fault| fault.kind))).collect();
    rig.release();
    channel.wait(&mut done, None);
    assert_eq!(found, [(Op::Write, Some(Kind::InDoubt))]);
    assert_eq!(done[1].status(), Ok(()));
}

/// Runs the cache by its own wakeups and the events of the disk for a time.
fn let_pass(rig: &Rig, channel: &mut Channel, span: Span) {
    let end = rig.world.clock().now() + span;
    // Far more than it needs.
    for _ in 0..100_000 {
        let now = rig.world.clock().now();
        if now >= end {
            return;
        }
        let wakeup = channel.next_wakeup().map_or(end, |at| at.max(now).min(end));
        match rig.world.next_event().is_none_or(|event| wakeup <= event) {
            true => rig.world.clock().advance_to(wakeup),
            false => _ = rig.world.pass(None),
        }
        channel.poll(&mut Vec::new());
    }
}

/// New versions of many pages in doubt do not keep the pages behind them from being written, nor other writers from going on.
#[test]
fn what_is_behind_pages_in_doubt_is_written() {
    const PAGES: u64 = 1100;
    const OTHERS: u64 = 200;
    let (expire, size) = (Span::from_secs(30), 20_000 * 4096);
    let rig =
        Rig::sized(32 * MIB, &Settings { size, background: 20, dirty: 20, expire, window: 0, ..small(0) });
    let pages = |byte: u8, count: u64| vec![byte; count as usize * 4096];
    rig.device.write_at(&pages(5, PAGES), 0).unwrap();
    rig.stick(true);
    assert_eq!(kind(rig.device.flush()), Some(Kind::TimedOut));
    rig.stick(false);
    let away = rig.fact("pages with the driver");
    rig.device.write_at(&pages(7, PAGES), 0).unwrap();
    let mut channel = rig.device.channel(1).unwrap();
    // They expire with those in doubt, and behind them.
    rig.device.write_at(&pages(6, OTHERS), 2000 * 4096).unwrap();
    let_pass(&rig, &mut channel, Span::from_secs(40));
    let dirty = rig.fact("dirty pages");
    // Up to the limit of 4,000 dirty pages, and beyond.
    let beyond: Vec<_> =
        (0..250).map(|at| kind(rig.device.write_at(&pages(8, 10), (3000 + 10 * at) * 4096))).collect();
    rig.release();
    let flushed = kind(rig.device.flush());
    assert_eq!((away, dirty), (PAGES, 2 * PAGES), "the others have been written");
    assert!(beyond.iter().all(Option::is_none), "{beyond:?}");
    assert_eq!((flushed, rig.fact("pages with the driver")), (None, 0));
    let mut page = [0; 4096];
    for (at, byte) in [(0, 7), (PAGES - 1, 7), (2000, 6), (5499, 8)] {
        rig.below.read_at(&mut page, at * 4096).unwrap();
        assert_eq!(page, [byte; 4096], "page {at}");
    }
}
