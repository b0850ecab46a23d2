//! Disks that fail: the right bio fails, with the right error, in every way to call.

use crate::callers::Style;
use crate::fake::{Fake, Options};
use crate::kinds::elevators;
use crate::memory::{aligned, bytes, fill};
use crate::rig::{submit, write};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::{Fault, Kind, Stage};
use platter_disk::device::Device;
use std::sync::Arc;

/// Runs a test on a fake disk with every elevator.
fn with_elevators(test: impl Fn(&str, &Fake, &Device)) {
    for elevator in elevators() {
        let (fake, device) = Fake::open(Options { elevator, ..Options::default() });
        test(elevator, &fake, &device);
    }
}

/// What a disk, a file system or a network may report, and the kind that a program sees. Transient errors are tried again
/// and not listed. The first rows are all errors of the Linux block layer (`blk_errors` in `block/blk-core.c`).
const ERRNOS: [(i32, Kind); 45] = [
    (libc::EOPNOTSUPP, Kind::Unsupported),
    (libc::ETIMEDOUT, Kind::TimedOut),
    (libc::ENOSPC, Kind::NoSpace),
    (libc::ENOLINK, Kind::Io),
    (libc::EREMOTEIO, Kind::Io),
    (libc::EBADE, Kind::Io),
    (libc::ENODATA, Kind::Io),
    (libc::EILSEQ, Kind::Corrupt),
    (libc::EBUSY, Kind::Io),
    (libc::ENODEV, Kind::Gone),
    (libc::ETIME, Kind::TimedOut),
    (libc::EREMCHG, Kind::Io),
    (libc::ETOOMANYREFS, Kind::Io),
    (libc::EOVERFLOW, Kind::Io),
    (libc::EINVAL, Kind::Misaligned),
    (libc::EIO, Kind::Io),
    // File systems, and block devices as files.
    (libc::EROFS, Kind::ReadOnly),
    (libc::EACCES, Kind::Refused),
    (libc::ETXTBSY, Kind::Io),
    (libc::EFBIG, Kind::NoSpace),
    (libc::EDQUOT, Kind::NoSpace),
    (libc::EBADMSG, Kind::Corrupt),
    (libc::EUCLEAN, Kind::Io),
    (libc::EHWPOISON, Kind::Corrupt),
    (libc::ENXIO, Kind::Gone),
    (libc::ENOMEDIUM, Kind::Gone),
    (libc::EMEDIUMTYPE, Kind::Io),
    (libc::ESTALE, Kind::Gone),
    (libc::ENOTTY, Kind::Unsupported),
    (libc::ENOSYS, Kind::Unsupported),
    (524, Kind::Unsupported),
    (libc::ENOBUFS, Kind::NoMemory),
    (libc::EBADF, Kind::Contract),
    (libc::EFAULT, Kind::Io),
    (libc::ESPIPE, Kind::Io),
    (libc::EDEADLK, Kind::Io),
    (libc::ENOKEY, Kind::Io),
    // Disks behind a network.
    (libc::ENOTCONN, Kind::Gone),
    (libc::ESHUTDOWN, Kind::Gone),
    (libc::ECONNRESET, Kind::Io),
    (libc::EPIPE, Kind::Io),
    (libc::EHOSTUNREACH, Kind::Io),
    (libc::ECONNREFUSED, Kind::Io),
    (libc::EPROTO, Kind::Io),
    (4095, Kind::Io),
];

#[test]
fn what_the_disk_says_reaches_the_caller() {
    with_elevators(|name, fake, device| {
        for style in Style::ALL {
            let mut caller = style.caller(device);
            for (errno, kind) in ERRNOS {
                fake.set_rule(move |_, _, _| Some(-i64::from(errno)));
                for op in [Op::Read, Op::Write] {
                    let (result, memory) = caller.transfer(op, 4096, aligned(8192), Flags::NONE);
                    let fault = result.unwrap_err();
                    assert_eq!((fault.kind, i32::from(fault.errno)), (kind, errno), "{name} {style:?} {op}");
                    assert_eq!(fault.errno(), errno, "the number that exports report");
                    assert!(memory.is_some(), "{name} {style:?}: the buffer comes back");
                }
                let fault = caller.operate(Op::Discard, 0, 4096).unwrap_err();
                assert_eq!(fault.kind, kind, "{name} {style:?}");
            }
            fake.clear_rule();
            assert_eq!(caller.write(4096, aligned(8192)).0, Ok(()), "{name}: it works again");
        }
    });
}

