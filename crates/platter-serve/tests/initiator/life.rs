//! Random lives beside a model, over connections that are cut again and again.

use crate::between::{Fate, Relay};
use crate::kinds::{Serving, TARGET, connect};
use crate::tgt::Tgt;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_remote::iscsi::client::IscsiOptions;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::sync::Mutex;

/// Each thread has a part of the disk to itself.
const PART: u64 = 1 << 20;
const THREADS: u64 = 4;
const BLOCK: u64 = 512;
const STEPS: u64 = 150;
/// So much of the end is read at once: less than a connection lives for.
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

    /// One call. The target keeps its cache, so nothing may be missing at any time.
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
    device.facts().into_iter().find(|fact| fact.0 == name).unwrap().1
}

/// Lives at a target, through a relay that cuts after random numbers of bytes, in both directions.
fn live(what: &str, address: &str, path: &str, options: IscsiOptions, seed: u64) {
    let random = Mutex::new(Xoshiro256PlusPlus::seed_from_u64(seed));
    let left = Mutex::new((0, u64::MAX));
    let relay = Relay::new(address, move |unit| {
        let mut left = left.lock().unwrap();
        if left.0 <= unit.connection {
            // Each connection has an end of its own, behind the login.
            *left = (unit.connection + 1, 300_000 + random.lock().unwrap().next_u64() % 1_000_000);
        }
        if left.1 <= unit.bytes.len() as u64 {
            return Fate::Cut(left.1 as usize);
        }
        left.1 -= unit.bytes.len() as u64;
        Fate::Pass
    });
    let options = options.with_reconnect(Span::from_secs(120));
    let elevator = if options.connections == 1 { "noop" } else { "none" };
    let url = format!("iscsi://{}/{path}?header_digest=none", relay.address);
    let Some(device) = connect(&url, elevator, options) else { return };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let device = &device;
            scope.spawn(move || {
                let random = Xoshiro256PlusPlus::seed_from_u64(seed << 8 | thread);
                let model = vec![0; PART as usize];
                let mut life = Life { device, begin: thread * PART, model, random };
                (0..STEPS).for_each(|_| life.step());
                for at in (0..PART).step_by(PIECE) {
                    let mut piece = vec![0; PIECE];
                    device.read_at(&mut piece, life.begin + at).unwrap();
                    let expected = &life.model[at as usize..at as usize + PIECE];
                    assert!(piece == expected, "{what}, seed {seed}, part {thread}, at {at}");
                }
            });
        }
    });
    assert!(relay.connections() > 3, "{what}: the connection was cut");
    assert!(fact(&device, "reconnects").parse::<u32>().unwrap() > 0, "{what}");
}

#[test]
fn nothing_is_missing_over_connections_that_are_cut() {
    for seed in 0..3 {
        let serving = Serving::new(Device::ram(THREADS * PART).unwrap());
        live("one session", serving.address(), &format!("{TARGET}/0"), IscsiOptions::default(), seed);
    }
}

#[test]
fn nothing_is_missing_over_several_sessions_that_are_cut() {
    let serving = Serving::new(Device::ram(THREADS * PART).unwrap());
    let options = IscsiOptions::default().with_connections(5);
    live("several sessions", serving.address(), &format!("{TARGET}/0"), options, 7);
}

#[test]
fn nothing_is_missing_at_tgt() {
    let Some(tgt) = Tgt::start(THREADS * PART, &[]) else { return };
    for seed in 20..22 {
        tgt.erase();
        live("tgt", &tgt.address, &tgt.path(), IscsiOptions::default(), seed);
    }
}
