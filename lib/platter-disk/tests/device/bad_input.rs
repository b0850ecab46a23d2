//! Errors of impossible requests name the possible values.

use crate::callers::Style;
use crate::fake::{Fake, Options};
use crate::kinds::{SIZE, file, on_all, on_files};
use crate::memory::{aligned, part};
use platter_block::bio::{Bio, MAX_SEGMENTS, Op};
use platter_block::driver::Features;
use platter_block::fault::Kind;
use platter_block::limits::Limits;
use platter_disk::device::Device;
use platter_disk::open::DiskOptions;
use std::io::IoSliceMut;

#[test]
fn bad_ranges_are_refused_alike() {
    on_all(|name, device| {
        let before = device.counters();
        for style in Style::ALL {
            let mut caller = style.caller(device);
            for op in [Op::Read, Op::Write] {
                let mut kind = |pos, len| {
                    let (result, memory) = caller.transfer(op, pos, aligned(len), Default::default());
                    assert!(memory.is_some(), "{name} {style:?}: the buffer comes back");
                    result.unwrap_err().kind
                };
                assert_eq!(kind(0, 0), Kind::ZeroLength, "{name} {style:?} {op}");
                assert_eq!(kind(SIZE, 4096), Kind::OutOfRange, "{name} {style:?} {op}");
                assert_eq!(kind(SIZE - 4096, 8192), Kind::OutOfRange, "{name} {style:?} {op}");
                assert_eq!(kind(u64::MAX - 4095, 4096), Kind::OutOfRange, "{name} {style:?} {op}");
                assert_eq!(kind(u64::MAX, 4096), Kind::OutOfRange, "{name} {style:?} {op}");
            }
            for op in [Op::Discard, Op::WriteZeroes] {
                let mut kind = |pos, len| caller.operate(op, pos, len).unwrap_err().kind;
                assert_eq!(kind(0, 0), Kind::ZeroLength, "{name} {style:?} {op}");
                assert_eq!(kind(SIZE - 4096, 8192), Kind::OutOfRange, "{name} {style:?} {op}");
                assert_eq!(kind(1 << 63, 1 << 63), Kind::OutOfRange, "{name} {style:?} {op}");
                assert_eq!(kind(1, 4096), Kind::Misaligned, "{name} {style:?} {op}");
            }
        }
        assert_eq!(device.counters().since(&before).dispatches, 0, "{name}: none of it came to the disk");
        let text = device.read_at(&mut [0; 512], SIZE).unwrap_err().to_string();
        assert!(text.contains("read of 512 bytes at 1048576: past the end"), "{text}");
        assert!(text.contains("the device has 1048576 bytes"), "{text}");
    });
}

/// Only synchronous calls accept ranges off the block: the errors of other calls name the block size.
#[test]
fn ranges_off_the_block_are_refused_where_they_are_not_bounced() {
    on_all(|name, device| {
        for style in [Style::Futures, Style::Polled] {
            let mut caller = style.caller(device);
            let block = device.geometry().limits.logical_block as usize;
            for (pos, len) in [(1, block), (0, block - 1), (100, 100)] {
                let (result, memory) = caller.write(pos, aligned(len));
                assert_eq!(result.unwrap_err().kind, Kind::Misaligned, "{name} {style:?}");
                assert!(memory.is_some(), "{name}");
            }
        }
    });
}

fn demanding(bounce: bool) -> Device {
    let limits = Limits::unlimited(4096).with_memory_align(512).with_length_align(512);
    Fake::open(Options { limits, bounce, ..Options::default() }).1
}

#[test]
fn without_bouncing_misalignment_is_an_error_that_says_what_is_required() {
    let device = demanding(false);
    for style in Style::ALL {
        let mut caller = style.caller(&device);
        let kind = |(result, _): (Result<(), platter_block::fault::Fault>, _)| result.unwrap_err().kind;
        assert_eq!(kind(caller.read(4096, vec![part(4096, 1)])), Kind::Misaligned, "{style:?}");
        assert_eq!(
            kind(caller.write(4096, vec![part(100, 0), part(3996, 0)])),
            Kind::Misaligned,
            "{style:?}"
        );
        assert_eq!(kind(caller.write(1, vec![part(4096, 0)])), Kind::Misaligned, "{style:?}");
        assert_eq!(kind(caller.read(4096, vec![part(512, 0)])), Kind::Misaligned, "{style:?}");
        assert_eq!(caller.read(4096, aligned(4096)).0, Ok(()), "{style:?}");
    }
    assert_eq!(device.counters().bytes_bounced, 0);
    let text = device.write_at(&part(4096, 1), 0).unwrap_err().to_string();
    let needs = "multiples of 4096, memory addresses of 512, lengths of buffers of 512";
    assert!(text.contains(needs), "{text}");
    // The same where it is allowed.
    let device = demanding(true);
    device.write_at(&part(4096, 1), 0).unwrap();
    device.write_at(&part(512, 0), 512).unwrap();
    assert_eq!(device.counters().bytes_bounced, 4096 + 512);
}