/// `EPERM` means that the device is read-only if it refuses a change. A read is not refused for that, and what the system
/// does not permit is no fault of the device.
#[test]
fn what_is_not_permitted_is_read_only_for_changes_alone() {
    with_elevators(|name, fake, device| {
        fake.set_rule(|_, _, _| Some(-i64::from(libc::EPERM)));
        for style in Style::ALL {
            let mut caller = style.caller(device);
            let read = caller.transfer(Op::Read, 4096, aligned(8192), Flags::NONE).0.unwrap_err();
            let write = caller.transfer(Op::Write, 4096, aligned(8192), Flags::NONE).0.unwrap_err();
            assert_eq!((read.kind, read.errno()), (Kind::Refused, libc::EPERM), "{name} {style:?}");
            assert_eq!((write.kind, write.errno()), (Kind::ReadOnly, libc::EPERM), "{name} {style:?}");
            for op in [Op::Discard, Op::WriteZeroes] {
                let fault = caller.operate(op, 0, 4096).unwrap_err();
                assert_eq!(fault.kind, Kind::ReadOnly, "{name} {style:?} {op}");
            }
        }
        let flush = device.flush().unwrap_err().fault;
        assert_eq!((flush.kind, flush.errno()), (Kind::Refused, libc::EPERM), "{name}");
        device.acknowledge_flush_failure();
    });
}

/// A kind that a layer found is reported to another process as an errno, and is the same kind there.
#[test]
fn a_kind_survives_as_an_errno() {
    for kind in Kind::ALL {
        let there = Fault::from_errno(Fault::new(kind, Stage::Layer).errno()).kind;
        let same = match kind {
            Kind::ZeroLength | Kind::BadSegments | Kind::OutOfRange => Kind::Misaligned,
            // What only the library that found it can act on.
            Kind::Short | Kind::FlushFailed | Kind::Contract | Kind::Broken => Kind::Io,
            Kind::Unsettled => Kind::TimedOut,
            kind => kind,
        };
        assert_eq!(there, same, "{kind:?}");
    }
}

/// `verify` knows the block that differs; a disk that reports corrupt data does not say which it is. A disk that is
/// read-only is not opened for writing by another call.
#[test]
fn hints_are_given_only_where_they_hold() {
    let (fake, device) = Fake::open(Options::default());
    for (errno, text) in [
        (libc::EBADMSG, "what was read is not what was written (errno 74)"),
        (libc::EILSEQ, "what was read is not what was written (errno 84)"),
        (libc::EPERM, "the operation is not permitted (errno 1)"),
        (libc::EROFS, "the device is read-only (errno 30)"),
    ] {
        fake.set_rule(move |_, _, _| Some(-i64::from(errno)));
        let error = device.read_at(&mut [0; 1024], 4096).unwrap_err().to_string();
        assert_eq!(error, format!("fake: read of 1024 bytes at 4096: {text}"));
    }
}

#[test]
fn an_error_names_device_operation_place_and_errno() {
    let (fake, device) = Fake::open(Options::default());
    fake.set_rule(|_, _, _| Some(-5));
    let text = device.write_at(&[0; 1024], 4096).unwrap_err().to_string();
    assert_eq!(text, "fake: write of 1024 bytes at 4096: the device failed (errno 5)");
    let text = crate::rig::block_on(device.read(8192, vec![0; 512])).0.unwrap_err().to_string();
    assert_eq!(text, "fake: read of 512 bytes at 8192: the device failed (errno 5)");
}

