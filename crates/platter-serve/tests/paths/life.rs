//! Threads that write and read parts of a disk, while one of its paths after the other is away.

use crate::relay::Relay;
use platter_disk::device::Device;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::sync::atomic::{AtomicU64, Ordering};

/// The first has the record of an array, where there is one.
const PART: u64 = 1 << 20;
const THREADS: u64 = 3;
pub(crate) const SIZE: u64 = (1 + THREADS) * PART;
const BLOCK: u64 = 512;
const STEPS: u64 = 250;
/// After so many steps of all threads the other path is away.
const SPELL: u64 = 100;
const PIECE: usize = 32 << 10;

struct Life<'a> {
    device: &'a Device,
    begin: u64,
    model: Vec<u8>,
    random: Xoshiro256PlusPlus,
}

impl Life<'_> {
    fn below(&mut self, most: u64) -> u64 {
        self.random.next_u64() % most
    }

    /// One call. One path works at any time, and the server keeps its cache: nothing may fail or be missing.
    fn step(&mut self) {
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
}

fn fact(device: &Device, name: &str) -> String {
    let fact = device.facts().into_iter().find(|fact| fact.0 == name);
    fact.unwrap_or_else(|| panic!("{name} is not among {:?}", device.facts())).1
}

pub(crate) fn live(what: &str, device: &Device, relays: &[Relay; 2], seed: u64) {
    let steps = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (device, steps) = (&device, &steps);
            scope.spawn(move || {
                let random = Xoshiro256PlusPlus::seed_from_u64(seed << 8 | thread);
                let model = vec![0; PART as usize];
                let mut life = Life { device, begin: (1 + thread) * PART, model, random };
                for _ in 0..STEPS {
                    life.step();
                    let done = steps.fetch_add(1, Ordering::SeqCst) + 1;
                    if done % SPELL == 0 {
                        let away = (done / SPELL) as usize % 2;
                        relays[1 - away].come_back();
                        relays[away].leave();
                    }
                }
                for at in (0..PART).step_by(PIECE) {
                    let mut piece = vec![0; PIECE];
                    device.read_at(&mut piece, life.begin + at).unwrap();
                    let expected = &life.model[at as usize..at as usize + PIECE];
                    assert!(piece == expected, "{what}, seed {seed}, part {thread}, at {at}");
                }
            });
        }
    });
    let cuts = relays.each_ref().map(Relay::cuts);
    assert!(
        cuts.iter().all(|&cuts| cuts > 1),
        "{what}, seed {seed}: both paths were lost and found again: {cuts:?}"
    );
    assert_eq!(fact(device, "in doubt"), "0", "{what}");
}
