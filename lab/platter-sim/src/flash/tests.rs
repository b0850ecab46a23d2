//! Rates against calculations by hand.

use super::*;
use crate::closed_loop::{Host, command};
use crate::model::{Command, Model};
use crate::rng::Rng;
use platter_block::bio::Op;
use platter_block::time::Span;

pub(super) const KIB: u64 = 1024;
pub(super) const MIB: u64 = 1024 * KIB;

/// 2 channels of 4 dies, 2 planes, pages of 16 KiB, blocks of 64 pages: a row is 32 KiB, a block 2 MiB.
pub(super) fn small() -> SsdParams {
    SsdParams {
        size: 256 * MIB,
        channels: 2,
        dies: 4,
        planes: 2,
        page: 16384,
        pages: 64,
        over_provisioning: 300,
        read: Span::from_micros(50),
        program: Span::from_micros(600),
        erase: Span::from_millis(3),
        channel_rate: 400 * MIB,
        link: Link { rate: 512 * MIB, full_duplex: false, queues: 1, depth: 32 },
        control: Control { command: Span::from_micros(5), latency: Span::from_micros(15) },
        buffer: Buffer { bytes: 2 * MIB, write_back: true, protected: false },
        slc: Slc { bytes: 0, bits: 3, read: Span::from_micros(25), program: Span::from_micros(200) },
        background: None,
        start: Start::Erased,
        seed: 1,
    }
}

pub(super) fn ssd(change: impl FnOnce(&mut SsdParams)) -> Ssd {
    let mut params = small();
    change(&mut params);
    Ssd::new(params).unwrap()
}

pub(super) fn sequential(op: Op, len: u64) -> impl FnMut() -> Command {
    let mut at = 0;
    move || {
        at += len;
        command(op, (at - len) % (256 * MIB), len)
    }
}

pub(super) fn random(op: Op, len: u64, seed: u64) -> impl FnMut() -> Command {
    let mut numbers = Rng::new(seed);
    move || command(op, numbers.below(256 * MIB / len) * len, len)
}

pub(super) fn mib_per_s(bytes: u64, time: Span) -> u64 {
    bytes * 1_000_000_000 / MIB / time.0
}

/// Writes the whole disk once.
pub(super) fn fill(host: &mut Host<'_>) {
    host.run(8, 256, sequential(Op::Write, MIB));
    host.run(1, 1, || command(Op::Flush, 0, 0));
    host.wait(Span::from_millis(1));
}

#[test]
fn a_lone_command_costs_the_sum_of_its_parts() {
    let mut ssd = ssd(|_| ());
    let mut host = Host::new(&mut ssd);
    let unit_link = 4096 * 1_000_000_000 / (512 * MIB) + 1;
    // Never written: nothing is read from flash.
    assert_eq!(host.one(command(Op::Read, 0, 4096)).0, 20_000 + unit_link);
    assert_eq!(host.one(command(Op::Write, 0, 4096)).0, 20_000 + unit_link);
    // Still in memory.
    assert_eq!(host.one(command(Op::Read, 0, 4096)).0, 20_000 + unit_link);
    // A flush programs the row that is not full: its 32 KiB over the channel, then the program.
    let row_channel = 32 * KIB * 1_000_000_000 / (400 * MIB);
    assert_eq!(host.one(command(Op::Flush, 0, 0)).0, 20_000 + row_channel + 600_000);
    assert_eq!(host.one(command(Op::Flush, 0, 0)).0, 20_000);
    let unit_channel = 4096 * 1_000_000_000 / (400 * MIB) + 1;
    assert_eq!(host.one(command(Op::Read, 0, 4096)).0, 20_000 + 50_000 + unit_channel + unit_link);
    // Half a unit is read before it is written.
    let half_link = 2048 * 1_000_000_000 / (512 * MIB) + 1;
    assert_eq!(host.one(command(Op::Write, 0, 2048)).0, 20_000 + half_link + 50_000 + unit_channel);
}

