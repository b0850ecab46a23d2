//! Memory and offsets without the device's alignment: what is copied, what the disk gets, and what a caller may see.
//! (The disk of these tests checks each request's segments.)

use crate::callers::Style;
use crate::fake::{Fake, Options, SIZE};
use crate::kinds::elevators;
use crate::memory::{bytes, fill, part};
use platter_block::fault::Kind;
use platter_block::limits::Limits;
use platter_disk::device::Device;

/// Addresses as a disk with a simple controller accepts them; lengths are multiples of the block.
fn picky(elevator: &'static str, size: u64) -> Device {
    let limits = Limits::unlimited(512).with_memory_align(4).with_length_align(512).with_max_transfer(8192);
    Fake::open(Options { elevator, limits, size, ..Options::default() }).1
}

#[test]
fn lengths_of_segments_follow_the_block_and_addresses_do_not() {
    for elevator in elevators() {
        let device = picky(elevator, SIZE);
        for style in Style::ALL {
            let mut caller = style.caller(&device);
            for (lengths, offset, bounced) in
                [(&[4096][..], 4, 0), (&[512, 1024, 2560], 8, 0), (&[100, 3996], 0, 4096), (&[4096], 2, 4096)]
            {
                let before = device.counters();
                let memory = || lengths.iter().map(|&len| part(len, offset)).collect();
                let mut written = memory();
                fill(&mut written, |at| (at * 7) as u8);
                let expected = bytes(&written);
                assert_eq!(caller.write(8192, written).0, Ok(()), "{elevator} {style:?} {lengths:?}");
                let (result, read) = caller.read(8192, memory());
                assert_eq!(result, Ok(()), "{elevator} {style:?} {lengths:?}");
                assert!(bytes(&read.unwrap()) == expected, "{elevator} {style:?} {lengths:?}");
                let copied = device.counters().since(&before).bytes_bounced;
                assert_eq!(copied, 2 * bounced, "{elevator} {style:?} {lengths:?} at {offset}");
            }
        }
    }
}

/// A transfer that includes the partial block at the end of the device, needs several requests, and uses misaligned
/// memory.
#[test]
fn the_odd_end_of_a_device_is_split_and_copied_like_the_rest() {
    let size = 20 * 4096 + 100;
    for elevator in elevators() {
        let device = picky(elevator, size);
        for (round, style) in Style::ALL.into_iter().enumerate() {
            let mut caller = style.caller(&device);
            for (offset, lengths) in
                [(1, vec![size as usize]), (3, vec![1000, 30_000, size as usize - 31_000])]
            {
                let memory = || lengths.iter().map(|&len| part(len, offset)).collect();
                let mut written = memory();
                fill(&mut written, |at| (at * 31 % 251) as u8 ^ (round as u8) << 3 ^ offset as u8);
                let expected = bytes(&written);
                assert_eq!(caller.write(0, written).0, Ok(()), "{elevator} {style:?}");
                let (result, read) = caller.read(0, memory());
                assert_eq!(result, Ok(()), "{elevator} {style:?}");
                assert!(bytes(&read.unwrap()) == expected, "{elevator} {style:?}");
                // Only the end of it, up to the partial block.
                let (result, read) = caller.read(size - 612, vec![part(612, offset)]);
                assert_eq!(result, Ok(()), "{elevator} {style:?}");
                assert!(bytes(&read.unwrap()) == expected[size as usize - 612..], "{elevator} {style:?}");
            }
        }
    }
}

/// On a disk that completes reads without touching memory, no data of another I/O is visible, nor the earlier
/// contents of bounce memory.
#[test]
fn copies_show_no_bytes_of_others() {
    let device = Device::null(SIZE).unwrap();
    for style in Style::ALL {
        let mut caller = style.caller(&device);
        // Often enough that memory is reused.
        for _ in 0..4 {
            let mut secret = vec![part(4096, 1)];
            fill(&mut secret, |_| 0x53);
            assert_eq!(caller.write(0, secret).0, Ok(()));
            if style == Style::Synchronous {
                device.write_at(&[0x53; 3000], 100).unwrap();
                let mut inside = [0; 3000];
                device.read_at(&mut inside, 8292).unwrap();
                assert_eq!(inside, [0; 3000]);
            }
            let (result, mine) = caller.read(8192, vec![part(4096, 1)]);
            assert_eq!((result, bytes(&mine.unwrap())), (Ok(()), vec![0; 4096]), "{style:?}");
        }
    }
}

/// Large calls are copied in pieces.
#[test]
fn calls_of_any_size_may_begin_anywhere() {
    const LARGE: usize = (65 << 20) + 77;
    let device = Device::ram(80 << 20).unwrap();
    let data: Vec<u8> = (0..LARGE).map(|at| (at * 31 % 253) as u8).collect();
    device.write_at(&data, 4097).unwrap();
    let mut back = vec![0; LARGE];
    device.read_at(&mut back, 4097).unwrap();
    assert!(back == data);
    let mut around = [9; 100];
    device.read_at(&mut around, 4000).unwrap();
    assert!(around[..97].iter().all(|byte| *byte == 0) && around[97..] == data[..3]);
    device.read_at(&mut around, 4097 + LARGE as u64 - 3).unwrap();
    assert!(around[..3] == data[LARGE - 3..] && around[3..].iter().all(|byte| *byte == 0));
    // Misaligned memory of this size, on a disk that requires alignment.
    let (disk, length) =
        (Fake::open(Options { size: 64 << 20, limits: aligned_limits(), ..Options::default() }).1, 20 << 20);
    let mut memory = vec![part(length, 1)];
    fill(&mut memory, |at| (at * 13 % 241) as u8);
    disk.write_at(&memory[0], 512).unwrap();
    let mut read = vec![part(length, 3)];
    disk.read_at(&mut read[0], 512).unwrap();
    assert!(bytes(&read) == bytes(&memory));
    assert_eq!(disk.counters().bytes_bounced, 2 * length as u64);
}

fn aligned_limits() -> Limits {
    Limits::unlimited(512).with_memory_align(512).with_length_align(512)
}

/// At the end of the largest possible device, nothing overflows.
#[test]
fn the_end_of_the_largest_device() {
    let device = Device::null(u64::MAX).unwrap();
    device.read_at(&mut [0; 100], u64::MAX - 100).unwrap();
    device.write_at(&[0; 100], u64::MAX - 700).unwrap();
    let past = device.read_at(&mut [0; 100], u64::MAX - 99).unwrap_err();
    assert_eq!(past.fault.kind, Kind::OutOfRange);
}
