//! Partial parity.

use crate::model::{ARRAY, BLOCK, FRONT, Model, Rng, SECTOR};
use platter_md::gf::Block;
use platter_md::ppl::{self, HEADER_BYTES, PartialParity};
use platter_md::superblock::Level;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Blocks of a row that are written.
#[derive(Clone, Debug)]
struct Write {
    row: usize,
    first: usize,
    blocks: Vec<Vec<u8>>,
    /// Whether its record was durable, so that data and parity were written, or some of them.
    has_begun: bool,
}

impl Write {
    fn new(model: &Model, rng: &mut Rng, row: usize) -> Write {
        let first = rng.below(model.data);
        let count = 1 + rng.below(model.data - first);
        Write { row, first, blocks: (0..count).map(|_| rng.block()).collect(), has_begun: false }
    }

    fn writes(&self, number: usize) -> bool {
        (self.first..self.first + self.blocks.len()).contains(&number)
    }
}

/// An entry of rows one behind the other that write the same blocks, with its partial parity.
fn entry(model: &Model, writes: &[Write]) -> (Vec<u8>, Vec<u8>) {
    let (row, first, count) = (writes[0].row, writes[0].first, writes[0].blocks.len());
    let mut partial = Vec::new();
    for write in writes.iter().filter(|_| count < model.data) {
        let mut sum = vec![0; BLOCK];
        for number in (0..model.data).filter(|&number| !write.writes(number)) {
            sum.iter_mut().zip(&model.truth[write.row][number]).for_each(|(sum, byte)| *sum ^= byte);
        }
        partial.extend(sum);
    }
    let begin = model.geometry.whence((row * BLOCK) as u64, Block::Data(first as u32)).unwrap();
    let mut bytes = (begin / 512).to_le_bytes().to_vec();
    bytes.extend((partial.len() as u32).to_le_bytes());
    bytes.extend(((count * writes.len() * BLOCK) as u32).to_le_bytes());
    bytes.extend((model.member(row, Block::P) as u32).to_le_bytes());
    bytes.extend(crc32c::crc32c(&partial).to_le_bytes());
    (bytes, partial)
}

/// A record. Rows that follow one another are in one entry, sometimes.
fn record(model: &Model, rng: &mut Rng, generation: u64, writes: &[Write]) -> Vec<u8> {
    let mut entries: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut rest = writes;
    while let Some(write) = rest.first() {
        let chunk = model.geometry.chunk() as usize / BLOCK;
        let joins = |(at, next): (usize, &Write)| {
            next.row == write.row + at
                && next.row / chunk == write.row / chunk
                && (next.first, next.blocks.len()) == (write.first, write.blocks.len())
        };
        let most = rest.iter().enumerate().take_while(|&(at, next)| joins((at, next))).count();
        let (some, after) = rest.split_at(1 + rng.below(most));
        entries.push(entry(model, some));
        rest = after;
    }
    let mut bytes = vec![0xff; HEADER_BYTES];
    bytes[512..].fill(0);
    bytes[512..516].copy_from_slice(&crc32c::crc32c(&ARRAY.0).to_le_bytes());
    bytes[520..528].copy_from_slice(&generation.to_le_bytes());
    bytes[528..532].copy_from_slice(&(entries.len() as u32).to_le_bytes());
    for (at, (entry, _)) in entries.iter().enumerate() {
        bytes[536 + 24 * at..][..24].copy_from_slice(entry);
    }
    let sum = crc32c::crc32c(&bytes);
    bytes[532..536].copy_from_slice(&sum.to_le_bytes());
    entries.iter().for_each(|(_, partial)| bytes.extend(partial));
    bytes
}

/// How far the record of a member had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// Not written, or its header is torn: older ones count.
    Before,
    /// The header is whole, the partial parity is not.
    Within,
    /// Whole.
    After,
}

