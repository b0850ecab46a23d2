//! What Linux' md writes beside the data: superblocks, bitmaps, lists of bad blocks, headers of logs.

use super::{hold, verdict};
use crate::bytes::{self, u32_at};
use crate::rng::Rng;
use crate::run::{Target, Verdict, check_message};
use platter_md::bitmap::{self, Bitmap};
use platter_md::journal::{BLOCK_BYTES, Meta};
use platter_md::ppl::{self, Header};
use platter_md::superblock::{self, NoSuperblock, Place, SUPERBLOCK_BYTES, Superblock};
use platter_md::{Uuid, bad_blocks};

pub(super) const TARGET: Target = Target {
    name: "md",
    summary: "superblocks, bitmaps, lists of bad blocks and headers of logs of Linux' md",
    generate,
    mutate,
    read,
    memory: 1 << 20,
};

/// Fields: place, bytes.
const FIELDS: &[(usize, usize)] = &[
    (0, 4),
    (4, 4),
    (8, 4),
    (0x40, 8),
    (0x48, 4),
    (0x4c, 4),
    (0x50, 8),
    (0x58, 4),
    (0x5c, 4),
    (0x80, 8),
    (0x88, 8),
    (0x90, 8),
    (0x98, 8),
    (0xb9, 1),
    (0xba, 2),
    (0xbc, 4),
    (0xd0, 8),
    (0xe0, 4),
    (0x50, 8),
    (0x60, 4),
    (0xa0, 4),
    (0xc8, 8),
    (0xdc, 4),
    (0x100, 2),
    (0x102, 2),
    (0x20, 8),
];

/// The array of bitmaps and logs.
const ARRAY: Uuid = Uuid([7; 16]);
/// First bytes of a meta block of a journal.
const JOURNAL: &[u8] = &[0x09, 0xc5, 0x33, 0x64];

/// One of the structures.
fn generate(rng: &mut Rng) -> Vec<u8> {
    match rng.below(8) {
        0 => bitmap(rng),
        1 => parity_log(rng),
        2 => journal(rng),
        _ => superblock(rng, 0),
    }
}

fn bitmap(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = vec![0; bitmap::HEADER_BYTES];
    bytes::overwrite(&mut bytes, 0, b"bitm");
    bytes::overwrite(&mut bytes, 4, &(rng.range(3, 6) as u32).to_le_bytes());
    bytes::overwrite(&mut bytes, 8, &ARRAY.0);
    bytes::overwrite(&mut bytes, 40, &rng.below(1 << 20).to_le_bytes());
    bytes::overwrite(&mut bytes, 52, &(512u32 << rng.below(12)).to_le_bytes());
    // Bits or states.
    bytes.extend((0..rng.below(64)).map(|_| rng.below(256) as u8));
    bytes
}

fn parity_log(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = vec![0; ppl::HEADER_BYTES];
    bytes[..512].fill(0xff);
    bytes::overwrite(&mut bytes, 0x200, &crc32c::crc32c(&ARRAY.0).to_le_bytes());
    let count = *rng.pick(&[0u32, 1, 3, 148]);
    bytes::overwrite(&mut bytes, 0x210, &count.to_le_bytes());
    for number in 0..count as usize {
        bytes::overwrite(&mut bytes, 0x218 + 24 * number + 8, &(4096 * rng.below(4) as u32).to_le_bytes());
    }
    mend_parity_log(&mut bytes);
    bytes
}

fn mend_parity_log(bytes: &mut Vec<u8>) {
    bytes.resize(ppl::HEADER_BYTES, 0);
    bytes::overwrite(bytes, 0x214, &[0; 4]);
    let sum = crc32c::crc32c(bytes);
    bytes::overwrite(bytes, 0x214, &sum.to_le_bytes());
}

