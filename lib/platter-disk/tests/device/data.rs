//! Reads return what was written.

use crate::callers::{Caller, Style};
use crate::kinds::{SIZE, on_all, on_files};
use crate::memory::{Memory, aligned, bytes, fill, part};
use crate::rig::{makes_copies, spawn};
use platter_block::bio::{Bio, Flags, Op};
use platter_disk::device::Device;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

const ROUNDS: usize = 50;

struct Random(Xoshiro256PlusPlus);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }

    /// A range of whole blocks, mostly short.
    fn range(&mut self, block: u64) -> (u64, u64) {
        let most = if self.below(10) == 0 { 80 } else { 8 };
        let len = (1 + self.below(most)) * block;
        (self.below((SIZE - len) / block + 1) * block, len)
    }

    /// Memory in several parts of any length and alignment, or in one aligned part.
    fn memory(&mut self, len: usize) -> Memory {
        if self.below(2) == 0 {
            return aligned(len);
        }
        let mut cuts: Vec<usize> = (0..self.below(5)).map(|_| self.below(len as u64) as usize).collect();
        cuts.extend([0, len]);
        cuts.sort_unstable();
        cuts.dedup();
        cuts.windows(2).map(|cut| part(cut[1] - cut[0], self.below(600) as usize)).collect()
    }
}

/// Compares a device with a model of its bytes.
struct Check<'a> {
    name: &'a str,
    random: Random,
    model: Vec<u8>,
    caller: Caller,
    block: u64,
}

impl Check<'_> {
    fn write(&mut self, pos: u64, len: u64, flags: Flags) {
        let mut memory = self.random.memory(len as usize);
        let seed = self.random.below(256) as u8;
        fill(&mut memory, |at| seed ^ (at / 7) as u8);
        self.model[pos as usize..(pos + len) as usize].copy_from_slice(&bytes(&memory));
        let (result, memory) = self.caller.transfer(Op::Write, pos, memory, flags);
        assert_eq!(result, Ok(()), "{}: write of {len} at {pos} {flags:?}", self.name);
        assert!(memory.is_some(), "{}", self.name);
    }

    fn read(&mut self, pos: u64, len: u64) {
        let mut memory = self.random.memory(len as usize);
        fill(&mut memory, |_| 0xee);
        let (result, memory) = self.caller.read(pos, memory);
        assert_eq!(result, Ok(()), "{}: read of {len} at {pos}", self.name);
        let same = bytes(&memory.unwrap()) == self.model[pos as usize..(pos + len) as usize];
        assert!(same, "{}: read of {len} at {pos}", self.name);
    }

    fn zero(&mut self, op: Op, pos: u64, len: u64) {
        self.model[pos as usize..(pos + len) as usize].fill(0);
        assert_eq!(self.caller.operate(op, pos, len), Ok(()), "{}: {op} of {len} at {pos}", self.name);
    }

    fn round(&mut self) {
        let (pos, len) = self.random.range(self.block);
        match self.random.below(16) {
            0 => assert_eq!(self.caller.operate(Op::Flush, 0, 0), Ok(()), "{}", self.name),
            1 => self.zero(Op::WriteZeroes, pos, len),
            2 => self.zero(Op::Discard, pos, len),
            3 => {
                let flags = [Flags::FUA, Flags::PREFLUSH, Flags::SOFT_BARRIER, Flags::HARD_BARRIER];
                let flags = flags[self.random.below(4) as usize];
                self.write(pos, len, flags);
            }
            4..=5 if self.caller.style == Style::Synchronous => {
                // Any range at all.
                let (pos, len) = (pos + self.random.below(self.block), 1 + self.random.below(len));
                self.write(pos, len.min(SIZE - pos), Flags::NONE);
            }
            6..=7 if self.caller.style == Style::Synchronous => {
                let (pos, len) = (pos + self.random.below(self.block), 1 + self.random.below(len));
                self.read(pos, len.min(SIZE - pos));
            }
            8..=11 => self.read(pos, len),
            _ => self.write(pos, len, Flags::NONE),
        }
    }
}

#[test]
fn random_transfers_agree_with_a_model() {
    on_all(|name, device| {
        let mut model = vec![0; SIZE as usize];
        for (i, style) in Style::ALL.into_iter().enumerate() {
            let random = Random(Xoshiro256PlusPlus::seed_from_u64(i as u64 + 1));
            let name = &format!("{name} {style:?}");
            let block = u64::from(device.geometry().limits.logical_block);
            let mut check = Check { name, random, model, caller: style.caller(device), block };
            (0..ROUNDS).for_each(|_| check.round());
            check.read(0, SIZE);
            model = check.model;
        }
    });
}

/// The paper's vectored read: 16 pieces of 4 KiB over 64 KiB of disk are one bio and one request.
#[test]
fn sixteen_pieces_are_one_bio_and_one_request() {
    on_all(|name, device| {
        if device.cache_counters().is_some() || makes_copies(device) {
            // The requests of a cache to the disk are up to the cache, and so are the copies of a snapshot.
            return;
        }
        for style in Style::ALL {
            let mut caller = style.caller(device);
            for op in [Op::Write, Op::Read] {
                let before = device.counters();
                let memory = (0..16).map(|_| part(4096, 0)).collect();
                assert_eq!(caller.transfer(op, 65536, memory, Flags::NONE).0, Ok(()), "{name}");
                let after = device.counters().since(&before);
                let counts = (after.bios, after.requests, after.dispatches, after.bytes_bounced);
                assert_eq!(counts, (1, 1, 1, 0), "{name} {style:?} {op}");
            }
        }
    });
}

