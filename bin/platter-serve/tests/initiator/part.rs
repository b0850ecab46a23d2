//! One thread of a life: calls of a device in a part of its own, beside a model.

use platter_disk::device::Device;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// Each thread has a part of the disk to itself.
pub(crate) const PART: u64 = 1 << 20;
const BLOCK: u64 = 512;
/// As many bytes of the end are read at once: less than a connection lives for.
const PIECE: usize = 32 << 10;

pub(crate) struct Life<'a> {
    device: &'a Device,
    begin: u64,
    model: Vec<u8>,
    random: Xoshiro256PlusPlus,
}

impl<'a> Life<'a> {
    pub(crate) fn new(device: &'a Device, begin: u64, seed: u64) -> Life<'a> {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Life { device, begin, model: vec![0; PART as usize], random }
    }

    fn below(&mut self, most: u64) -> u64 {
        self.random.next_u64() % most
    }

    /// One call. The target keeps its cache, so nothing may be missing at any time.
    pub(crate) fn step(&mut self) {
        let most = if self.below(8) == 0 { 300 } else { 20 };
        let blocks = 1 + self.below(most);
        let at = self.below(PART / BLOCK - blocks) * BLOCK;
        let range = at as usize..(at + blocks * BLOCK) as usize;
        let pos = self.begin + at;
        match self.below(10) {
            0..=3 => {
                let mut data = vec![0; range.len()];
                self.device.read_at(&mut data, pos).unwrap();
                assert!(data == self.model[range], "at {pos}");
            }
            4..=7 => {
                let byte = self.random.next_u64() as u8;
                self.model[range.clone()].iter_mut().enumerate().for_each(|(n, cell)| *cell = byte ^ n as u8);
                self.device.write_at(&self.model[range], pos).unwrap();
            }
            8 => {
                self.model[range].fill(0);
                self.device.write_zeroes(pos, blocks * BLOCK).unwrap();
            }
            _ => {
                if self.device.flush().is_err() {
                    self.device.acknowledge_flush_failure();
                }
            }
        }
    }

    /// Reads the whole part.
    pub(crate) fn check(&self, what: &str) {
        for at in (0..PART).step_by(PIECE) {
            let mut piece = vec![0; PIECE];
            self.device.read_at(&mut piece, self.begin + at).unwrap();
            let expected = &self.model[at as usize..at as usize + PIECE];
            assert!(piece == expected, "{what}, the part from {}, at {at}", self.begin);
        }
    }
}
