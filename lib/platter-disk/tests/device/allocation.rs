//! The allocation status: the extents tile the device, and holes read as zeroes.

use crate::kinds::{SIZE, on_all};
use platter_block::fault::Kind;
use platter_disk::device::Device;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

const BLOCK: u64 = 4096;
const ROUNDS: usize = 40;

/// Bytes of the device that are holes. Checks all of its extents against what was written.
fn holes(name: &str, device: &Device, model: &[u8]) -> u64 {
    let (mut at, mut holes) = (0, 0);
    while at < SIZE {
        let extent = device.allocation(at, SIZE - at).unwrap();
        assert_eq!(extent.pos, at, "{name}");
        assert!(extent.len > 0 && extent.end() <= SIZE, "{name}: {extent:?}");
        if extent.is_hole() {
            let written = model[at as usize..extent.end() as usize].iter().any(|byte| *byte != 0);
            assert!(!written, "{name}: {extent:?} was written");
            holes += extent.len;
        }
        at = extent.end();
    }
    holes
}

#[test]
fn what_was_written_is_no_hole() {
    on_all(|name, device| {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut below = |n: u64| random.next_u64() % n;
        let mut model = vec![0; SIZE as usize];
        assert!(holes(name, device, &model) > 0, "{name}: holes of a fresh device");
        for round in 0..ROUNDS {
            let blocks = 1 + below(8);
            let pos = below(SIZE / BLOCK - blocks) * BLOCK;
            let range = pos as usize..(pos + blocks * BLOCK) as usize;
            match below(5) {
                0 => {
                    device.write_zeroes(pos, blocks * BLOCK).unwrap();
                    model[range].fill(0);
                }
                1 => device.flush().unwrap(),
                _ => {
                    model[range.clone()].fill(1 + round as u8);
                    device.write_at(&model[range], pos).unwrap();
                }
            }
            holes(name, device, &model);
        }
    });
}

#[test]
fn only_ranges_of_the_device_have_a_status() {
    on_all(|name, device| {
        for (pos, len) in [(0, 0), (SIZE, 1), (0, SIZE + 1), (u64::MAX, 2)] {
            let error = device.allocation(pos, len).unwrap_err();
            assert_eq!(error.fault.kind, Kind::OutOfRange, "{name}: {len} at {pos}");
        }
        assert_eq!(device.allocation(SIZE - 1, 1).unwrap().len, 1, "{name}");
    });
}