/// The disk is removed in the middle, and attached again.
#[test]
fn a_disk_that_vanishes_fails_everything_and_hangs_nothing() {
    with_elevators(|name, fake, device| {
        let mut channel = device.channel(32).unwrap();
        fake.hold();
        for at in 0..16 {
            submit(&mut channel, write(at * 512, 1, Flags::SYNC));
        }
        channel.flush();
        fake.set_rule(|_, _, _| Some(-i64::from(libc::ENODEV)));
        for at in 16..32 {
            submit(&mut channel, write(at * 512, 1, Flags::SYNC));
        }
        channel.flush();
        fake.release();
        let mut done = Vec::new();
        while channel.outstanding() > 0 {
            channel.wait(&mut done, None);
        }
        let failed = done.iter().filter(|bio| bio.status().is_err_and(|fault| fault.kind == Kind::Gone));
        assert_eq!(failed.count(), 16, "{name}");
        assert_eq!(device.flush().unwrap_err().fault.kind, Kind::Gone, "{name}");
        fake.clear_rule();
        // Earlier writes may be lost: that is not forgotten.
        assert_eq!(device.flush().unwrap_err().fault.kind, Kind::FlushFailed, "{name}");
        device.acknowledge_flush_failure();
        device.flush().unwrap();
    });
}

/// Several bios became one request, and one of them covers the bad sector: only that bio fails.
#[test]
fn one_bad_sector_fails_one_bio() {
    const BAD: u64 = 5 * 512;
    with_elevators(|name, fake, device| {
        fake.set_rule(|_, pos, len| (pos <= BAD && BAD < pos + len).then_some(-5));
        let mut channel = device.channel(32).unwrap();
        for at in 0..16u64 {
            let mut bio = Bio::write(at * 512, vec![at as u8; 512]).unwrap();
            bio.set_token(at);
            submit(&mut channel, bio);
        }
        let mut done = Vec::new();
        while channel.outstanding() > 0 {
            channel.wait(&mut done, None);
        }
        assert!(device.counters().back_merges > 0, "{name}: they were merged");
        for bio in &done {
            let expected = if bio.token() == 5 { Err(Kind::Io) } else { Ok(()) };
            assert_eq!(bio.status().map_err(|fault| fault.kind), expected, "{name} {bio:?}");
        }
        fake.clear_rule();
        let mut all = vec![0xee; 16 * 512];
        device.read_at(&mut all, 0).unwrap();
        for (at, block) in all.chunks(512).enumerate() {
            let expected = if at == 5 { 0 } else { at as u8 };
            assert!(block.iter().all(|byte| *byte == expected), "{name} {at}");
        }
    });
}

/// The disk does less than requested: further requests do the rest, and no short transfer is returned.
#[test]
fn a_short_transfer_is_completed() {
    with_elevators(|name, fake, device| {
        for style in Style::ALL {
            let mut caller = style.caller(device);
            for op in [Op::Write, Op::Read] {
                // A block and a part of one each time: the part is transferred again.
                fake.set_rule(|_, _, len| Some(len.min(700) as i64));
                fake.seen();
                let mut memory = aligned(4096);
                fill(&mut memory, |at| if op == Op::Write { (at / 3) as u8 } else { 0xee });
                let (result, memory) = caller.transfer(op, 8192, memory, Flags::NONE);
                assert_eq!(result, Ok(()), "{name} {style:?} {op}");
                let places: Vec<u64> = (0..8).map(|i| 8192 + i * 512).collect();
                assert_eq!(fake.started(), places, "{name} {style:?} {op}");
                let same = bytes(&memory.unwrap()).iter().enumerate().all(|(at, b)| *b == (at / 3) as u8);
                assert!(same, "{name} {style:?} {op}");
            }
            fake.clear_rule();
        }
    });
}

#[test]
fn a_transfer_that_gets_nowhere_is_short() {
    with_elevators(|name, fake, device| {
        fake.set_rule(|_, pos, len| Some(if pos >= 16384 { 0 } else { len.min(16384 - pos) as i64 }));
        for style in Style::ALL {
            let mut caller = style.caller(device);
            for pos in [8192, 16384] {
                let fault = caller.read(pos, aligned(16384)).0.unwrap_err();
                assert_eq!(fault.kind, Kind::Short, "{name} {style:?}");
            }
        }
    });
}

