//! A verified random life on disks of the system, whose contents are lost: those named in `PLATTER_TEST_DEVICES`, as
//! `sg:/dev/sg1,nvme:/dev/ng0n1`. Without it there is nothing to test here. `scripts/check-devices` runs it in a machine with
//! such disks.
#![cfg(all(feature = "sg", feature = "nvme-disk"))]

use platter_block::command::{Command, CommandSet, Reach, Transfer};
use platter_block::disk::Disk;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::sync_io::{CommandData, IoOptions};
use platter_remote::nvme::{NvmeDisk, NvmeOptions};
use platter_remote::sg::{SgDisk, SgOptions};
use std::io::{IoSlice, IoSliceMut};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Bytes at the beginning of each disk that are used.
const SPAN: usize = 6 << 20;
const STEPS: u32 = 300;

fn device(kind: &str, path: &str) -> Device {
    let disk: Box<dyn FnOnce() -> Device> = match kind {
        "sg" => {
            let disk = SgDisk::open(Path::new(path), SgOptions::default().with_write(true)).unwrap();
            Box::new(|| over(disk))
        }
        "nvme" | "nvme-threads" => {
            let options = NvmeOptions::default().with_write(true).with_rings(kind == "nvme");
            let disk = NvmeDisk::open(Path::new(path), options).unwrap();
            Box::new(|| over(disk))
        }
        _ => panic!("{kind}: sg, nvme or nvme-threads"),
    };
    disk()
}

fn over(disk: impl Disk + 'static) -> Device {
    for (name, value) in disk.facts() {
        println!("  {name}: {value}");
    }
    Device::from_disk(disk, DiskSettings::default(), None).unwrap()
}

/// Numbers that are the same in each run (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % below
    }
}

/// One thread's life in the range of `truth` from `base` on.
fn live(device: &Device, base: u64, truth: &mut [u8], seed: u64) {
    let (limits, mut numbers) = (device.geometry().limits, Numbers(seed));
    let block = u64::from(limits.logical_block);
    let blocks = truth.len() as u64 / block;
    // Longer than a command that writes zeroes may be.
    device.write_at(&vec![0xaa; truth.len()], base).unwrap();
    device.write_zeroes(base, truth.len() as u64).unwrap();
    device.read_at(truth, base).unwrap();
    assert!(truth.iter().all(|byte| *byte == 0), "zeroes of {} at {base}", truth.len());
    for step in 0..STEPS {
        let first = numbers.next(blocks);
        let most = (blocks - first).min(if step % 16 == 0 { blocks } else { 64 });
        let count = 1 + numbers.next(most);
        let (at, len) = ((first * block) as usize, (count * block) as usize);
        let (pos, range) = (base + at as u64, at..at + len);
        // Misaligned by 0 to 4 bytes.
        let shift = numbers.next(5) as usize;
        let mut memory = vec![0xee; len + shift];
        match numbers.next(8) {
            0..=1 => {
                device.read_at(&mut memory[shift..], pos).unwrap();
                assert!(memory[shift..] == truth[range], "step {step}: read of {len} at {pos}");
            }
            2 => {
                let (a, b) = memory[shift..].split_at_mut((len / 2).next_multiple_of(512).min(len));
                let mut pieces = [IoSliceMut::new(a), IoSliceMut::new(b)];
                device.read_vectored_at(&mut pieces, pos).unwrap();
                assert!(memory[shift..] == truth[range], "step {step}: read of {len} in two at {pos}");
            }
            kind @ 3..=5 => {
                memory[shift..].fill_with(|| numbers.next(256) as u8);
                let data = &memory[shift..];
                if kind == 5 {
                    let (a, b) = data.split_at((len / 2).next_multiple_of(512).min(len));
                    device.write_vectored_at(&[IoSlice::new(a), IoSlice::new(b)], pos).unwrap();
                } else {
                    let flags = platter_block::bio::Flags::FUA;
                    let options = IoOptions::default();
                    let options = if kind == 4 { options.with_flags(flags) } else { options };
                    device.write_at_with(data, pos, options).unwrap();
                }
                truth[range].copy_from_slice(data);
            }
            6 => {
                device.write_zeroes(pos, len as u64).unwrap();
                truth[range].fill(0);
            }
            _ => {
                device.flush().unwrap();
                if limits.discard_granularity > 0 {
                    device.discard(pos, len as u64).unwrap();
                    // What a discarded range reads is not promised: it is written.
                    device.write_zeroes(pos, len as u64).unwrap();
                    truth[range].fill(0);
                }
            }
        }
    }
    let mut all = vec![0; truth.len()];
    device.read_at(&mut all, base).unwrap();
    assert!(all == truth, "the whole range at the end");
}

/// An own command of the disk, and one that it does not know.
fn command(device: &Device) {
    let sets = device.geometry().features.commands;
    let mut data = [0u8; 4096];
    let (good, bad) = if sets.contains(CommandSet::Scsi) {
        let inquiry = Command::new(CommandSet::Scsi, &[0x12, 0, 0, 0x10, 0, 0]).unwrap();
        (inquiry, Command::new(CommandSet::Scsi, &[0xc5; 10]).unwrap())
    } else {
        assert!(sets.contains(CommandSet::NvmeAdmin));
        let mut entry = [0; 64];
        (entry[0], entry[40]) = (0x06, 1);
        let identify = Command::new(CommandSet::NvmeAdmin, &entry).unwrap();
        let mut entry = [0; 64];
        (entry[0], entry[4]) = (0xc4, 1);
        (identify, Command::new(CommandSet::Nvme, &entry).unwrap())
    };
    let good = Arc::new(good.with_transfer(Transfer::FromDevice).with_reach(Reach::Nothing));
    let outcome = device.command(&good, CommandData::FromDevice(&mut data), IoOptions::default()).unwrap();
    assert!(outcome.is_good() && data.iter().any(|byte| *byte != 0), "{outcome:?}");
    let bad = Arc::new(bad.with_reach(Reach::Nothing));
    let error = device.command(&bad, CommandData::None, IoOptions::default()).unwrap_err();
    let outcome = bad.outcome().unwrap_or_else(|| panic!("no answer: {error}"));
    assert!(!outcome.is_good());
    println!("  an unknown command: {error}");
}

/// Reads with futures, whose threads do not wait for them.
fn futures(device: &Device, truth: &[u8]) {
    let started: Vec<_> = (0..32).map(|n| (n, device.read(n * 65536, vec![0u8; 65536]))).collect();
    for (n, read) in started {
        let (result, data) = finish(read);
        result.unwrap();
        assert!(data.unwrap()[..] == truth[n as usize * 65536..][..65536]);
    }
}

/// Runs a future to its end.
fn finish<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn a_random_life_on_disks_of_the_system() {
    let Ok(devices) = std::env::var("PLATTER_TEST_DEVICES") else {
        println!("skipped: PLATTER_TEST_DEVICES names no disks");
        return;
    };
    for (kind, path) in devices.split(',').map(|device| device.split_once(':').unwrap()) {
        println!("{kind} {path}");
        let device = device(kind, path);
        let mut truth = vec![0; SPAN];
        device.write_at(&truth, 0).unwrap();
        command(&device);
        thread::scope(|scope| {
            for (n, part) in truth.chunks_mut(SPAN / 3).enumerate() {
                let device = &device;
                scope.spawn(move || live(device, (n * (SPAN / 3)) as u64, part, n as u64));
            }
        });
        futures(&device, &truth);
    }
}
