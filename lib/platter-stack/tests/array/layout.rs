//! Data written through an array is where an independent mapping expects it, and is read back.

use crate::rig::{array, backends, rams};
use platter_disk::device::Device;
use platter_stack::concat;
use platter_stack::raid0::{self, Sizes};
use proptest::prelude::*;

/// Member and offset of each chunk of an array, dealt out one by one: each round gives a chunk to every
/// member that has one left.
fn deal(chunk: u64, sizes: &[u64]) -> Vec<(usize, u64)> {
    let mut places = Vec::new();
    for round in 0.. {
        let before = places.len();
        for (member, size) in sizes.iter().enumerate() {
            if (round + 1) * chunk <= *size {
                places.push((member, round * chunk));
            }
        }
        if places.len() == before {
            return places;
        }
    }
    places
}

/// The bytes of an array, read member by member.
fn gather(chunk: u64, disks: &[Device], sizes: &[u64]) -> Vec<u8> {
    let mut all = Vec::new();
    for (member, at) in deal(chunk, sizes) {
        let mut piece = vec![0; chunk as usize];
        disks[member].read_at(&mut piece, at).unwrap();
        all.extend(piece);
    }
    all
}

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(seed * 2 + 1) >> 7) as u8 ^ at as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn chunks_are_dealt_out_in_turn(
        shift in 9u32..15,
        blocks in prop::collection::vec(8u64..200, 1..7),
        requests in prop::collection::vec((any::<u32>(), 1u32..400, any::<u8>()), 1..20),
    ) {
        let chunk = 1u64 << shift;
        let sizes: Vec<u64> = blocks.iter().map(|n| chunk + n * 512).collect();
        let (disks, array) = array(chunk, &sizes);
        let total = deal(chunk, &sizes).len() as u64 * chunk;
        prop_assert_eq!(array.size(), total);
        let mut model = vec![0u8; total as usize];
        for (at, blocks, seed) in requests {
            let pos = u64::from(at) % (total / 512) * 512;
            let len = (u64::from(blocks) * 512).min(total - pos);
            let range = pos as usize..(pos + len) as usize;
            if seed % 5 == 0 {
                array.write_zeroes(pos, len).unwrap();
                model[range].fill(0);
            } else {
                let data = pattern(seed.into(), len as usize);
                array.write_at(&data, pos).unwrap();
                model[range.clone()].copy_from_slice(&data);
                let mut back = vec![0; len as usize];
                array.read_at(&mut back, pos).unwrap();
                prop_assert!(back == data);
            }
        }
        prop_assert!(gather(chunk, &disks, &sizes) == model);
        let mut all = vec![0; total as usize];
        array.read_at(&mut all, 0).unwrap();
        prop_assert!(all == model);
    }

    #[test]
    fn concatenated_disks_follow_each_other(
        blocks in prop::collection::vec(1u64..40, 1..7),
        requests in prop::collection::vec((any::<u32>(), 1u32..90, any::<u8>()), 1..20),
    ) {
        let sizes: Vec<u64> = blocks.iter().map(|n| n * 512).collect();
        let disks = rams(&sizes);
        let device = Device::new(concat::new(backends(&disks)).unwrap());
        let total: u64 = sizes.iter().sum();
        prop_assert_eq!(device.size(), total);
        let mut model = vec![0u8; total as usize];
        for (at, blocks, seed) in requests {
            let pos = u64::from(at) % (total / 512) * 512;
            let len = (u64::from(blocks) * 512).min(total - pos);
            let data = pattern(seed.into(), len as usize);
            device.write_at(&data, pos).unwrap();
            model[pos as usize..(pos + len) as usize].copy_from_slice(&data);
        }
        let mut all = Vec::new();
        for disk in &disks {
            let mut piece = vec![0; disk.size() as usize];
            disk.read_at(&mut piece, 0).unwrap();
            all.extend(piece);
        }
        prop_assert!(all == model);
        device.read_at(&mut all, 0).unwrap();
        prop_assert!(all == model);
        device.discard(0, total).unwrap();
        device.read_at(&mut all, 0).unwrap();
        prop_assert!(all.iter().all(|byte| *byte == 0));
    }
}

#[test]
fn truncated_members_are_used_as_far_as_the_smallest_goes() {
    let disks = rams(&[5 * 4096, 9 * 4096 + 512, 7 * 4096]);
    let device = Device::new(raid0::new(backends(&disks), 4096, Sizes::Truncate).unwrap());
    assert_eq!(device.size(), 15 * 4096);
    assert_eq!(device.name().as_ref(), "raid0(chunk=4096, sizes=truncate, ram, ram, ram)");
}

/// The limits follow the stripes at a position: wide at the beginning, narrow where only the large disks
/// continue.
#[test]
fn limits_depend_on_the_zone() {
    let (_, device) = array(65536, &[1 << 20, 1 << 20, 2 << 20]);
    let source = device.backend();
    let (wide, until) = source.limits_at(0);
    assert_eq!((wide.max_segments, wide.optimal_io, until), (1024, 3 * 65536, 3 << 20));
    let (narrow, until) = source.limits_at(3 << 20);
    assert_eq!((narrow.optimal_io, until), (65536, u64::MAX));
    // A transfer on one disk only can have any length.
    let before = device.counters();
    device.read_at(&mut vec![0; 1 << 20], 3 << 20).unwrap();
    assert_eq!(device.counters().since(&before).bios, 1);
}