/// Writes the records of a member. Returns how far the newest had come, and whether anything can be known of the log.
fn log(model: &mut Model, rng: &mut Rng, member: usize, writes: &[Write]) -> (Cut, bool) {
    let mut at = 0;
    let place = |model: &mut Model, at: usize, bytes: &[u8]| {
        model.devices[member][at..at + bytes.len()].copy_from_slice(bytes);
    };
    let older = rng.below(3);
    for generation in 0..older {
        // Of writes that have ended: the partial parity is of the data as it is.
        let rows: Vec<usize> =
            (0..model.rows).filter(|&row| model.member(row, Block::P) == member && rng.one_in(3)).collect();
        let ended: Vec<Write> = rows.into_iter().map(|row| Write::new(model, rng, row)).collect();
        let bytes = record(model, rng, generation as u64, &ended);
        place(model, at, &bytes);
        at += bytes.len();
    }
    let bytes = record(model, rng, 10, writes);
    let cut = match rng.below(5) {
        0 => Cut::Before,
        1 if bytes.len() > HEADER_BYTES => Cut::Within,
        _ => Cut::After,
    };
    let written = match cut {
        Cut::Before => &bytes[..rng.below(3) * SECTOR],
        Cut::Within => &bytes[..HEADER_BYTES],
        Cut::After => &bytes[..],
    };
    place(model, at, written);
    (cut, older > 0 || cut != Cut::Before)
}

fn check(seed: u64) {
    let rng = &mut Rng(seed);
    let (members, layout) = (3 + rng.below(4), rng.below(6) as u32);
    let mut model = Model::new(rng, Level::Raid5, layout, members);
    let mut by_member: BTreeMap<usize, Vec<Write>> = BTreeMap::new();
    for row in 0..model.rows {
        if !rng.one_in(3) {
            let write = Write::new(&model, rng, row);
            by_member.entry(model.member(row, Block::P)).or_default().push(write);
        }
    }
    let mut cuts = Vec::new();
    for member in 0..members {
        let mut writes = by_member.remove(&member).unwrap_or_default();
        // Two rows of one entry write the same blocks.
        for at in 1..writes.len() {
            if rng.one_in(2) {
                let (first, count) = (writes[at - 1].first, writes[at - 1].blocks.len());
                writes[at].first = first;
                writes[at].blocks = (0..count).map(|_| rng.block()).collect();
            }
        }
        cuts.push(log(&mut model, rng, member, &writes));
        writes.iter_mut().for_each(|write| write.has_begun = cuts[member].0 == Cut::After);
        by_member.insert(member, writes);
    }
    let before = model.truth.clone();
    for write in by_member.values().flatten().filter(|write| write.has_begun) {
        let mut after = before[write.row].clone();
        for (at, block) in write.blocks.iter().enumerate() {
            after[write.first + at].clone_from(block);
            model.put_some(rng, write.row, Block::Data((write.first + at) as u32), block);
        }
        let parity = model.parities(write.row, &after).remove(0).1;
        model.put_some(rng, write.row, Block::P, &parity);
    }
    for lost in 0..=members {
        let mut sources = model.sources(&[lost]);
        let mut partial = PartialParity::new(members as u32);
        for member in (0..members).filter(|&member| member != lost) {
            let device = &model.devices[member];
            let mut read = |at: u64, bytes: &mut [u8]| {
                bytes.copy_from_slice(&device[at as usize..][..bytes.len()]);
                Ok(())
            };
            if let Ok(log) = ppl::scan(FRONT as u64, &ARRAY, &mut read) {
                partial.add(&model.geometry, member as u32, member, 0, &log).unwrap();
            }
        }
        sources.partial = Some(partial);
        read_all(&model, &sources, &by_member, &cuts, lost);
    }
}

