//! Random lives of a disk beside a model of what it holds.

use crate::guest::{FLUSH, Guest, IN, OUT, SLOTS};
use crate::rig::Rig;
use platter_block::bio::Op;
use platter_block::fault::Fault;
use platter_block::time::Time;
use platter_disk::device::Device;
use platter_disk::open::DiskOptions;
use platter_stack::filter::{BioView, Filter, Filtered};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SECTORS: u64 = 2048;

/// Fails every seventh write and every eleventh read.
#[derive(Clone, Default)]
struct Failing {
    reads: Arc<AtomicU64>,
    writes: Arc<AtomicU64>,
}

impl Filter for Failing {
    fn start(&mut self, now: Time, _slot: usize, bio: &mut BioView<'_>) -> Result<Time, Fault> {
        let (count, every) = match bio.op() {
            Op::Read => (&self.reads, 11),
            Op::Write => (&self.writes, 7),
            _ => return Ok(now),
        };
        let count = count.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_multiple_of(every) { Err(Fault::from_errno(5)) } else { Ok(now) }
    }
}

/// What each sector may hold; several values after a write that failed.
struct Model(Vec<Vec<u8>>);

impl Model {
    fn write(&mut self, sector: u64, count: u64, value: u8, status: u8) {
        for one in &mut self.0[sector as usize..(sector + count) as usize] {
            if status == 0 {
                one.clear();
            }
            one.push(value);
        }
    }

    fn check(&self, sector: u64, data: &[u8]) {
        for (at, part) in (sector..).zip(data.chunks(512)) {
            let known = &self.0[at as usize];
            assert!(known.contains(&part[0]), "sector {at} holds {} and not one of {known:?}", part[0]);
            assert!(part.iter().all(|byte| *byte == part[0]), "sector {at} is torn");
        }
    }
}

/// Runs one life: requests of several queues at once, none of which overlap while they run.
fn live(guest: &mut Guest, seed: u64, turns: u32, fails: bool) -> u32 {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut below = |most: u64| rng.next_u64() % most;
    let mut model = Model(vec![vec![0]; SECTORS as usize]);
    let queues = guest.queues.len() as u64;
    let (mut refused, mut value) = (0, 0u8);
    for _ in 0..turns {
        let mut busy = HashMap::new();
        let mut taken = vec![false; SECTORS as usize];
        for _ in 0..1 + below(u64::from(SLOTS) / 2) {
            let (queue, count) = (below(queues) as usize, 1 + below(16));
            let sector = below(SECTORS - count);
            let range = sector as usize..(sector + count) as usize;
            if taken[range.clone()].iter().any(|taken| *taken) {
                continue;
            }
            taken[range].fill(true);
            let (kind, len) = ([IN, OUT, OUT, FLUSH][below(4) as usize], count as usize * 512);
            value = value.wrapping_add(1);
            let data = if kind == OUT { vec![value; len] } else { Vec::new() };
            let len = if kind == FLUSH { 0 } else { len };
            let slot = guest.submit(queue, kind, sector, &data, len, below(len as u64 + 1) as usize);
            busy.insert((queue, slot), (kind, sector, count, value));
        }
        (0..queues as usize).for_each(|queue| guest.kick_always(queue));
        while let Some(&(queue, _)) = busy.keys().next() {
            let (slot, (status, data)) = guest.wait(queue);
            let (kind, sector, count, value) =
                busy.remove(&(queue, slot)).expect("a request that is in flight");
            assert!(status == 0 || fails, "seed {seed}: status {status}");
            refused += u32::from(status != 0);
            match (kind, status) {
                (IN, 0) => model.check(sector, &data),
                (OUT, _) => model.write(sector, count, value, status),
                _ => {}
            }
        }
    }
    refused
}

#[test]
fn random_lives_match_the_model() {
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for seed in 0..4 {
        file.as_file().set_len(0).unwrap();
        file.as_file().set_len(SECTORS * 512).unwrap();
        let disk = Device::open(file.path(), DiskOptions::read_write()).unwrap();
        let ram = Device::ram(SECTORS * 512).unwrap();
        for device in [disk, ram] {
            let rig = Rig::of(device);
            let mut guest =
                rig.guest_with(1 + seed as usize, if seed % 2 == 0 { u64::MAX } else { !(1 << 29) });
            assert_eq!(live(&mut guest, seed, 60, false), 0);
        }
    }
}

/// A disk that fails some requests.
fn failing() -> Device {
    let ram = Device::ram(SECTORS * 512).unwrap();
    Device::new(Arc::new(Filtered::new("failing", "", Arc::clone(ram.backend()), Failing::default())))
}

#[test]
fn errors_of_the_disk_reach_the_guest() {
    let rig = Rig::of(failing());
    let refused = live(&mut rig.guest(2), 5, 60, true);
    assert!(refused > 20, "{refused}");
    rig.await_event("further errors are only counted");
}
