//! Commands of the disk's own set: what they wait for, what waits for them, and what becomes of their memory.

use crate::disk::{
    Disk, ELEVATORS, INQUIRED, Lane, NOWHERE, Options, SCSI, SECOND, SENSE, command, flush, numbered, read,
    write,
};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::command::{Command, CommandSet, Outcome, Reach, Sense, Transfer};
use platter_block::driver::Features;
use platter_block::fault::Kind;
use platter_block::queue::Settings;
use platter_disk::device::Device;
use platter_disk::sync_io::{CommandData, IoOptions};
use std::sync::Arc;

const INQUIRY: Reach = Reach::Nothing;

fn open(elevator: &'static str) -> (Arc<Disk>, Device, Lane) {
    let (disk, device) = Disk::open(Options { elevator, ..Options::default() });
    let lane = Lane::open(&device);
    (disk, device, lane)
}

fn sent(reach: Reach, len: usize, byte: u8, token: u64) -> Bio {
    numbered(command(reach, false, len, byte), token, Flags::NONE)
}

fn at_head(token: u64) -> Bio {
    numbered(command(INQUIRY, true, 64, 0), token, Flags::NONE)
}

fn of(lane: &mut Lane, token: u64) -> Bio {
    let at = lane.done.iter().position(|bio| bio.token() == token).expect("it has come back");
    lane.done.swap_remove(at)
}

#[test]
fn a_command_brings_its_data_and_its_outcome_back() {
    for elevator in ELEVATORS {
        let (disk, _device, mut lane) = open(elevator);
        lane.send(sent(INQUIRY, 96, 0, 1));
        disk.finish_with(NOWHERE, Some(36));
        lane.poll();
        let mut bio = of(&mut lane, 1);
        assert_eq!(
            (bio.status(), bio.done(), bio.len()),
            (Ok(()), 36, 0),
            "{elevator}: a short answer is one"
        );
        let outcome = bio.command().unwrap().outcome().unwrap();
        assert_eq!(outcome, Outcome { residual: 60, ..Outcome::GOOD });
        assert_eq!(bio.take_buffer(), Some(vec![INQUIRED; 96]));
        assert!(bio.command().is_some(), "it outlives the buffer");
    }
}

#[test]
fn a_command_that_fails_is_not_repeated_and_has_its_sense_data() {
    for elevator in ELEVATORS {
        // EIO, and errors after which the queue would repeat a transfer.
        for errno in [-5, -4, -11, -12] {
            let (disk, device, mut lane) = open(elevator);
            lane.send(sent(INQUIRY, 64, 7, 1));
            disk.finish_with(NOWHERE, Some(errno));
            lane.poll();
            let mut bio = of(&mut lane, 1);
            assert!(bio.status().is_err(), "{elevator} {errno}");
            let outcome = bio.command().unwrap().outcome().unwrap();
            assert_eq!((outcome.status, outcome.sense), (2, Sense::new(&SENSE)));
            assert_eq!(bio.take_buffer(), Some(vec![7u8; 64]));
            assert_eq!(disk.take_starts().len(), 1);
            assert_eq!(device.statistics().gauges.in_flight, 0);
        }
    }
}

#[test]
fn what_the_queue_must_refuse_it_refuses() {
    let (_disk, device, mut lane) = open("none");
    let mut all = 0;
    let mut refused = |lane: &mut Lane, bio: Bio| {
        all += 1;
        lane.send(numbered(bio, all, Flags::NONE));
        lane.kind(all).expect("it fails")
    };
    let nvme = || Command::new(CommandSet::Nvme, &[0; 64]).unwrap();
    assert_eq!(refused(&mut lane, Bio::with_command(nvme(), ()).unwrap()), Kind::Unsupported);
    assert_eq!(refused(&mut lane, Bio::new(Op::Command, 0, 0)), Kind::Contract, "without a command");
    assert_eq!(refused(&mut lane, command(INQUIRY, false, 65537, 0)), Kind::BadSegments, "too much data");
    for flags in [Flags::FUA, Flags::PREFLUSH, Flags::HARD_BARRIER, Flags::SOFT_BARRIER, Flags::ATOMIC] {
        let mut bio = command(INQUIRY, false, 0, 0);
        bio.add_flags(flags);
        assert_eq!(refused(&mut lane, bio), Kind::Unsupported, "{flags:?}");
    }
    let wrong = Command::new(CommandSet::Scsi, &[0; 6]).unwrap().with_transfer(Transfer::FromDevice);
    assert_eq!(Bio::with_command(wrong, ()).unwrap_err().kind, Kind::BadSegments);
    // The gate that refused barriers had closed is open again.
    lane.send(read(0, 100));
    assert_eq!(_disk.held(), [0]);
    _disk.finish_all();
    drop((lane, device));
    let features = Features::default().with_read_only(true).with_commands(SCSI);
    let (disk, device) = Disk::open(Options { features, ..Options::default() });
    let mut lane = Lane::open(&device);
    assert_eq!(refused(&mut lane, command(Reach::Everything, false, 0, 0)), Kind::ReadOnly);
    lane.send(sent(INQUIRY, 0, 0, 200));
    assert_eq!(disk.held(), [NOWHERE], "a command that changes nothing passes");
    disk.finish_all();
}

