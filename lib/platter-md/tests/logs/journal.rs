//! Journals.

use crate::model::{ARRAY, BLOCK, Model, Rng, SECTOR};
use platter_md::gf::Block;
use platter_md::journal::{self, End, Kind, Log, Overlay, Ring};
use platter_md::superblock::Level;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Checksums without the inversion at their end, from that of the array on.
fn sum(bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(crc32c::crc32c(&ARRAY.0), bytes)
}

/// What a meta block logs.
#[derive(Clone, Debug)]
enum Payload {
    Data(u64, Vec<u8>),
    /// One block, or two.
    Parity(u64, Vec<Vec<u8>>),
    Flush(Vec<u64>),
}

/// The journal device: a ring, of which some is used.
struct Writer {
    bytes: Vec<u8>,
    tail: usize,
    at: usize,
    sequence: u64,
}

impl Writer {
    fn new(rng: &mut Rng, blocks: usize) -> Writer {
        let tail = rng.below(blocks);
        Writer { bytes: vec![0; blocks * BLOCK], tail, at: tail, sequence: rng.any() >> 8 }
    }

    /// The blocks of a meta block with their places, the meta block first, and the place behind them.
    fn blocks(&self, payloads: &[Payload]) -> (Vec<(usize, Vec<u8>)>, usize) {
        let mut list = Vec::new();
        let mut blocks: Vec<Vec<u8>> = Vec::new();
        for payload in payloads {
            let (kind, sector, of) = match payload {
                Payload::Data(sector, block) => (0u16, *sector, vec![block.clone()]),
                Payload::Parity(sector, of) => (1, *sector, of.clone()),
                Payload::Flush(rows) => {
                    list.extend([2u16.to_le_bytes(), [0; 2]].concat());
                    list.extend((8 * rows.len() as u32).to_le_bytes());
                    rows.iter().for_each(|row| list.extend(row.to_le_bytes()));
                    continue;
                }
            };
            list.extend([kind.to_le_bytes(), [0; 2]].concat());
            list.extend((8 * of.len() as u32).to_le_bytes());
            list.extend(sector.to_le_bytes());
            of.iter().for_each(|block| list.extend(sum(block).to_le_bytes()));
            blocks.extend(of);
        }
        let mut meta = vec![0; BLOCK];
        meta[..4].copy_from_slice(&0x6433_c509u32.to_le_bytes());
        meta[8] = 1;
        meta[12..16].copy_from_slice(&(32 + list.len() as u32).to_le_bytes());
        meta[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        meta[24..32].copy_from_slice(&(self.at as u64 * 8).to_le_bytes());
        meta[32..32 + list.len()].copy_from_slice(&list);
        let own = sum(&meta);
        meta[4..8].copy_from_slice(&own.to_le_bytes());
        blocks.insert(0, meta);
        let size = self.bytes.len() / BLOCK;
        let places = (0..blocks.len()).map(|number| (self.at + number) % size).collect::<Vec<_>>();
        let next = (self.at + blocks.len()) % size;
        (places.into_iter().zip(blocks).collect(), next)
    }

    fn put(&mut self, place: usize, bytes: &[u8]) {
        self.bytes[place * BLOCK..][..bytes.len()].copy_from_slice(bytes);
    }

    fn write(&mut self, payloads: &[Payload]) {
        let (blocks, next) = self.blocks(payloads);
        blocks.iter().for_each(|(place, bytes)| self.put(*place, bytes));
        (self.at, self.sequence) = (next, self.sequence + 1);
    }

    /// Writes some of it: at least one sector is not there.
    fn tear(&mut self, rng: &mut Rng, payloads: &[Payload]) {
        let (blocks, next) = self.blocks(payloads);
        let missing = rng.below(blocks.len());
        for (number, (place, bytes)) in blocks.iter().enumerate() {
            if number != missing && !rng.one_in(3) {
                self.put(*place, bytes);
            } else if number == missing {
                // Of a meta block, the part that has something.
                self.put(*place, &bytes[..if number == 0 { 16 } else { rng.below(8) * SECTOR }]);
            }
        }
        (self.at, self.sequence) = (next, self.sequence + 1);
    }

    fn scan(&self, parities: usize) -> Result<Log, String> {
        let ring = Ring {
            array: ARRAY,
            size: (self.bytes.len() / 512) as u64,
            tail: self.tail as u64 * 8,
            parities: parities as u64,
        };
        let mut read = |at: u64, bytes: &mut [u8]| {
            bytes.copy_from_slice(&self.bytes[at as usize..][..bytes.len()]);
            Ok(())
        };
        journal::scan(&ring, &mut read)
    }
}

/// A row of the array as the kernel has it in memory.
#[derive(Clone, Debug, Default)]
struct Cached {
    /// Data that is in the journal only.
    alone: BTreeMap<usize, Vec<u8>>,
    /// Data and parity that are in the journal, and may be on the members.
    out: Vec<(Block, Vec<u8>)>,
}

struct Run {
    model: Model,
    cached: BTreeMap<usize, Cached>,
    /// Rows as the members have them when all of `out` is there.
    state: Vec<Vec<Vec<u8>>>,
}

impl Run {
    fn sector_of(&self, row: usize, number: usize) -> u64 {
        self.model.geometry.whence((row * BLOCK) as u64, Block::Data(number as u32)).unwrap() / 512
    }

