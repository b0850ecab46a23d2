//! Random lives of several connections at once, beside a model.

use crate::client::{Client, attach};
use crate::{open, serve};
use platter_remote::nbd::wire::{Request, command, command_flag, transmission_flag};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::collections::VecDeque;

const BLOCK: u64 = 512;
/// Bytes of the part of the device that one connection changes.
const PART: u64 = 1 << 20;
const CONNECTIONS: u64 = 4;
const STEPS: usize = 1500;
/// Most requests in flight of one connection.
const WINDOW: usize = 24;

/// What an answer must be.
struct Expected {
    cookie: u64,
    /// Of a read: the data when it was sent. No request that overlaps it was in flight.
    data: Option<Vec<u8>>,
    range: (u64, u64),
    changes: bool,
}

struct Life {
    client: Client,
    random: Xoshiro256PlusPlus,
    first: u64,
    model: Vec<u8>,
    in_flight: VecDeque<Expected>,
    cookie: u64,
}

impl Life {
    fn below(&mut self, most: u64) -> u64 {
        self.random.next_u64() % most
    }

    fn range(&mut self) -> (u64, u64) {
        let blocks = PART / BLOCK;
        let most = if self.below(10) == 0 { 600 } else { 24 };
        let length = 1 + self.below(most);
        (self.below(blocks - length) * BLOCK, length * BLOCK)
    }

    /// Takes answers, in any order, until none in flight overlaps `range` in a way that would make it ambiguous.
    fn settle(&mut self, range: (u64, u64), changes: bool) {
        let overlaps = |other: &Expected| {
            (changes || other.changes)
                && other.range.0 < range.0 + range.1
                && range.0 < other.range.0 + other.range.1
        };
        while self.in_flight.len() >= WINDOW || self.in_flight.iter().any(overlaps) {
            self.take_answer();
        }
    }

    fn take_answer(&mut self) {
        // Structured replies say themselves how long they are.
        let answer = self.client.answer(0);
        let at =
            self.in_flight.iter().position(|expected| expected.cookie == answer.cookie).expect("a cookie");
        let expected = self.in_flight.remove(at).unwrap();
        assert_eq!(answer.error, 0, "{answer:?}");
        if let Some(data) = expected.data {
            assert!(answer.data == data, "at {:?}", expected.range);
        }
    }

    fn step(&mut self) {
        let (at, length) = self.range();
        let (kind, changes) = match self.below(20) {
            0..=8 => (command::READ, false),
            9..=15 => (command::WRITE, true),
            16 | 17 => (command::WRITE_ZEROES, true),
            18 => (command::FLUSH, false),
            _ if self.client.flags & transmission_flag::SEND_CACHE != 0 => (command::CACHE, false),
            _ => (command::READ, false),
        };
        self.settle((at, length), changes);
        self.cookie += 1;
        let place = at as usize..(at + length) as usize;
        let fua = if self.below(8) == 0 { command_flag::FUA } else { 0 };
        let mut request =
            Request { flags: fua, kind, cookie: self.cookie, offset: self.first + at, length: length as u32 };
        let mut data = None;
        match kind {
            command::READ => data = Some(self.model[place].to_vec()),
            command::WRITE => {
                let (seed, model) = (self.random.next_u64(), &mut self.model[place]);
                model
                    .iter_mut()
                    .enumerate()
                    .for_each(|(at, byte)| *byte = (seed >> (at % 8 * 8)) as u8 ^ at as u8);
            }
            command::WRITE_ZEROES => {
                request.flags |= if self.below(2) == 0 { command_flag::NO_HOLE } else { 0 };
                self.model[place].fill(0);
            }
            command::FLUSH => (request.offset, request.length) = (0, 0),
            _ => {}
        }
        self.client.send(&request.to_bytes());
        if kind == command::WRITE {
            let payload = self.model[at as usize..(at + length) as usize].to_vec();
            self.client.send(&payload);
        }
        self.in_flight.push_back(Expected { cookie: self.cookie, data, range: (at, length), changes });
    }

    fn run(mut self) -> Vec<u8> {
        for _ in 0..STEPS {
            self.step();
        }
        while !self.in_flight.is_empty() {
            self.take_answer();
        }
        self.client.flush();
        self.model
    }
}

/// Lives over a device with one spec; the seed is printed if it fails.
fn live(spec: &str, seed: u64) {
    println!("{spec}, seed {seed}");
    let mut fixture = serve(open(spec));
    let part = |number: u64| Life {
        client: attach(if number.is_multiple_of(2) { &fixture.unix } else { &fixture.tcp }, "disk", true),
        random: Xoshiro256PlusPlus::seed_from_u64(seed * 100 + number),
        first: number * PART,
        model: vec![0; PART as usize],
        in_flight: VecDeque::new(),
        cookie: 1 << 40,
    };
    let models: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CONNECTIONS).map(part).map(|life| scope.spawn(|| life.run())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut reader = attach(&fixture.unix, "disk", true);
    for (number, model) in models.iter().enumerate() {
        assert!(reader.read(number as u64 * PART, PART as u32) == *model, "part {number}");
    }
    drop(reader);
    // A server that is only dropped closes its devices when its connections have ended.
    fixture.stop().unwrap();
}

#[test]
fn over_memory() {
    live("ram(8M)", 1);
    live("ram(8M, elevator=mq-deadline)", 2);
}

#[test]
fn over_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    for (seed, spec) in
        ["file(PATH, create=8M)", "file(PATH, driver=threads, elevator=bfq)", "cache(size=2M, PATH)"]
            .iter()
            .enumerate()
    {
        live(&spec.replace("PATH", path.to_str().unwrap()), 10 + seed as u64);
        std::fs::File::create(&path).unwrap().set_len(8 << 20).unwrap();
    }
}

#[test]
fn over_a_simulated_disk_and_an_array() {
    live("sim(nvme_ssd)", 20);
    live("raid0(chunk=64K, ram(4M), ram(4M))", 21);
}