fn read_all(
    model: &Model,
    sources: &platter_md::sources::Sources,
    writes: &BTreeMap<usize, Vec<Write>>,
    cuts: &[(Cut, bool)],
    lost: usize,
) {
    for row in 0..model.rows {
        let parity = model.member(row, Block::P);
        let write = writes[&parity].iter().find(|write| write.row == row);
        for number in 0..model.data {
            let is_lost = model.member(row, Block::Data(number as u32)) == lost;
            for at in (0..BLOCK).step_by(SECTOR) {
                let what =
                    || format!("row {row}, block {number}, byte {at}, without member {lost}: {write:?}");
                let old = &model.truth[row][number][at..at + SECTOR];
                let begun = write.filter(|write| write.has_begun && write.writes(number));
                let new = begun.map(|write| &write.blocks[number - write.first][at..at + SECTOR]);
                match model.read(sources, row, number, at) {
                    Some(bytes) => assert!(bytes == old || Some(&bytes[..]) == new, "{}", what()),
                    // A block under a write that has not ended, beside others; or nothing is known of the log.
                    None => {
                        let (cut, is_known) = cuts[parity];
                        let undefined = begun.is_some_and(|write| write.blocks.len() > 1)
                            || !is_known
                            || cut == Cut::Within && write.is_some()
                            // As far as can be known, the write of an older record that counts may not have ended.
                            || cut == Cut::Before;
                        assert!(is_lost && undefined, "{}: {cut:?}", what());
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn blocks_that_were_not_written_read_right_without_any_member(seed: u64) {
        check(seed);
    }
}

/// A record of one entry on the member with the parity of row 0.
fn one(change: impl FnOnce(&mut Vec<u8>)) -> (Model, usize, Result<PartialParity, String>) {
    let rng = &mut Rng(7);
    let mut model = Model::new(rng, Level::Raid5, 2, 4);
    let member = model.member(0, Block::P);
    let write = Write { row: 0, first: 0, blocks: vec![rng.block(), rng.block()], has_begun: true };
    let mut bytes = record(&model, rng, 1, &[write]);
    change(&mut bytes);
    bytes[532..536].fill(0);
    let sum = crc32c::crc32c(&bytes[..HEADER_BYTES]);
    bytes[532..536].copy_from_slice(&sum.to_le_bytes());
    model.devices[member][..bytes.len()].copy_from_slice(&bytes);
    let device = &model.devices[member];
    let mut read = |at: u64, bytes: &mut [u8]| {
        bytes.copy_from_slice(&device[at as usize..][..bytes.len()]);
        Ok(())
    };
    let mut partial = PartialParity::new(4);
    let log = ppl::scan(FRONT as u64, &ARRAY, &mut read);
    let added =
        log.and_then(|log| partial.add(&model.geometry, member as u32, member, 0, &log).map(|()| partial));
    (model, member, added)
}

#[test]
fn a_damaged_partial_parity_is_not_applied() {
    for damage in [false, true] {
        let (model, _, partial) = one(|bytes| bytes[HEADER_BYTES + 5] ^= u8::from(damage));
        let lost = model.member(0, Block::Data(2));
        let mut sources = model.sources(&[lost]);
        sources.partial = Some(partial.unwrap());
        let read = model.read(&sources, 0, 2, 0);
        assert_eq!(read.as_deref(), (!damage).then(|| &model.truth[0][2][..SECTOR]));
    }
}

#[test]
fn entries_that_no_row_has_are_refused() {
    type Change = fn(&mut Vec<u8>);
    let cases: [(Change, &str); 6] = [
        (|bytes| bytes[536..544].copy_from_slice(&u64::MAX.to_le_bytes()), "behind the end of the array"),
        (|bytes| bytes[536..544].copy_from_slice(&(1u64 << 30).to_le_bytes()), "behind the end of the array"),
        (|bytes| bytes[536] ^= 1, "which no row has"),
        (|bytes| bytes[548..552].copy_from_slice(&0xffff_f000u32.to_le_bytes()), "which no row has"),
        (|bytes| bytes[552] ^= 1, "whose parity member"),
        (|bytes| bytes[544..548].copy_from_slice(&0xffff_f000u32.to_le_bytes()), "and the log has"),
    ];
    for (change, told) in cases {
        let said = one(change).2.unwrap_err();
        assert!(said.contains(told), "{said}");
    }
}

#[test]
fn rows_in_two_entries_are_not_computed() {
    let (model, member, partial) = one(|bytes| {
        bytes[528] = 2;
        let entry = bytes[536..560].to_vec();
        bytes[560..584].copy_from_slice(&entry);
        let partial = bytes[HEADER_BYTES..].to_vec();
        bytes.extend(partial);
    });
    let partial = partial.unwrap();
    let ranges = partial.of(member as u32).unwrap();
    assert!(ranges.len() == 1 && ranges[0].is_damaged, "{ranges:?}");
    let mut sources = model.sources(&[model.member(0, Block::Data(2))]);
    sources.partial = Some(partial);
    assert_eq!(model.read(&sources, 0, 2, 0), None);
}
