//! What each export promises: the contract of devices, as a client sees it.

use crate::stacks::{SIZE, on_all, open};
use crate::ways::{all, served};
use platter_block::bio::{Flags, Op};
use platter_block::fault::Fault;
use platter_block::time::Time;
use platter_disk::device::Device;
use platter_stack::filter::{BioView, Filter, Filtered};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn what_one_client_has_written_another_reads() {
    on_all(|name, way, device| {
        let (mut one, mut other) = (way.connect(), way.connect());
        assert_eq!((one.size(), other.size()), (SIZE, SIZE), "{name}");
        for (number, (pos, len)) in
            [(0, 512), (512, 1024), (SIZE - 512, 512), (65_536 - 512, 1024), (4096, 1_100_288)]
                .into_iter()
                .enumerate()
        {
            let data: Vec<u8> = (0..len).map(|at| (at / 511) as u8 ^ number as u8).collect();
            let written = one.write(pos, &data, number % 2 == 1);
            written.unwrap_or_else(|error| panic!("{name}: {len} at {pos}: {error}"));
            let mut found = vec![0xee; len];
            other.read(pos, &mut found).unwrap();
            assert!(found == data, "{name}: {len} at {pos}");
            device.read_at(&mut found, pos).unwrap();
            assert!(found == data, "{name}: {len} at {pos}, below the export");
        }
        other.flush().unwrap();
    });
}

#[test]
fn zeroes_are_read_where_they_were_written_and_holes_read_as_zeroes() {
    on_all(|name, way, _| {
        let mut client = way.connect();
        client.write(0, &vec![7; SIZE as usize], false).unwrap();
        for (pos, len) in [(0, 512), (512 * 9, 65_536), (1 << 20, 512 << 10)] {
            let cleared = client.write_zeroes(pos, len);
            cleared.unwrap_or_else(|error| panic!("{name}: {len} at {pos}: {error}"));
            let mut found = vec![1; len as usize];
            client.read(pos, &mut found).unwrap();
            assert!(found.iter().all(|byte| *byte == 0), "{name}: {len} at {pos}");
        }
        let mut at = 512;
        client.read(at, &mut [0; 512]).unwrap();
        if let Some(result) = client.discard(1 << 20, 65_536) {
            result.unwrap();
        }
        let mut all = vec![0; SIZE as usize];
        client.read(0, &mut all).unwrap();
        at = 0;
        while at < SIZE {
            let Some((len, hole)) = client.extent(at, SIZE - at) else { return };
            assert!(len > 0 && at + len <= SIZE, "{name}: {len} at {at}");
            let range = &all[at as usize..(at + len) as usize];
            assert!(!hole || range.iter().all(|byte| *byte == 0), "{name}: data in a hole of {len} at {at}");
            at += len;
        }
    });
}

#[test]
fn nothing_is_beyond_the_end() {
    on_all(|name, way, _| {
        let mut client = way.connect();
        assert!(client.write(SIZE, &[1; 512], false).is_err(), "{name}");
        assert!(client.read(SIZE, &mut [1; 512]).is_err(), "{name}");
        assert!(client.write_zeroes(SIZE, 512).is_err(), "{name}");
        client.write(SIZE - 512, &[1; 512], false).unwrap();
    });
}

/// What nothing has made durable: writes since the last flush, and how many flushes came.
#[derive(Clone, Default)]
struct Volatile {
    writes: Arc<AtomicU64>,
    flushes: Arc<AtomicU64>,
}

impl Filter for Volatile {
    fn start(&mut self, now: Time, _slot: usize, bio: &mut BioView<'_>) -> Result<Time, Fault> {
        match bio.op() {
            Op::Flush => {
                self.flushes.fetch_add(1, Ordering::Relaxed);
                self.writes.store(0, Ordering::Relaxed);
            }
            Op::Write if !bio.flags().contains(Flags::FUA) => {
                self.writes.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        Ok(now)
    }
}

#[test]
fn a_flush_covers_all_clients_and_a_durable_write_itself() {
    for (kind, start) in all() {
        let volatile = Volatile::default();
        let ram = Device::ram(SIZE).unwrap();
        let layer = Filtered::new("volatile", "", Arc::clone(ram.backend()), volatile.clone());
        // Its geometry says so, or nothing would be flushed.
        let Some(way) = start(served(Device::new(Arc::new(layer)))) else { continue };
        let (mut one, mut other) = (way.connect(), way.connect());
        let count = || volatile.writes.load(Ordering::Relaxed);
        one.write(0, &[1; 4096], true).unwrap();
        assert_eq!(count(), 0, "{kind}");
        one.write(0, &[1; 4096], false).unwrap();
        assert_eq!(count(), 1, "{kind}");
        other.flush().unwrap();
        assert_eq!(count(), 0, "{kind}");
        let before = volatile.flushes.load(Ordering::Relaxed);
        one.flush().unwrap();
        assert!(
            volatile.flushes.load(Ordering::Relaxed) > before,
            "{kind}: it may cover what others have written"
        );
    }
}

#[test]
fn an_error_fails_the_request_that_has_it_and_no_later_one() {
    for (kind, start) in all() {
        for op in ["read", "write", "flush", "write-zeroes"] {
            let folder = tempfile::tempdir().unwrap();
            let spec = format!("error(op={op}, offset=64K, length=64K, times=1, ram(2M))");
            let Some(way) = start(served(open(&spec, folder.path()))) else { continue };
            let (mut one, mut other) = (way.connect(), way.connect());
            // Only who was there when a flush failed is told of it.
            other.write(0, &[1; 512], false).unwrap();
            let mut run = |at: u64| match op {
                "read" => one.read(at, &mut [0; 4096]),
                "write" => one.write(at, &[1; 4096], false),
                "flush" => one.flush(),
                _ => one.write_zeroes(at, 4096),
            };
            if op != "flush" {
                run(0).unwrap();
            }
            let Err(error) = run(65_536) else { panic!("{kind} {op}: no error") };
            assert_eq!(error.raw_os_error(), Some(5), "{kind} {op}: {error}");
            run(65_536).unwrap();
            other.write(65_536, &[1; 512], false).unwrap();
            // Writes of the other one may be lost with a flush: a client of its own is told once.
            let told = op == "flush" && ["nbd", "iscsi"].contains(&kind);
            assert_eq!(other.flush().is_err(), told, "{kind} {op}");
            other.flush().unwrap();
        }
    }
}

#[test]
fn a_device_that_grows_is_larger_for_new_clients() {
    for (kind, start) in all() {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let device = open("DISK", folder.path());
        let Some(way) = start(served(device.clone())) else { continue };
        if !way.grows() {
            continue;
        }
        let mut old = way.connect();
        let file = std::fs::OpenOptions::new().write(true).open(folder.path().join("disk")).unwrap();
        file.set_len(SIZE + 65_536).unwrap();
        device.refresh().unwrap();
        let mut new = way.connect();
        assert_eq!(new.size(), SIZE + 65_536, "{kind}");
        new.write(SIZE, &[5; 65_536], true).unwrap();
        new.read(SIZE + 4096, &mut [0; 4096]).unwrap();
        old.write(SIZE - 512, &[5; 512], false).unwrap();
        old.flush().unwrap();
    }
}