#[test]
fn random_reads_scale_with_dies_until_the_controller_is_busy() {
    let mut ssd = ssd(|params| params.link.depth = 256);
    let mut host = Host::new(&mut ssd);
    fill(&mut host);
    // One at a time: 20 us of the controller, 50 us and 9.766 us on the die, 7.629 us on the link.
    let time = host.run(1, 2000, random(Op::Read, 4096, 1));
    assert!((time.0 / 2000).abs_diff(20_000 + 50_000 + 9_766 + 7_630) < 10, "{}", time.0 / 2000);
    // Deep queues: eight dies of 1 / 59.766 us each, less what they wait for the channel; the link would do 131,072/s.
    let time = host.run(256, 40_000, random(Op::Read, 4096, 2));
    let iops = 40_000 * 1_000_000_000 / time.0;
    assert!((110_000..=133_860).contains(&iops), "{iops}");
    // In between, balls in bins: eight reads keep about 5.25 of eight dies busy.
    let time = host.run(8, 20_000, random(Op::Read, 4096, 3));
    let iops = 20_000 * 1_000_000_000 / time.0;
    assert!((60_000..=85_000).contains(&iops), "{iops}");
}

#[test]
fn sequential_rates_are_those_of_the_narrowest_part() {
    let mut ssd = ssd(|_| ());
    let mut host = Host::new(&mut ssd);
    // Writes, once the buffer is full: eight dies, each 32 KiB in 78.1 us of channel and 600 us of program.
    let time = host.run(8, 256, sequential(Op::Write, MIB));
    let rate = mib_per_s(256 * MIB, time);
    let calculated = 8 * 32 * 1_000_000 / 1024 * 1000 / 678_125;
    assert!(rate.abs_diff(calculated) * 100 < calculated * 4, "{rate} for {calculated}");
    host.run(1, 1, || command(Op::Flush, 0, 0));
    // Reads: the link. Two channels could do 800 MiB/s.
    let time = host.run(8, 256, sequential(Op::Read, MIB));
    let rate = mib_per_s(256 * MIB, time);
    assert!((495..=512).contains(&rate), "{rate}");
    // One at a time the first row's time on the die is seen.
    let time = host.run(1, 512, sequential(Op::Read, 128 * KIB));
    let alone = time.0 / 512;
    let link = 128 * KIB * 1_000_000_000 / (512 * MIB);
    assert!(alone > link + 20_000 + 50_000 && alone < link + 20_000 + 50_000 + 160_000, "{alone}");
}

#[test]
fn both_ways_at_once_only_on_a_full_duplex_link() {
    let time = |full_duplex| {
        let mut ssd = ssd(|params| {
            params.link.full_duplex = full_duplex;
            params.channel_rate = 8192 * MIB;
            (params.read, params.program) = (Span::from_micros(1), Span::from_micros(1));
        });
        let mut host = Host::new(&mut ssd);
        fill(&mut host);
        let (mut reads, mut writes) = (sequential(Op::Read, MIB), sequential(Op::Write, MIB));
        let mut turn = false;
        host.run(16, 256, || {
            turn = !turn;
            if turn { reads() } else { writes() }
        })
    };
    let (half, full) = (time(false), time(true));
    assert!(mib_per_s(256 * MIB, half).abs_diff(510) < 12, "{half:?}");
    assert!(mib_per_s(256 * MIB, full) > 960, "{full:?}");
}

#[test]
fn write_amplification_is_in_thousandths_and_unknown_before_the_first_write() {
    let mut ssd = ssd(|_| {});
    let meter = ssd.meter();
    assert_eq!(meter.write_amplification(), None);
    Host::new(&mut ssd).run(1, 64, random(Op::Write, 65536, 7));
    let expected = meter.programmed_units() * 1000 / meter.host_units();
    assert_eq!(meter.write_amplification(), Some(expected));
    assert!(expected > 0, "64 writes of 64 KiB program rows");
}

#[test]
fn discards_leave_less_to_copy() {
    let copied = |discard: bool| {
        let mut ssd = ssd(|params| params.start = Start::Steady);
        let meter = ssd.meter();
        let mut host = Host::new(&mut ssd);
        if discard {
            host.one(command(Op::Discard, 64 * MIB, 128 * MIB));
            assert_eq!(meter.trimmed_units(), 128 * MIB / 4096);
        }
        let mut numbers = Rng::new(3);
        host.run(16, 30_000, || command(Op::Write, numbers.below(16384) * 4096, 4096));
        meter.copied_units()
    };
    let (with, without) = (copied(true), copied(false));
    assert!(with * 4 < without, "{with} and {without}");
}

