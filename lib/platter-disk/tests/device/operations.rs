//! Durable writes, flushes, discards and zeroes by the calls that are named after them, on every kind of device.

use crate::fake::{Fake, Options, Seen};
use crate::kinds::{SIZE, elevators, make, on_files};
use crate::rig::{block_on, spawn};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::driver::Features;
use platter_block::fault::{Error, Kind};
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::future::Io;
use platter_disk::sync_io::IoOptions;

const STEP: u64 = 16 << 10;

/// Runs a test on a device of every kind, on files with few elevators: each flush of a file takes milliseconds.
fn on_each(test: impl Fn(&str, &Device)) {
    for elevator in elevators() {
        let ram = Device::ram_with(SIZE, DiskSettings::default(), make(elevator)).unwrap();
        test(&format!("ram {elevator}"), &ram);
    }
    on_files(&["none", "deadline"], |name, device, _| test(name, device));
}

fn contents(device: &Device, pos: u64) -> Vec<u8> {
    let mut found = vec![0xee; STEP as usize];
    device.read_at(&mut found, pos).unwrap();
    found
}

/// Sixteen blocks written with `byte`, of which those from block 4 to 7 and from 8 to 11 were zeroed.
fn expected(byte: u8) -> Vec<u8> {
    let mut all = vec![byte; STEP as usize];
    all[4096..12288].fill(0);
    all
}

async fn by_futures(device: &Device, pos: u64) -> Result<(), Error> {
    let (result, buffer) = device.write_durable(pos, vec![1u8; STEP as usize]).await;
    result?;
    assert_eq!(buffer.map(|buffer| buffer.len() as u64), Some(STEP), "the buffer comes back");
    device.start_discard(pos + 4096, 4096).await.0?;
    device.start_write_zeroes(pos + 8192, 4096).await.0?;
    device.start_flush_range(pos, STEP).await.0?;
    device.start_flush().await.0
}

fn by_calls(device: &Device, pos: u64) -> Result<(), Error> {
    device.write_durable_at(&[2; STEP as usize], pos)?;
    device.discard(pos + 4096, 4096)?;
    device.write_zeroes(pos + 8192, 4096)?;
    device.flush_range(pos, STEP)?;
    device.flush()
}

fn by_channel(device: &Device, pos: u64) {
    let mut channel = device.channel(1).unwrap();
    let mut durable = Bio::write(pos, vec![3u8; STEP as usize]).unwrap();
    durable.add_flags(Flags::FUA);
    let mut done = Vec::new();
    for bio in [durable, Bio::discard(pos + 4096, 4096), Bio::write_zeroes(pos + 8192, 4096), Bio::flush()] {
        assert!(channel.submit(bio).is_ok());
        while channel.outstanding() > 0 {
            channel.wait(&mut done, None);
        }
    }
    assert!(done.iter().all(|bio| bio.status().is_ok()));
}

#[test]
fn each_operation_has_a_call_of_each_style() {
    on_each(|name, device| {
        block_on(by_futures(device, 0)).unwrap();
        by_calls(device, STEP).unwrap();
        by_channel(device, 2 * STEP);
        let handle = device.handle();
        handle.write_durable_at(&[4; STEP as usize], 3 * STEP).unwrap();
        handle.discard(3 * STEP + 4096, 4096).unwrap();
        handle.write_zeroes(3 * STEP + 8192, 4096).unwrap();
        for place in 0..4u8 {
            let found = contents(device, u64::from(place) * STEP);
            assert!(found == expected(place + 1), "{name}, style {place}");
        }
    });
}

#[test]
fn ranges_are_checked_by_every_call() {
    on_each(|name, device| {
        let kind = |result: Result<(), Error>| result.err().map(|error| error.fault.kind);
        let out = Some(Kind::OutOfRange);
        let awaited = |future: Io<()>| kind(block_on(future).0);
        assert_eq!(awaited(device.start_discard(SIZE, 4096)), out, "{name}");
        assert_eq!(awaited(device.start_write_zeroes(SIZE - 4096, 8192)), out, "{name}");
        assert_eq!(awaited(device.start_flush_range(SIZE, 1)), out, "{name}");
        assert_eq!(awaited(device.start_flush_range(SIZE, 0)), None, "{name}: nothing to flush");
        assert_eq!(awaited(device.start_flush_range(0, 0)), None, "{name}: all of it");
        assert_eq!(kind(device.discard(SIZE, 4096)), out, "{name}");
        assert_eq!(kind(device.write_zeroes(SIZE - 4096, 8192)), out, "{name}");
        assert_eq!(kind(device.write_durable_at(&[0; 4096], SIZE)), out, "{name}");
    });
}

/// On a disk without durable writes a flush follows the data; on others the write itself is durable.
#[test]
fn a_durable_write_is_followed_by_a_flush_if_the_disk_needs_one() {
    for fua in [false, true] {
        for by_future in [false, true] {
            let features = Features::default().with_write_cache(true).with_fua(fua);
            let (fake, device) = Fake::open(Options { features, ..Options::default() });
            match by_future {
                true => block_on(device.write_durable(4096, vec![1u8; 512])).0.unwrap(),
                false => device.write_durable_at(&[1; 512], 4096).unwrap(),
            }
            let mut wanted = vec![Seen::Start(Op::Write, 4096), Seen::End(Op::Write, 4096)];
            if !fua {
                wanted.extend([Seen::Start(Op::Flush, 0), Seen::End(Op::Flush, 0)]);
            }
            assert_eq!(fake.seen(), wanted, "fua {fua}, by a future {by_future}");
        }
    }
}

/// The disk does not answer: each call ends at its own timeout.
#[test]
fn each_operation_may_have_a_timeout() {
    type Start = fn(&Device, IoOptions) -> Result<(), Error>;
    let calls: [(&str, Start); 7] = [
        ("flush_with", |device, options| device.flush_with(options)),
        ("discard_with", |device, options| device.discard_with(0, 4096, options)),
        ("write_zeroes_with", |device, options| device.write_zeroes_with(0, 4096, options)),
        ("start_flush_with", |device, options| block_on(device.start_flush_with(options)).0),
        ("start_discard_with", |device, options| block_on(device.start_discard_with(0, 4096, options)).0),
        ("start_write_zeroes_with", |device, options| {
            block_on(device.start_write_zeroes_with(0, 4096, options)).0
        }),
        ("a durable write", |device, options| {
            let options = options.with_flags(Flags::FUA);
            block_on(device.write_with(0, vec![1u8; 512], options)).0
        }),
    ];
    for elevator in ["none", "deadline"] {
        for (name, call) in calls {
            let (fake, device) = Fake::open(Options { elevator, ..Options::default() });
            fake.hold();
            // Not dropped in the task: closing a device waits for its disk.
            let other = device.clone();
            let task = spawn(move || call(&other, IoOptions::timeout(Span::from_millis(20))));
            let result = task.result(&format!("{name}, {elevator}"));
            assert_eq!(result.unwrap_err().fault.kind, Kind::TimedOut, "{name}, {elevator}");
            fake.release();
        }
    }
}