#[test]
fn a_driver_that_claims_too_much_is_not_believed() {
    with_elevators(|name, fake, device| {
        fake.set_rule(|_, _, len| Some(len as i64 + 512));
        for style in Style::ALL {
            let mut caller = style.caller(device);
            assert_eq!(caller.read(0, aligned(4096)).0.unwrap_err().kind, Kind::Contract, "{name} {style:?}");
        }
    });
}

/// Reading the blocks at the ends fails: then nothing is written.
#[test]
fn a_failed_bounce_writes_nothing() {
    let (fake, device) = Fake::open(Options::default());
    fake.set_rule(|op, _, _| (op == Op::Read).then_some(-5));
    assert_eq!(device.write_at(&[1; 100], 700).unwrap_err().fault.kind, Kind::Io);
    fake.clear_rule();
    let mut all = [0xee; 1024];
    device.read_at(&mut all, 512).unwrap();
    assert_eq!(all, [0; 1024]);
}

/// The shared channel is opened when it is first needed. If that fails, the bios that need it fail, and
/// nothing stays closed behind a barrier that never started.
#[test]
fn without_a_channel_only_what_needs_it_fails() {
    let (fake, device) = Fake::open(Options::default());
    let mut lane = device.channel(16).unwrap();
    fake.set_full(true);
    let text = device.channel(1).err().unwrap().to_string();
    assert!(text.contains("the device is gone; full"), "{text}");
    for _ in 0..3 {
        submit(&mut lane, write(0, 1, Flags::NONE));
        submit(&mut lane, write(4096, 1, Flags::HARD_BARRIER));
        let mut done = Vec::new();
        while lane.outstanding() > 0 {
            lane.wait(&mut done, None);
        }
        let kind = |bio: &Bio| bio.status().err().map(|fault| fault.kind);
        let barrier = done.iter().find(|bio| bio.token() == 4096).unwrap();
        assert_eq!(kind(barrier), Some(Kind::Gone));
        assert_eq!(done.iter().filter(|bio| kind(bio).is_none()).count(), 1, "{done:?}");
    }
    fake.set_full(false);
    device.read_at(&mut [0; 512], 0).unwrap();
    device.flush().unwrap();
}

/// The device had an elevator when the lane was opened; the lane's own channel is unavailable now.
#[test]
fn a_lane_that_cannot_open_its_own_channel_says_so() {
    for style in Style::ALL {
        let (fake, device) = Fake::open(Options { elevator: "deadline", ..Options::default() });
        let mut caller = style.caller(&device);
        assert_eq!(caller.write(0, aligned(4096)).0, Ok(()));
        device.set_elevator("none").unwrap();
        fake.set_full(true);
        let (result, memory) = caller.write(0, aligned(4096));
        assert_eq!(result.unwrap_err().kind, Kind::Gone, "{style:?}");
        assert!(memory.is_some(), "{style:?}");
        if style == Style::Synchronous {
            let text = device.write_at(&[1; 512], 0).unwrap_err().to_string();
            assert!(text.contains("limits on open files"), "{text}");
        }
        fake.set_full(false);
        assert_eq!(caller.write(0, aligned(4096)).0, Ok(()), "{style:?}");
    }
}

/// A trace sink that panics in the middle of a synchronous call: the device may be using the caller's memory,
/// so the process aborts. The test runs itself as another process to see that.
#[test]
fn a_panic_while_memory_is_lent_ends_the_process() {
    const CHILD: &str = "PLATTER_TEST_PANIC_IN_SINK";
    if std::env::var_os(CHILD).is_some() {
        let device = Device::ram(1 << 20).unwrap();
        device.backend().trace(Some(Arc::new(|| Box::new(Panics))));
        let _ = std::thread::spawn(move || device.write_at(&[1; 512], 0)).join();
        println!("still alive");
        return;
    }
    let name = "errors::a_panic_while_memory_is_lent_ends_the_process";
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!output.status.success() && !out.contains("still alive"), "{out}{err}");
    assert!(err.contains("a panic while the device uses borrowed memory; aborting"), "{err}");
}

struct Panics;

impl platter_block::trace::Sink for Panics {
    fn event(&mut self, _event: &platter_block::trace::Event) {
        panic!("a sink that panics");
    }
}