#[test]
fn what_is_larger_than_a_request_is_split_and_counted() {
    on_files(&["none", "deadline"], |name, device, _| {
        for style in Style::ALL {
            let mut caller = style.caller(device);
            let most = u64::from(device.geometry().limits.max_transfer);
            // The file is no larger than some devices' requests: then nothing is split.
            let pieces = SIZE.div_ceil(most);
            let before = device.counters();
            assert_eq!(caller.read(0, aligned(SIZE as usize)).0, Ok(()), "{name}");
            let after = device.counters().since(&before);
            assert_eq!((after.bios, after.splits, after.dispatches), (1, pieces - 1, pieces), "{name}");
        }
    });
    let device = Device::null(8 << 20).unwrap();
    let before = device.counters();
    device.read_at(&mut vec![0; 8 << 20], 0).unwrap();
    let after = device.counters().since(&before);
    assert_eq!((after.bios, after.splits, after.dispatches), (1, 7, 8));
}

#[test]
fn the_null_device_counts_what_it_forgets() {
    for style in Style::ALL {
        let device = Device::null(SIZE).unwrap();
        let mut caller = style.caller(&device);
        for at in 0..10 {
            assert_eq!(caller.write(at * 4096, aligned(4096)).0, Ok(()));
            let mut memory = aligned(4096);
            fill(&mut memory, |_| 0x77);
            let (result, memory) = caller.read(at * 4096, memory);
            assert_eq!((result, bytes(&memory.unwrap())), (Ok(()), vec![0x77; 4096]));
        }
        let counters = device.counters();
        assert_eq!((counters.bios, counters.dispatches, counters.completions), (20, 20, 20), "{style:?}");
        assert_eq!((counters.bytes_read, counters.bytes_written), (40960, 40960));
    }
}

/// Misaligned memory is copied, and that is counted; aligned memory never is.
#[test]
fn misaligned_memory_is_bounced_and_counted() {
    on_all(|name, device| {
        let align = device.geometry().limits.memory_align as usize;
        for style in Style::ALL {
            let mut caller = style.caller(device);
            for (offset, bounced) in [(0, 0), (1, if align == 1 { 0 } else { 8192 })] {
                let before = device.counters();
                let mut memory = vec![part(4096, offset)];
                fill(&mut memory, |at| at as u8);
                assert_eq!(caller.write(4096, memory).0, Ok(()), "{name}");
                let (result, memory) = caller.read(4096, vec![part(4096, offset)]);
                assert_eq!(result, Ok(()), "{name}");
                assert!(bytes(&memory.unwrap()).iter().enumerate().all(|(at, b)| *b == at as u8), "{name}");
                let after = device.counters().since(&before);
                if device.cache_counters().is_none() && !makes_copies(device) {
                    assert_eq!(after.bytes_bounced, bounced, "{name} {style:?} at {offset}");
                    assert_eq!(after.dispatches, 2, "{name} {style:?}");
                }
            }
        }
    });
}

/// Two threads write halves of the same blocks: neither undoes the other's writes.
#[test]
fn neighbours_in_one_block_do_not_undo_each_other() {
    on_all(|name, device| {
        let block = device.geometry().limits.logical_block as usize;
        let rounds = 30;
        let halves = [0, 1].map(|half: usize| {
            let device = device.clone();
            spawn(move || {
                for round in 1..=rounds {
                    for at in 0..4 {
                        let pos = (at * block + half * block / 2) as u64;
                        device.write_at(&vec![round; block / 2], pos).unwrap();
                        let mut back = vec![0; block / 2];
                        device.read_at(&mut back, pos).unwrap();
                        assert!(back.iter().all(|byte| *byte == round));
                    }
                }
            })
        });
        halves.into_iter().for_each(|half| half.result(name));
        let mut all = vec![0; 4 * block];
        device.read_at(&mut all, 0).unwrap();
        assert!(all.iter().all(|byte| *byte == rounds), "{name}");
    });
}

/// Many bios at once in one channel, in any order, each with its own bytes.
#[test]
fn a_full_channel_mixes_nothing_up() {
    on_all(|name, device| {
        let mut channel = device.channel(64).unwrap();
        let mut done = Vec::new();
        for op in [Op::Write, Op::Read] {
            for at in 0..64u64 {
                let mut memory = vec![part(4096, 0)];
                fill(&mut memory, |_| if op == Op::Write { at as u8 } else { 0xee });
                let pos = at * 37 % 64 * 8192;
                let mut bio = match op {
                    Op::Write => Bio::write(pos, memory).unwrap(),
                    _ => Bio::read(pos, memory).unwrap(),
                };
                bio.set_token(at);
                assert!(channel.submit(bio).is_ok());
            }
            assert!(channel.submit(Bio::flush()).is_err(), "{name}: more than the channel was opened for");
            while channel.outstanding() > 0 {
                channel.wait(&mut done, None);
            }
            assert_eq!(done.len(), 64, "{name}");
            for mut bio in done.drain(..) {
                assert_eq!(bio.status(), Ok(()), "{name}");
                let memory: Memory = bio.take_buffer().unwrap();
                assert!(bytes(&memory).iter().all(|byte| u64::from(*byte) == bio.token()), "{name}");
            }
        }
    });
}
