//! Clients beside the oracle: each I/O is entered before it is sent and after it is answered, so that the oracle knows what
//! may be read, whichever client reads it.

use crate::ways::Client;
use platter_block::bio::Op;
use platter_sim::oracle::{Oracle, Outcome, Submission, Violation};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) const SECTOR: u64 = 512;

struct State {
    oracle: Oracle,
    /// Numbers of I/Os, which are also the contents of the sectors that they write.
    next: u64,
    wrong: Option<String>,
}

/// The oracle of a device, for all of its clients.
pub(crate) struct Judge {
    state: Mutex<State>,
    /// What an error of the device means.
    failure: Outcome,
}

impl Judge {
    /// For a device of zeroes with a write cache. `failure`: what an I/O is that was answered with an error.
    pub(crate) fn new(failure: Outcome, has_pages: bool) -> Judge {
        let oracle = Oracle::new(true).that_remembers(has_pages);
        Judge { state: Mutex::new(State { oracle, next: 1, wrong: None }), failure }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters an I/O and returns its number.
    fn begin(&self, op: Op, sector: u64, count: u64, durable: bool) -> u64 {
        let mut state = self.state();
        let id = state.next;
        state.next += 1;
        let contents = if op == Op::Write { vec![id; count as usize] } else { Vec::new() };
        let io = Submission { contents: &contents, fua: durable, ..Submission::new(op, sector, count) };
        state.oracle.submit(id, &io);
        id
    }

    fn end(&self, id: u64, result: &io::Result<()>) {
        let outcome = if result.is_ok() { Outcome::Done } else { self.failure };
        self.state().oracle.complete(id, outcome);
    }

    fn end_read(&self, id: u64, result: &io::Result<()>, data: &[u8]) {
        if result.is_err() {
            return self.end(id, result);
        }
        let mut contents = Vec::new();
        for sector in data.chunks(SECTOR as usize) {
            let (first, rest) = sector.split_at(8);
            if rest.chunks(8).any(|word| word != first) {
                return self.accuse("a sector is torn".to_owned());
            }
            contents.push(u64::from_le_bytes(first.try_into().unwrap()));
        }
        let mut state = self.state();
        let found: Result<(), Violation> = state.oracle.complete_read(id, &contents);
        drop(state);
        if let Err(violation) = found {
            self.accuse(violation.to_string());
        }
    }

    pub(crate) fn accuse(&self, what: String) {
        self.state().wrong.get_or_insert(what);
    }

    /// Power was cut; no I/O is in flight.
    pub(crate) fn cut(&self) {
        self.state().oracle.cut();
    }

    /// The first violation.
    pub(crate) fn wrong(&self) -> Option<String> {
        self.state().wrong.clone()
    }
}

/// A client that does random I/O to the first sectors of a device.
pub(crate) struct Life<'a> {
    pub(crate) client: Box<dyn Client>,
    pub(crate) judge: &'a Judge,
    random: Xoshiro256PlusPlus,
    sectors: u64,
}

impl<'a> Life<'a> {
    pub(crate) fn new(client: Box<dyn Client>, judge: &'a Judge, seed: u64, sectors: u64) -> Life<'a> {
        Life { client, judge, random: Xoshiro256PlusPlus::seed_from_u64(seed), sectors }
    }

    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.random.next_u64() % most
    }

    fn range(&mut self) -> (u64, u64) {
        let most = if self.below(8) == 0 { self.sectors / 2 } else { 16.min(self.sectors / 2) };
        let count = 1 + self.below(most);
        (self.below(self.sectors - count + 1), count)
    }

    /// One I/O. An error is that of the device, or of a connection that was ended.
    pub(crate) fn step(&mut self) -> io::Result<()> {
        let (sector, count) = self.range();
        match self.below(16) {
            0..=4 => self.read(sector, count),
            5..=9 => self.write(sector, count, false),
            10 => self.write(sector, count, true),
            11..=13 => {
                let id = self.judge.begin(Op::Flush, 0, 0, false);
                let result = self.client.flush();
                self.judge.end(id, &result);
                result
            }
            14 => {
                let id = self.judge.begin(Op::WriteZeroes, sector, count, false);
                let result = self.client.write_zeroes(sector * SECTOR, count * SECTOR);
                self.judge.end(id, &result);
                result
            }
            _ => {
                let id = self.judge.begin(Op::Discard, sector, count, false);
                let result = self.client.discard(sector * SECTOR, count * SECTOR);
                // An export without discards has done nothing, which its end as a failure includes.
                self.judge.end(id, result.as_ref().unwrap_or(&Err(io::ErrorKind::Unsupported.into())));
                result.unwrap_or(Ok(()))
            }
        }
    }

    fn write(&mut self, sector: u64, count: u64, durable: bool) -> io::Result<()> {
        let id = self.judge.begin(Op::Write, sector, count, durable);
        let data = id.to_le_bytes().repeat((count * SECTOR / 8) as usize);
        let result = self.client.write(sector * SECTOR, &data, durable);
        self.judge.end(id, &result);
        result
    }

    fn read(&mut self, sector: u64, count: u64) -> io::Result<()> {
        let mut data = vec![0xee; (count * SECTOR) as usize];
        let id = self.judge.begin(Op::Read, sector, count, false);
        let result = self.client.read(sector * SECTOR, &mut data);
        self.judge.end_read(id, &result, &data);
        result
    }

    /// Reads everything.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        self.read(0, self.sectors)
    }
}
