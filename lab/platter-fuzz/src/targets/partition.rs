//! Partition tables: GUID partition tables with their backup, master boot records, chains of extended ones.

use super::{hold, verdict};
use crate::bytes::{overwrite, u32_at, u64_at};
use crate::image::{Image, ImageDisk};
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use platter_block::backend::Backend;
use platter_stack::partition;
use std::sync::Arc;

pub(super) const TARGET: Target = Target {
    name: "partition",
    summary: "GUID partition tables, master boot records and chains of extended ones",
    generate: |rng| sound(rng).encode(),
    mutate,
    read,
    memory: 96 << 20,
};

/// Entries of which checksums are mended: more are legal and slow.
const MOST_TABLE: u64 = 1 << 20;

/// CRC-32 as in IEEE 802.3, by the byte.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    static TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut at = 0;
        while at < 256 {
            let mut crc = at as u32;
            let mut bit = 0;
            while bit < 8 {
                crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
                bit += 1;
            }
            table[at] = crc;
            at += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |crc: u32, byte| (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)])
}

/// A slot of a boot record.
fn slot(kind: u8, begin: u32, blocks: u32) -> [u8; 16] {
    let mut slot = [0; 16];
    slot[4] = kind;
    slot[8..12].copy_from_slice(&begin.to_le_bytes());
    slot[12..16].copy_from_slice(&blocks.to_le_bytes());
    slot
}

fn boot_record(block: u32, slots: &[[u8; 16]]) -> Vec<u8> {
    let mut record = vec![0; block as usize];
    for (at, slot) in slots.iter().enumerate() {
        overwrite(&mut record, 446 + 16 * at, slot);
    }
    record[510..512].copy_from_slice(&[0x55, 0xaa]);
    record
}

/// A header in block `at`, without its checksums.
fn header(image: &Image, at: u64, other: u64, entries: u64, (count, size): (u32, u32)) -> Vec<u8> {
    let mut header = vec![0; image.block as usize];
    header[..8].copy_from_slice(b"EFI PART");
    for (place, number) in [(8, 0x1_0000), (12, 92), (80, count), (84, size)] {
        overwrite(&mut header, place, &u32::to_le_bytes(number));
    }
    for (place, number) in [(24, at), (32, other), (72, entries)] {
        overwrite(&mut header, place, &number.to_le_bytes());
    }
    header
}

fn gpt(rng: &mut Rng, image: &mut Image) {
    let (block, blocks) = (u64::from(image.block), image.size / u64::from(image.block));
    let size = 128u32 << rng.below(3);
    let count = rng.range(1, 130) as u32;
    let len = u64::from(count) * u64::from(size);
    let mut table = vec![0; len as usize];
    for entry in table.chunks_exact_mut(size as usize) {
        if rng.one_in(3) {
            entry[..16].fill(rng.any() as u8);
            let first = rng.below(blocks);
            overwrite(entry, 32, &first.to_le_bytes());
            overwrite(entry, 40, &(first + rng.below((blocks - first).min(1000))).to_le_bytes());
        }
    }
    let room = len.div_ceil(block);
    let backup = (blocks - 1).saturating_sub(room);
    if rng.one_in(4) {
        image.number = rng.below(u64::from(count) + 3) as u16;
    } else if let Some(used) = table.chunks_exact(size as usize).position(|entry| entry[0] != 0) {
        image.number = used as u16 + 1;
    }
    image.pieces.push((0, boot_record(image.block, &[slot(0xee, 1, u32::MAX)])));
    image.pieces.push((2 * block, table.clone()));
    image.pieces.push((backup * block, table));
    let headers =
        [header(image, 1, blocks - 1, 2, (count, size)), header(image, blocks - 1, 1, backup, (count, size))];
    let [primary, second] = headers;
    image.pieces.push((block, primary));
    image.pieces.push(((blocks - 1) * block, second));
    if rng.one_in(4) {
        // The primary header is damaged, so the backup counts.
        let last = image.pieces.len() - 2;
        image.pieces[last].1[rng.index(92)] ^= 1;
    }
}