#[test]
fn segments_that_do_not_add_up_are_refused() {
    on_all(|name, device| {
        for style in [Style::Futures, Style::Polled] {
            let mut caller = style.caller(device);
            for op in [Op::Read, Op::Write] {
                let none = caller.submit(Bio::new(op, 0, 4096)).0;
                assert_eq!(none.unwrap_err().kind, Kind::BadSegments, "{name} {style:?}");
            }
            let mut longer = Bio::read(0, vec![part(4096, 0), part(4096, 0)]).unwrap();
            longer.rewind(0, 12288);
            assert_eq!(caller.submit(longer).0.unwrap_err().kind, Kind::BadSegments, "{name} {style:?}");
            let mut longer = Bio::write(0, vec![part(4096, 1)]).unwrap();
            longer.rewind(0, 8192);
            assert_eq!(caller.submit(longer).0.unwrap_err().kind, Kind::BadSegments, "{name} {style:?}");
        }
    });
}

#[test]
fn more_segments_than_a_bio_has_are_refused() {
    let device = Device::ram(SIZE).unwrap();
    let mut memory = vec![[0u8; 512]; MAX_SEGMENTS + 1];
    let mut parts: Vec<_> = memory.iter_mut().map(|part| IoSliceMut::new(part)).collect();
    let error = device.read_vectored_at(&mut parts, 0).unwrap_err();
    assert_eq!(error.fault.kind, Kind::BadSegments);
    assert!(error.to_string().contains("at most 1024"), "{error}");
    device.read_vectored_at(&mut parts[1..], 0).unwrap();
    assert!(Bio::read(0, vec![vec![0u8; 1]; MAX_SEGMENTS + 1]).is_err());
}

#[test]
fn a_read_only_device_is_not_written() {
    let file = file(SIZE);
    let opened = Device::open(file.path(), DiskOptions::default()).unwrap();
    let features = Features::default().with_read_only(true);
    let fake = Fake::open(Options { features, ..Options::default() }).1;
    for device in [opened, fake] {
        for style in Style::ALL {
            let mut caller = style.caller(&device);
            assert_eq!(caller.read(0, aligned(4096)).0, Ok(()));
            assert_eq!(caller.write(0, aligned(4096)).0.unwrap_err().kind, Kind::ReadOnly);
            for op in [Op::Discard, Op::WriteZeroes] {
                assert_eq!(caller.operate(op, 0, 4096).unwrap_err().kind, Kind::ReadOnly);
            }
            // There may be something to flush from before.
            assert_eq!(caller.operate(Op::Flush, 0, 0), Ok(()));
        }
        // Also if blocks would have to be read first.
        let error = device.write_at(&[1; 10], 5).unwrap_err();
        assert_eq!(error.fault.kind, Kind::ReadOnly);
        assert!(error.to_string().contains("open the device for writing"), "{error}");
    }
}

#[test]
fn what_a_device_cannot_do_is_unsupported_or_done_otherwise() {
    let limits = Limits::unlimited(512).with_discard_granularity(0).with_write_zeroes(false);
    let device = Fake::open(Options { limits, ..Options::default() }).1;
    for style in Style::ALL {
        let mut caller = style.caller(&device);
        device.write_at(&[7; 12288], 0).unwrap();
        assert_eq!(caller.operate(Op::Discard, 0, 4096).unwrap_err().kind, Kind::Unsupported, "{style:?}");
        assert_eq!(caller.operate(Op::WriteZeroes, 4096, 4096), Ok(()), "{style:?}");
        let mut bytes = [1; 12288];
        device.read_at(&mut bytes, 0).unwrap();
        let expected = [[7; 4096], [0; 4096], [7; 4096]].concat();
        assert!(bytes[..] == expected[..], "{style:?}");
    }
}

#[test]
fn absurd_options_are_refused() {
    let device = Device::ram(SIZE).unwrap();
    for bios in [0, usize::MAX] {
        let text = device.channel(bios).err().unwrap().to_string();
        assert!(
            text.contains(&format!("a channel for {bios} bios is impossible; the number must be 1 to 65536")),
            "{text}"
        );
    }
    let text = device.set_elevator("paternoster").unwrap_err().to_string();
    assert!(
        text.contains("unknown elevator \"paternoster\"; expected one of: none, noop, deadline"),
        "{text}"
    );
    assert!(Device::ram(0).is_err() && Device::ram(u64::MAX).is_err());
}

/// A transfer that fails before it reaches the disk leaves the lane and the device unchanged.
#[test]
fn a_refused_transfer_leaves_no_trace() {
    on_files(&["none"], |name, device, _| {
        for style in Style::ALL {
            let mut caller = style.caller(device);
            for _ in 0..300 {
                assert!(caller.read(SIZE, aligned(4096)).0.is_err(), "{name}");
            }
            assert_eq!(caller.read(0, aligned(4096)).0, Ok(()), "{name}");
        }
        let counters = device.counters();
        assert_eq!(counters.bios, counters.bios_completed, "{name}");
        assert_eq!(counters.bios_failed, 900, "{name}");
    });
}