#[test]
fn what_was_discarded_is_not_read_from_flash() {
    let mut ssd = ssd(|_| ());
    let meter = ssd.meter();
    let mut host = Host::new(&mut ssd);
    fill(&mut host);
    let before = meter.page_reads();
    // Whole units only: the data at both ends is kept.
    host.one(command(Op::Discard, 512, 64 * KIB));
    host.one(command(Op::Read, 4096, 60 * KIB));
    assert_eq!(meter.page_reads(), before);
    host.one(command(Op::Read, 0, 512));
    host.one(command(Op::Read, 64 * KIB, 512));
    assert_eq!(meter.page_reads(), before + 2);
    host.one(command(Op::WriteZeroes, 512, 64 * KIB));
    assert_eq!(meter.trimmed_units(), 15);
}

#[test]
fn durable_writes_wait_for_the_flash_unless_the_buffer_is_protected() {
    let write = |write_back, protected, fua| {
        let mut ssd =
            ssd(|params| (params.buffer.write_back, params.buffer.protected) = (write_back, protected));
        let features = ssd.geometry().features;
        assert_eq!(features.write_cache, write_back && !protected);
        let mut host = Host::new(&mut ssd);
        let time = host.one(Command { fua, ..command(Op::Write, 0, 4096) });
        let flush = host.one(command(Op::Flush, 0, 0));
        (time.0 > 600_000, flush.0 > 600_000)
    };
    assert_eq!(write(true, false, false), (false, true));
    assert_eq!(write(true, false, true), (true, false));
    assert_eq!(write(false, false, false), (true, false));
    assert_eq!(write(true, true, true), (false, false));
}

#[test]
fn a_full_disk_takes_any_writes_for_ever() {
    for (protected, write_back, cache) in
        [(false, true, 0), (false, false, 0), (true, true, 0), (false, true, MIB), (true, true, 4 * MIB)]
    {
        let mut ssd = ssd(|params| {
            params.slc.bytes = cache;
            params.background = Some(Span::from_micros(500));
            params.size = 16 * MIB;
            params.over_provisioning = 0;
            params.pages = 4;
            params.over_provisioning = 600;
            (params.buffer.protected, params.buffer.write_back) = (protected, write_back);
        });
        let mut host = Host::new(&mut ssd);
        let mut numbers = Rng::new(9);
        host.run(32, 20_000, || {
            let (at, len) = (numbers.below(16 * MIB / 512), 1 + numbers.below(100));
            let len = len.min(16 * MIB / 512 - at);
            let op = [Op::Write, Op::Write, Op::Write, Op::Read, Op::Discard, Op::WriteZeroes, Op::Flush];
            let op = op[numbers.below(7) as usize];
            let fua = op == Op::Write && numbers.below(4) == 0;
            let (at, len) = if op == Op::Flush { (0, 0) } else { (at, len) };
            Command { fua, ..command(op, at * 512, len * 512) }
        });
        host.settle();
    }
}

#[test]
fn the_same_commands_take_the_same_time() {
    let run = || {
        let mut ssd = ssd(|params| params.start = Start::Steady);
        let mut host = Host::new(&mut ssd);
        let (mut reads, mut writes) = (random(Op::Read, 4096, 1), random(Op::Write, 16384, 2));
        let mut turn = 0;
        host.run(32, 10_000, || {
            turn += 1;
            if turn % 3 == 0 { writes() } else { reads() }
        })
    };
    assert_eq!(run(), run());
}

#[test]
fn what_no_disk_can_have_is_refused_by_name() {
    let wrong = |change: fn(&mut SsdParams)| {
        let mut params = small();
        change(&mut params);
        Ssd::new(params).err().map(|error| error.what)
    };
    assert_eq!(wrong(|p| p.size = 1000), Some("size"));
    assert_eq!(wrong(|p| p.page = 512), Some("page size"));
    assert_eq!(wrong(|p| p.channels = 0), Some("number of channels"));
    assert_eq!(wrong(|p| p.over_provisioning = 0), Some("over-provisioning"));
    assert_eq!(wrong(|p| p.buffer.bytes = 0), Some("buffer size"));
    assert_eq!(wrong(|p| p.link.rate = 0), Some("rate of the link"));
    assert_eq!(wrong(|p| p.size = 1 << 44), Some("size"));
    assert_eq!(wrong(|p| p.slc.bits = 0), Some("bits of a cell"));
    assert_eq!(wrong(|p| p.slc.bytes = 1 << 40), Some("SLC cache"));
    assert_eq!(wrong(|p| (p.pages, p.slc.bytes) = (2, MIB)), Some("SLC cache"));
    assert_eq!(wrong(|_| ()), None);
    let raw = small().raw_bytes().unwrap();
    assert!((256 * MIB * 130 / 100..256 * MIB * 140 / 100).contains(&raw));
}