fn journal(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK_BYTES];
    bytes::overwrite(&mut bytes, 0, JOURNAL);
    bytes[8] = 1;
    let mut at = 32;
    for _ in 0..rng.below(5) {
        let kind = rng.below(3) as u16;
        let blocks = rng.range(1, 4) as usize;
        bytes::overwrite(&mut bytes, at, &kind.to_le_bytes());
        bytes::overwrite(&mut bytes, at + 4, &(8 * blocks as u32).to_le_bytes());
        at += if kind == 2 { 8 + 8 * blocks } else { 16 + 4 * blocks };
    }
    bytes::overwrite(&mut bytes, 12, &(at as u32).to_le_bytes());
    mend_journal(&mut bytes);
    bytes
}

fn mend_journal(bytes: &mut Vec<u8>) {
    bytes.resize(BLOCK_BYTES, 0);
    bytes::overwrite(bytes, 4, &[0; 4]);
    // Without the inversions at beginning and end, from the array's own sum on.
    let sum = !crc32c::crc32c_append(crc32c::crc32c(&ARRAY.0), bytes);
    bytes::overwrite(bytes, 4, &sum.to_le_bytes());
}

/// A superblock of the member at `index`.
pub(super) fn superblock(rng: &mut Rng, index: u16) -> Vec<u8> {
    let mut sb = vec![0; SUPERBLOCK_BYTES];
    let max = *rng.pick(&[2u32, 4, 128, 1919, 1920]);
    let mut set =
        |at: usize, number: u64, len: usize| bytes::overwrite(&mut sb, at, &number.to_le_bytes()[..len]);
    set(0, 0xa92b_4efc, 4);
    set(4, 1, 4);
    set(8, *rng.pick(&[0, 1, 4096, 4097, 8, 3072, 1 << 31]), 4);
    set(0x40, rng.extreme(40), 8);
    set(0x48, *rng.pick(&[0, 0, 0xffff_ffff, 1, 4, 5, 6, 10]), 4);
    set(0x50, rng.below(4096), 8);
    set(0xa8, u64::from(index) + 1, 8);
    set(0x4c, rng.below(4), 4);
    set(0x58, *rng.pick(&[0, 1, 8, 128, 1024]), 4);
    set(0x5c, rng.range(1, 3), 4);
    set(0x80, 2048, 8);
    set(0x88, 4096 + rng.below(4096), 8);
    set(0xa0, u64::from(index), 4);
    set(0x90, *rng.pick(&[0, 8, (4096 + 8 - 16) & !7]), 8);
    set(0xc8, 17, 8);
    set(0xd0, *rng.pick(&[u64::MAX, 0]), 8);
    set(0xdc, u64::from(max), 4);
    (0..max.min(4) as usize).for_each(|role| set(0x100 + 2 * role, role as u64, 2));
    bytes::overwrite(&mut sb, 0x20, b"host:data");
    mend(&mut sb);
    sb
}

/// Repairs the checksum of a superblock: the sum of its words, folded to 32 bits.
pub(super) fn mend(sb: &mut Vec<u8>) {
    sb.resize(SUPERBLOCK_BYTES, 0);
    let len = 256 + 2 * u32_at(sb, 0xdc).min(1920) as usize;
    bytes::overwrite(sb, 0xd8, &[0; 4]);
    let words = (0..len / 4 * 4).step_by(4).map(|at| u64::from(u32_at(sb, at)));
    let odd = if len % 4 == 2 { u64::from(sb[len - 2]) | u64::from(sb[len - 1]) << 8 } else { 0 };
    let sum = words.sum::<u64>() + odd;
    let folded = (sum as u32).wrapping_add((sum >> 32) as u32);
    bytes::overwrite(sb, 0xd8, &folded.to_le_bytes());
}

/// Changes a field.
pub(super) fn change_field(rng: &mut Rng, sb: &mut [u8]) {
    let (at, len) = *rng.pick(FIELDS);
    let max = u64::from(u32_at(sb, 0xdc));
    // The number of a device is usually slightly too large.
    let number = if rng.one_in(4) {
        max.wrapping_add(rng.below(3)).wrapping_sub(1)
    } else {
        rng.extreme(len as u32 * 8)
    };
    bytes::overwrite(sb, at, &number.to_le_bytes()[..len]);
}

fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    let is_other = is_bitmap(input) || is_parity_log(input) || is_journal(input);
    if is_other || rng.one_in(3) {
        bytes::mutate(rng, input, other);
    } else {
        change_field(rng, input);
    }
    if rng.one_in(8) || is_bitmap(input) {
        return;
    }
    if is_parity_log(input) {
        mend_parity_log(input);
    } else if is_journal(input) {
        mend_journal(input);
    } else {
        mend(input);
    }
}

fn is_bitmap(input: &[u8]) -> bool {
    input.starts_with(b"bitm")
}

fn is_parity_log(input: &[u8]) -> bool {
    input.starts_with(&[0xff; 16])
}

fn is_journal(input: &[u8]) -> bool {
    input.starts_with(JOURNAL)
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    if is_bitmap(input) {
        return read_bitmap(input);
    }
    if is_parity_log(input) {
        let header = Header::parse(input, &ARRAY);
        if let Ok(header) = &header {
            let least = ppl::HEADER_BYTES as u64;
            hold(header.record_bytes() >= least && header.entries.len() <= 148, || format!("{header:?}"))?;
        }
        return Ok(verdict(header));
    }
    if is_journal(input) {
        let meta = Meta::parse(input, &ARRAY);
        if let Ok(meta) = &meta {
            hold(meta.blocks() <= BLOCK_BYTES as u64 / 4, || format!("{meta:?}"))?;
        }
        return Ok(verdict(meta));
    }
    read_superblock(input)
}

fn read_bitmap(input: &[u8]) -> Result<Verdict, String> {
    let bitmap = Bitmap::parse(input);
    if let Ok(bitmap) = &bitmap {
        hold(bitmap.data_bytes() <= bitmap::MAX_DATA, || format!("{bitmap:?}"))?;
        let data = &input[bitmap::HEADER_BYTES..];
        let last = bitmap.chunks().saturating_sub(1);
        // What was not read may differ.
        let is_short = bitmap.data_bytes() > data.len() as u64;
        hold(!is_short || bitmap.may_differ(data, last), || format!("{bitmap:?}"))?;
    }
    Ok(verdict(bitmap))
}

fn read_superblock(input: &[u8]) -> Result<Verdict, String> {
    let size = u64::from(u32_at(input, 0x88)) * 512;
    let mut refused = "no superblock".to_owned();
    let mut is_sound = false;
    for place in Place::ALL {
        if let Some(at) = place.offset(size) {
            hold(at + SUPERBLOCK_BYTES as u64 <= size, || format!("{place:?} is at {at} of {size} bytes"))?;
        }
        match superblock::parse(place, size, input) {
            Ok(sb) => {
                is_sound = true;
                let index = sb.index();
                hold(sb.place == place && index.is_none_or(|index| index < sb.members), || {
                    format!("{sb:?}")
                })?;
                let names = Superblock::names(sb.features);
                hold((sb.features == 0) == names.is_empty(), || format!("{sb:?}: {names}"))?;
                check_message(&format!(
                    "{} of {} ({}), {}: {names}",
                    sb.level,
                    sb.array,
                    sb.device,
                    sb.role()
                ))?;
                // Its own bytes as a list of bad blocks.
                match bad_blocks::parse(&input[..SUPERBLOCK_BYTES], sb.bad_shift) {
                    Ok(bad) => {
                        let apart = bad.windows(2).all(|pair| pair[0].end < pair[1].start);
                        hold(apart && bad.iter().all(|bad| bad.start < bad.end), || format!("{bad:?}"))?;
                    }
                    Err(what) => check_message(&what)?,
                }
            }
            Err(NoSuperblock::Nothing) => {}
            Err(NoSuperblock::Damaged(what)) => refused = what,
        }
    }
    Ok(if is_sound { Verdict::Accepted } else { Verdict::Refused(refused) })
}