#[test]
fn a_command_at_the_head_starts_before_everything_that_waits() {
    for elevator in ELEVATORS {
        let queue = Settings { plug: None, depth: 1, ..Settings::default() };
        let (disk, device) = Disk::open(Options { elevator, queue, ..Options::default() });
        let mut lane = Lane::open(&device);
        lane.send(write(0, 1, 1, Flags::NONE));
        for block in 1..4 {
            lane.send(write(block * 65536, 1, 1 + block, Flags::NONE));
        }
        lane.send(sent(Reach::Reads { pos: 4096, len: 512 }, 512, 0, 5));
        lane.send(write(262_144, 1, 6, Flags::NONE));
        lane.send(at_head(7));
        let mut order = Vec::new();
        while let [pos] = disk.held()[..] {
            order.push(pos);
            disk.finish(pos);
            lane.poll();
        }
        assert_eq!(order[..2], [0, NOWHERE], "{elevator}");
        let place = |pos| order.iter().position(|&at| at == pos).unwrap();
        assert!((1..4).all(|block| place(block * 65536) < place(4096)), "{elevator}: in its place {order:?}");
        assert!(place(4096) < place(262_144) || elevator == "none", "{elevator}: {order:?}");
        assert_eq!(order.len(), 7);
    }
}

#[test]
fn no_command_passes_a_barrier() {
    for elevator in ELEVATORS {
        for barrier in [Flags::SOFT_BARRIER, Flags::HARD_BARRIER] {
            let queue = Settings { plug: None, depth: 1, ..Settings::default() };
            let (disk, device) = Disk::open(Options { elevator, queue, ..Options::default() });
            let mut lane = Lane::open(&device);
            lane.send(write(0, 1, 1, Flags::NONE));
            lane.send(sent(Reach::Changes { pos: 8192, len: 4096 }, 4096, 1, 2));
            lane.send(write(65536, 1, 3, barrier));
            lane.send(at_head(4));
            let mut order = Vec::new();
            while let Some(&pos) = disk.held().first() {
                order.push(pos);
                disk.finish(pos);
                lane.poll();
            }
            order.retain(|pos| [0, 8192, 65536, NOWHERE].contains(pos));
            order.dedup();
            let place = |pos| order.iter().rposition(|&at| at == pos).unwrap();
            assert!(place(8192) < place(65536) && place(65536) < place(NOWHERE), "{elevator}: {order:?}");
        }
    }
}

/// The range of a late command is in doubt as that of a late write is; a command without one puts everything in doubt.
#[test]
fn what_a_late_command_may_change_is_in_the_fence() {
    for elevator in ELEVATORS {
        let some = Reach::Changes { pos: 8192, len: 4096 };
        for (reach, pos) in [(some, 8192), (Reach::Everything, 0), (INQUIRY, NOWHERE)] {
            let (disk, device, mut lane) = open(elevator);
            lane.send(sent(reach, if reach == some { 4096 } else { 0 }, 1, 1));
            disk.pass(SECOND);
            lane.poll();
            assert_eq!(lane.kind(1), Some(Kind::TimedOut));
            let face = of(&mut lane, 1);
            assert!(face.command().is_some_and(|command| command.outcome().is_none()));
            let mut far =
                numbered(command(Reach::Reads { pos: 65536, len: 512 }, true, 512, 0), 2, Flags::NONE);
            far.set_deadline(Some(disk.now() + SECOND));
            lane.send(far);
            lane.send(write(8192, 9, 3, Flags::NONE));
            lane.send(flush(4));
            let held = disk.held();
            let expected: &[u64] = match reach {
                Reach::Everything => &[],
                Reach::Nothing => &[65536, 8192, 0],
                _ => &[65536],
            };
            assert_eq!(
                held.into_iter()
                    .filter(|&at| at != pos || reach == INQUIRY && at == 0)
                    .filter(|&at| at != NOWHERE)
                    .collect::<Vec<_>>(),
                expected,
                "{elevator} {reach:?}"
            );
            assert_eq!(lane.is_done(4), reach != INQUIRY, "a flush does not succeed while a change is late");
            disk.finish_all();
            lane.poll();
            disk.finish_all();
            lane.poll();
            assert_eq!(
                (lane.kind(2), lane.kind(3), disk.byte(8192)),
                (None, None, 9),
                "{elevator} {reach:?}"
            );
            assert_eq!(disk.violations(), Vec::<String>::new());
            assert_eq!(device.statistics().gauges.in_flight, 0);
        }
    }
}