fn mbr(rng: &mut Rng, image: &mut Image) {
    let blocks = (image.size / u64::from(image.block)).min(1 << 31) as u32;
    let place = |rng: &mut Rng| rng.below(u64::from(blocks)) as u32;
    let mut slots: Vec<[u8; 16]> =
        (0..rng.below(4)).map(|_| slot(0x83, place(rng), place(rng).min(1000))).collect();
    image.number = rng.below(9) as u16;
    if rng.one_in(2) {
        let first = place(rng).min(1 << 20);
        slots.push(slot(*rng.pick(&[0x05, 0x0f, 0x85]), first, blocks));
        let links = rng.below(6) as u32;
        for link in 0..=links {
            let next = if link == links { slot(0, 0, 0) } else { slot(5, (link + 1) * 8, 8) };
            let kind = if rng.one_in(4) { 0 } else { 0x83 };
            let record = boot_record(image.block, &[slot(kind, 1, 2), next]);
            image.pieces.push((u64::from(first + link * 8) * u64::from(image.block), record));
        }
        if rng.one_in(8) {
            // A ring.
            let record = boot_record(image.block, &[slot(0x83, 1, 2), slot(5, links * 8, 8)]);
            image.set(u64::from(first + links * 8) * u64::from(image.block), record);
        }
        image.number = rng.below(12) as u16;
    }
    image.pieces.push((0, boot_record(image.block, &slots)));
}

fn sound(rng: &mut Rng) -> Image {
    let block = 512 << rng.below(4);
    let blocks = if rng.one_in(8) { rng.below(6) } else { rng.range(300, 1 << 24) };
    let mut image = Image::new(block, blocks * u64::from(block));
    match rng.below(8) {
        _ if blocks < 300 => image.pieces.push((0, boot_record(block, &[slot(0x83, 1, 1)]))),
        0 => {}
        1..=3 => mbr(rng, &mut image),
        _ => gpt(rng, &mut image),
    }
    mend(&mut image);
    image
}

/// Repairs the checksums of headers and entries.
fn mend(image: &mut Image) {
    let block = u64::from(image.block);
    for at in [block, (image.size / block).saturating_sub(1) * block] {
        let mut header = image.bytes(at, image.block as usize);
        let len = u32_at(&header, 12) as usize;
        if !header.starts_with(b"EFI PART") || !(92..=header.len()).contains(&len) {
            continue;
        }
        let entries = u64_at(&header, 72).checked_mul(block);
        let table = u64::from(u32_at(&header, 80)) * u64::from(u32_at(&header, 84));
        if let Some(entries) = entries.filter(|_| table <= MOST_TABLE) {
            let crc = crc32(&image.bytes(entries, table as usize));
            overwrite(&mut header, 88, &crc.to_le_bytes());
        }
        overwrite(&mut header, 16, &[0; 4]);
        let crc = crc32(&header[..len]);
        overwrite(&mut header, 16, &crc.to_le_bytes());
        image.set(at, header);
    }
}

fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    let mut image = Image::decode(input);
    let block = u64::from(image.block);
    match rng.below(4) {
        0 => {
            // A field of a header, or of a slot of a boot record.
            let last = (image.size / block).saturating_sub(1) * block;
            let at = *rng.pick(&[block, last]);
            let mut header = image.bytes(at, image.block as usize);
            match *rng.pick(&[8usize, 12, 24, 32, 40, 48, 72, 80, 84]) {
                wide @ (24 | 32 | 40 | 48 | 72) => {
                    overwrite(&mut header, wide, &rng.extreme(64).to_le_bytes())
                }
                place => overwrite(&mut header, place, &(rng.extreme(32) as u32).to_le_bytes()),
            }
            image.set(at, header);
        }
        1 => {
            let at = image.pieces.iter().map(|(at, _)| *at).nth(rng.below(4) as usize).unwrap_or(0);
            let mut record = image.bytes(at, image.block as usize);
            let place = 446 + 16 * rng.below(4) as usize;
            let kind = *rng.pick(&[0, 5, 0x0f, 0x85, 0x83, 0xee]);
            overwrite(&mut record, place, &slot(kind, rng.extreme(32) as u32, rng.extreme(32) as u32));
            image.set(at, record);
        }
        _ => image.mutate(rng, &Image::decode(other)),
    }
    if !rng.one_in(6) {
        mend(&mut image);
    }
    *input = image.encode();
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let image = Image::decode(input);
    let (size, block, number) = (image.size, u64::from(image.block), u64::from(image.number));
    let disk = Arc::new(ImageDisk::new("disk", image));
    let found = partition::numbered(Arc::clone(&disk) as Arc<dyn Backend>, number);
    let (reads, bytes) = disk.reads();
    // Two tables of at most 16 MiB with their headers in sectors of four sizes, or a chain of 256 records after these headers.
    hold(reads <= 268 && bytes <= 33 << 20, || format!("{reads} reads of {bytes} bytes"))?;
    if let Ok(part) = &found {
        let len = part.geometry().size;
        let (_, begin) = part.locate(0).unwrap_or((0, u64::MAX));
        let inside = begin.checked_add(len).is_some_and(|end| end <= size);
        let whole = len > 0 && len % block == 0 && begin % block == 0;
        hold(inside && whole, || format!("{len} bytes from {begin} on, of a disk of {size}"))?;
    }
    Ok(verdict(found.map(drop)))
}