    /// All of what was written out reaches the members.
    fn finish(&mut self, row: usize) {
        for (block, bytes) in std::mem::take(&mut self.cached.entry(row).or_default().out) {
            self.model.put(row, block, &bytes);
        }
    }

    /// The next meta block, and the rows it is about.
    fn payloads(&mut self, rng: &mut Rng) -> (Vec<Payload>, BTreeSet<usize>) {
        let (mut payloads, mut rows) = (Vec::new(), BTreeSet::new());
        for _ in 0..1 + rng.below(3) {
            let row = rng.below(self.model.rows);
            if !rows.insert(row) {
                continue;
            }
            let numbers: Vec<usize> = (0..self.model.data).filter(|_| rng.one_in(2)).collect();
            let has_alone = self.cached.get(&row).is_some_and(|cached| !cached.alone.is_empty());
            match rng.below(4) {
                0 => {
                    self.finish(row);
                    // Data alone stays in the journal, so that a row that has some is not flushed.
                    if !has_alone {
                        payloads.push(Payload::Flush(vec![(row * 8) as u64]));
                    }
                }
                1 => payloads.extend(
                    numbers.iter().map(|&number| Payload::Data(self.sector_of(row, number), rng.block())),
                ),
                _ if numbers.is_empty() && !has_alone => {}
                _ => payloads.extend(self.write_out(rng, row, &numbers)),
            }
        }
        (payloads, rows)
    }

    /// Data, and the parity of the row with it and with what is in the journal.
    fn write_out(&mut self, rng: &mut Rng, row: usize, numbers: &[usize]) -> Vec<Payload> {
        // The last time must be over.
        self.finish(row);
        let mut after = self.state[row].clone();
        if let Some(cached) = self.cached.get(&row) {
            cached.alone.iter().for_each(|(&number, block)| after[number].clone_from(block));
        }
        let mut payloads = Vec::new();
        for &number in numbers {
            after[number] = rng.block();
            payloads.push(Payload::Data(self.sector_of(row, number), after[number].clone()));
        }
        let parities = self.model.parities(row, &after).into_iter().map(|(_, bytes)| bytes).collect();
        payloads.push(Payload::Parity((row * 8) as u64, parities));
        payloads
    }

    /// A meta block is durable.
    fn acknowledge(&mut self, payloads: &[Payload]) {
        for payload in payloads {
            match payload {
                Payload::Data(sector, block) => {
                    let (row, number) = self.place(*sector);
                    self.model.truth[row][number].clone_from(block);
                    self.cached.entry(row).or_default().alone.insert(number, block.clone());
                }
                Payload::Parity(sector, parities) => {
                    let row = *sector as usize / 8;
                    let cached = self.cached.entry(row).or_default();
                    for (number, block) in std::mem::take(&mut cached.alone) {
                        self.state[row][number].clone_from(&block);
                        cached.out.push((Block::Data(number as u32), block));
                    }
                    cached.out.extend([Block::P, Block::Q].into_iter().zip(parities.iter().cloned()));
                }
                Payload::Flush(_) => {}
            }
        }
    }