#[test]
fn the_data_is_mapped_or_copied_by_its_alignment_unless_the_command_says() {
    use platter_block::command::MemoryUse;
    let device = inquisitive(4096);
    let mut page = vec![0u8; 8192];
    let aligned = page.as_ptr().align_offset(4096);
    for (offset, memory, expected) in [
        (0, MemoryUse::Auto, Ok((1, 0))),
        (8, MemoryUse::Auto, Ok((0, 1))),
        (0, MemoryUse::Copied, Ok((0, 1))),
        (0, MemoryUse::Mapped, Ok((1, 0))),
        (8, MemoryUse::Mapped, Err(Kind::Misaligned)),
    ] {
        let before = device.counters();
        let inquiry = Command::new(CommandSet::Scsi, &[0x12, 0, 0, 0, 0, 0]).unwrap();
        let inquiry = inquiry.with_transfer(Transfer::FromDevice).with_reach(INQUIRY).with_memory(memory);
        let data = &mut page[aligned + offset..][..512];
        data.fill(0);
        let result = device.command(&Arc::new(inquiry), CommandData::FromDevice(data), IoOptions::default());
        let after = device.counters();
        let counted =
            (after.commands_mapped - before.commands_mapped, after.commands_copied - before.commands_copied);
        assert_eq!(
            result.map(|_| counted).map_err(|error| error.fault.kind),
            expected,
            "{offset} {memory:?}"
        );
        if expected.is_ok() {
            assert!(
                page[aligned + offset..][..512].iter().all(|&byte| byte == INQUIRED),
                "{offset} {memory:?}"
            );
        }
    }
}

/// A device in real time whose disk answers every command at once.
fn inquisitive(memory_align: u32) -> Device {
    use platter_block::disk::FnDisk;
    use platter_block::driver::Geometry;
    use platter_block::limits::Limits;
    let limits = Limits::unlimited(512).with_memory_align(memory_align);
    let geometry = Geometry::new(1 << 20, limits).with_features(Features::default().with_commands(SCSI));
    let disk = FnDisk::new("inquisitive", geometry, |_| Ok(Box::<crate::disk::Prompt>::default()));
    Device::from_disk(disk, Default::default(), None).unwrap()
}

#[test]
fn a_synchronous_command_says_what_the_device_answered() {
    let device = inquisitive(1);
    let command = |first| {
        let command = Command::new(CommandSet::Scsi, &[first, 0, 0, 0, 0, 0]).unwrap();
        Arc::new(command.with_transfer(Transfer::FromDevice).with_reach(INQUIRY))
    };
    let mut data = [0; 64];
    for options in [IoOptions::default(), IoOptions::timeout(SECOND)] {
        data.fill(0);
        let good = device.command(&command(0x12), CommandData::FromDevice(&mut data), options);
        assert_eq!((good.unwrap(), data), (Outcome::GOOD, [INQUIRED; 64]));
        let bad = command(0xff);
        let error = device.command(&bad, CommandData::FromDevice(&mut data), options).unwrap_err();
        assert_eq!((error.op, error.fault.errno), (Op::Command, 121));
        let text = error.to_string();
        assert!(text.contains("SCSI status 0x02, sense data [70, 00, 03, 00]"), "{text}");
        assert_eq!(bad.outcome().unwrap().status, 2);
    }
    let wrong = device.command(&command(0x12), CommandData::None, IoOptions::default()).unwrap_err();
    assert_eq!(wrong.fault.kind, Kind::BadSegments);
    let ram = Device::ram(1 << 20).unwrap();
    let refused = ram.command(&command(0x12), CommandData::FromDevice(&mut data), IoOptions::default());
    assert_eq!(refused.unwrap_err().fault.kind, Kind::Unsupported);
}
