//! Superblocks of Linux' md.

use super::hold;
use crate::bytes::{self, u32_at};
use crate::rng::Rng;
use crate::run::{Target, Verdict, check_message};
use platter_block::planted::Planted;
use platter_stack::array_metadata::md::{self, NoSuperblock, Place, SUPERBLOCK_BYTES};

pub(super) const TARGET: Target = Target {
    name: "md",
    summary: "superblocks of Linux' md",
    generate: |rng| superblock(rng, 0),
    mutate,
    read,
    memory: 1 << 20,
    planted: Planted::MdRole,
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
    (0xa0, 4),
    (0xc8, 8),
    (0xdc, 4),
    (0x100, 2),
    (0x102, 2),
    (0x20, 8),
];

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
    set(0x48, *rng.pick(&[0, 0, 0xffff_ffff, 1, 5]), 4);
    set(0x4c, rng.below(4), 4);
    set(0x58, *rng.pick(&[0, 1, 8, 128, 1024]), 4);
    set(0x5c, rng.range(1, 3), 4);
    set(0x80, 2048, 8);
    set(0x88, 4096 + rng.below(4096), 8);
    set(0xa0, u64::from(index), 4);
    set(0xc8, 17, 8);
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
    if rng.one_in(3) {
        bytes::mutate(rng, input, other);
    } else {
        change_field(rng, input);
    }
    if !rng.one_in(8) {
        mend(input);
    }
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    for place in Place::ALL {
        let size = u64::from(u32_at(input, 0x88)) * 512;
        if let Some(at) = place.offset(size) {
            hold(at + SUPERBLOCK_BYTES as u64 <= size, || format!("{place:?} is at {at} of {size} bytes"))?;
        }
        match md::parse(place, input) {
            Ok(sb) => {
                hold(sb.place == place && sb.index.is_none_or(|index| index < sb.members), || {
                    format!("{sb:?}")
                })?;
                hold((sb.unknown_features == 0) == sb.needs().is_empty(), || {
                    format!("{sb:?} needs {:?}", sb.needs())
                })?;
                check_message(&format!(
                    "{} of {} ({}), {}: {}",
                    sb.level,
                    sb.array,
                    sb.device,
                    sb.members,
                    sb.needs()
                ))?;
            }
            Err(NoSuperblock::Nothing) => return Ok(Verdict::Refused("no superblock".to_owned())),
            Err(NoSuperblock::Damaged(what)) => return Ok(Verdict::Refused(what)),
        }
    }
    Ok(Verdict::Accepted)
}