    fn place(&self, sector: u64) -> (usize, usize) {
        let all = (0..self.model.rows).flat_map(|row| (0..self.model.data).map(move |number| (row, number)));
        let mut all = all.filter(|&(row, number)| self.sector_of(row, number) == sector);
        all.next().unwrap()
    }
}

fn check(seed: u64) {
    let rng = &mut Rng(seed);
    let level = [Level::Raid4, Level::Raid5, Level::Raid6][rng.below(3)];
    let layout = if level == Level::Raid4 { 0 } else { rng.below(6) as u32 };
    let parities = if level == Level::Raid6 { 2 } else { 1 };
    let members = parities + 2 + rng.below(3);
    let model = Model::new(rng, level, layout, members);
    let mut run = Run { state: model.truth.clone(), model, cached: BTreeMap::new() };
    let blocks = 200 + rng.below(40);
    let mut writer = Writer::new(rng, blocks);
    // What an earlier turn of the ring left behind.
    let old = Payload::Data(0, rng.block());
    (0..4).for_each(|_| writer.write(std::slice::from_ref(&old)));
    writer.sequence += 1000;
    writer.at = writer.tail;
    let mut used = 0;
    for _ in 0..1 + rng.below(14) {
        let (payloads, _) = run.payloads(rng);
        let (blocks, _) = writer.blocks(&payloads);
        used += blocks.len();
        assert!(used < 180, "the ring is large enough");
        writer.write(&payloads);
        run.acknowledge(&payloads);
    }
    // One more is not complete, and another one behind it may be.
    let (torn, mut doubtful) = run.payloads(rng);
    let is_torn = !torn.is_empty() && rng.one_in(2);
    if is_torn {
        writer.tear(rng, &torn);
        if rng.one_in(2) {
            let (behind, rows) = run.payloads(rng);
            writer.write(&behind);
            doubtful.extend(rows);
        }
    } else {
        doubtful.clear();
    }
    for (row, cached) in run.cached.clone() {
        cached.out.iter().for_each(|(block, bytes)| run.model.put_some(rng, row, *block, bytes));
    }
    let log = writer.scan(parities).unwrap();
    if !is_torn {
        assert_eq!(log.end, End::Normal);
    }
    run.model.devices.push(writer.bytes.clone());
    read_all(&run.model, &log, parities, &doubtful);
}

fn read_all(model: &Model, log: &Log, parities: usize, doubtful: &BTreeSet<usize>) {
    let (overlay, applied) = Overlay::new(log, &model.geometry, model.members, 0);
    assert_eq!(applied.damage.is_some(), log.end != End::Normal);
    for first in 0..=model.members {
        for second in (first..=model.members).filter(|&second| parities == 2 || second == first) {
            let mut sources = model.sources(&[first, second]);
            sources.journal = Some(overlay.clone());
            for row in 0..model.rows {
                for number in 0..model.data {
                    let member = model.member(row, Block::Data(number as u32));
                    let is_lost = member == first || member == second;
                    for at in (0..BLOCK).step_by(SECTOR) {
                        let what =
                            || format!("row {row}, block {number}, byte {at}, without {first} and {second}");
                        match model.read(&sources, row, number, at) {
                            Some(bytes) => {
                                assert!(bytes == model.truth[row][number][at..][..SECTOR], "{}", what())
                            }
                            None => assert!(is_lost && doubtful.contains(&row), "{}", what()),
                        }
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn all_that_is_in_the_journal_reads_right_without_any_members(seed: u64) {
        check(seed);
    }
}

fn block(number: u8) -> Vec<u8> {
    vec![number; BLOCK]
}

fn written(payloads: &[&[Payload]]) -> Writer {
    let mut writer = Writer { bytes: vec![0; 32 * BLOCK], tail: 3, at: 3, sequence: 77 };
    payloads.iter().for_each(|payloads| writer.write(payloads));
    writer
}

#[test]
fn nothing_is_applied_behind_a_block_that_is_damaged() {
    let data = |sector: u64, number: u8| [Payload::Data(sector, block(number))];
    let mut writer = written(&[&data(0, 1), &data(8, 2), &data(16, 3), &[]]);
    let log = writer.scan(1).unwrap();
    assert_eq!((log.count(Kind::Data), log.metas.len(), log.head, &log.end), (3, 4, 80, &End::Normal));
    // The data of the second meta block.
    writer.bytes[6 * BLOCK + 9] ^= 1;
    let log = writer.scan(1).unwrap();
    assert_eq!((log.count(Kind::Data), log.metas.len(), log.followers), (1, 1, 2));
    assert!(matches!(&log.end, End::Damaged(why) if why.contains("sector 48")), "{:?}", log.end);
    let sectors: Vec<u64> = log.lost.iter().map(|step| step.sector).collect();
    assert_eq!(sectors, [8, 16]);
    // The meta block itself.
    writer.bytes[5 * BLOCK + 4000] ^= 1;
    let log = writer.scan(1).unwrap();
    assert!(matches!(&log.end, End::Damaged(why) if why.contains("checksum")) && log.lost.is_empty());
    // At the tail there must be one.
    writer.bytes[3 * BLOCK] ^= 1;
    assert!(writer.scan(1).unwrap_err().contains("at its tail"));
    let empty = Writer { bytes: vec![0; 8 * BLOCK], tail: 0, at: 0, sequence: 0 };
    let log = empty.scan(1).unwrap();
    assert_eq!((log.sequence, log.steps.len()), (None, 0));
}

#[test]
fn rows_that_were_written_out_are_read_from_the_members() {
    let rng = &mut Rng(3);
    let model = Model::new(rng, Level::Raid5, 2, 3);
    let sector = model.geometry.whence(4096, Block::Data(0)).unwrap() / 512;
    let data = [Payload::Data(0, block(1)), Payload::Data(sector, block(2))];
    let log = written(&[&data, &[Payload::Flush(vec![8])], &[]]).scan(1).unwrap();
    let (overlay, applied) = Overlay::new(&log, &model.geometry, 3, 0);
    let first = model.member(0, Block::Data(0)) as u32;
    assert_eq!((applied.data, overlay.alone(first, 0)), (1, Some(4 * 4096)));
    assert_eq!(overlay.at(4096).0, None);
}

#[test]
fn impossible_journals_are_named() {
    let with = |payload: Payload, parities: usize| match written(&[&[payload]]).scan(parities).unwrap().end {
        End::Damaged(why) => why,
        End::Normal => panic!("it is possible"),
    };
    let two = Payload::Parity(0, vec![block(1), block(2)]);
    assert!(with(two.clone(), 1).contains("a payload of 2 blocks"));
    assert_eq!(written(&[&[two]]).scan(2).unwrap().end, End::Normal);
    assert!(with(Payload::Parity(0, vec![block(1)]), 2).contains("a payload of 1 blocks"));
    let many = vec![Payload::Data(0, block(1)); 32];
    assert!(matches!(written_longer(&many).end, End::Damaged(why) if why.contains("are left in the ring")));
    for (tail, size) in [(4, 800), (800, 800), (0, 7)] {
        let ring = Ring { array: ARRAY, size, tail, parities: 1 };
        assert!(journal::scan(&ring, &mut |_, _| Ok(())).unwrap_err().contains("tail"));
    }
}

/// More blocks than the ring has.
fn written_longer(payloads: &[Payload]) -> Log {
    let mut writer = Writer { bytes: vec![0; 40 * BLOCK], tail: 3, at: 3, sequence: 77 };
    writer.write(payloads);
    writer.bytes.truncate(32 * BLOCK);
    writer.scan(1).unwrap()
}

#[test]
fn blocks_that_are_not_on_the_array_end_a_journal() {
    let rng = &mut Rng(1);
    let model = Model::new(rng, Level::Raid5, 2, 3);
    let size = model.geometry.size() / 512;
    let cases =
        [Payload::Data(size, block(2)), Payload::Data(4, block(2)), Payload::Data(u64::MAX, block(2))];
    let parity = Payload::Parity(model.geometry.component() / 512, vec![block(1)]);
    let flush = Payload::Flush(vec![u64::MAX - 7]);
    for bad in cases.into_iter().chain([parity, flush]) {
        let good = Payload::Data(0, block(1));
        let one = std::slice::from_ref(&good);
        let log = written(&[one, &[good.clone(), bad], one]).scan(1).unwrap();
        let (_, applied) = Overlay::new(&log, &model.geometry, 3, 0);
        assert_eq!((applied.data, applied.alone), (1, 1));
        assert!(applied.damage.unwrap().contains("is not on the array"));
    }
}
