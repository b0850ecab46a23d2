//! Requests of a virtual machine to its disk.

use super::hold;
use crate::bytes;
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use platter_serve::vhost::memory::Memory;
use platter_serve::vhost::request::{MAX_DATA_BYTES, MAX_RANGES, Parser, Range, Request, Rules, Work};
use platter_serve::vhost::ring::{Addresses, Malformed, Ring};
use std::sync::Arc;

pub(super) const TARGET: Target = Target {
    name: "vhost-request",
    summary: "requests of a virtual machine: chains of descriptors, headers and ranges",
    generate,
    mutate,
    read,
    memory: 1 << 20,
};

/// Memory of the guest, and where its parts are. The table is at 0.
const MEMORY: usize = 64 << 10;
const ENTRIES: u16 = 16;
const TABLE: usize = 16 * ENTRIES as usize;
const AVAILABLE: u64 = 0x400;
const USED: u64 = 0x800;
const DATA: u64 = 0x1000;

const SIZES: [u64; 4] = [1 << 20, 1 << 40, 512, u64::MAX];
const KINDS: [u32; 7] = [0, 1, 4, 8, 11, 13, 77];

fn descriptor(address: u64, len: u32, flags: u16, next: u16) -> Vec<u8> {
    [&address.to_le_bytes()[..], &len.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat()
}

/// The first byte chooses the device. The table follows, then what is at the beginning of the data: a header and ranges.
fn generate(rng: &mut Rng) -> Vec<u8> {
    let mut all = vec![rng.any() as u8];
    let size = SIZES[usize::from(all[0] & 3)];
    let kind = *rng.pick(&KINDS);
    let (data, write) = match kind {
        0 | 8 => (*rng.pick(&[512u32, 4096, 20]), 2),
        1 => (*rng.pick(&[512, 4096, 100]), 0),
        11 | 13 => (*rng.pick(&[16, 32, 16 * 33, 8]), 0),
        _ => (0, 0),
    };
    all.extend(descriptor(DATA, 16, 1, 1));
    let (status, last) = (DATA + 0x4000, if data > 0 { 2 } else { 1 });
    if data > 0 {
        let begin = if write == 0 { DATA + 16 } else { DATA + 0x1000 };
        all.extend(descriptor(begin, data, 1 | write, last));
    }
    all.extend(descriptor(status, 1, 2, 0));
    all.resize(1 + TABLE, 0);
    all.extend(kind.to_le_bytes());
    all.extend([0; 4]);
    all.extend((*rng.pick(&[0, 1, size / 512, (size / 512).saturating_sub(8)])).to_le_bytes());
    for _ in 0..2 {
        all.extend((*rng.pick(&[0, 8, size / 1024])).to_le_bytes());
        all.extend((*rng.pick(&[0u32, 1, 8, u32::MAX])).to_le_bytes());
        all.extend((*rng.pick(&[0u32, 0, 1, 2])).to_le_bytes());
    }
    all
}

fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    if rng.one_in(4) || input.len() < 1 + TABLE + 48 {
        return bytes::mutate(rng, input, other);
    }
    let entry = 1 + 16 * rng.index(4);
    match rng.below(6) {
        0 => bytes::overwrite(input, entry, &rng.extreme(64).to_le_bytes()),
        1 => bytes::overwrite(input, entry + 8, &(rng.extreme(32) as u32).to_le_bytes()),
        2 => bytes::overwrite(input, entry + 12, &(rng.below(8) as u16).to_le_bytes()),
        3 => bytes::overwrite(input, entry + 14, &(rng.below(20) as u16).to_le_bytes()),
        4 => bytes::overwrite(input, 1 + TABLE + 8, &rng.extreme(64).to_le_bytes()),
        _ => bytes::overwrite(input, 1 + TABLE + 16, &rng.extreme(64).to_le_bytes()),
    }
}

/// What must hold of a range that is transferred or cleared.
fn is_on_device(range: &Range, sector: u64, rules: &Rules) -> bool {
    let end = u128::from(range.pos) + u128::from(range.len);
    let begins = u128::from(range.pos) == u128::from(sector) * 512;
    begins && range.len > 0 && range.len.is_multiple_of(512) && end <= u128::from(rules.size)
}

/// How much of the data the chain that begins with the first descriptor reads from the beginning of the data on, as far as its first
/// two descriptors say so: what lies behind that may not be what the parser has read.
fn bytes_read(table: &[u8]) -> u64 {
    let field = |index: usize, at: usize, len: usize| {
        let bytes = table.get(16 * index + at..16 * index + at + len).unwrap_or(&[]);
        bytes.iter().rev().fold(0, |value: u64, byte| value << 8 | u64::from(*byte))
    };
    let [(begin, len, flags), (second, more, _)] =
        [0, 1].map(|index| (field(index, 0, 8), field(index, 8, 4), field(index, 12, 2)));
    // Neither an indirect descriptor nor one that the device writes.
    if begin != DATA || flags & 6 != 0 {
        return 0;
    }
    let follows = flags & 1 != 0 && field(0, 14, 2) == 1 && second == DATA + len;
    if follows { len + more } else { len }
}

fn check(work: Work, request: &Request, rules: &Rules, table: &[u8], data: &[u8]) -> Result<(), String> {
    let read = bytes_read(table);
    let long = |at: usize| {
        let bytes = data.get(at..).filter(|_| at as u64 + 8 <= read)?;
        bytes.first_chunk().map(|it| u64::from_le_bytes(*it))
    };
    let (changes, fits) = match work {
        Work::Read(range) | Work::Write(range) => {
            let fits = range.len <= MAX_DATA_BYTES && range.len == request.data_bytes();
            // The header may be anywhere; only where it was put is its position known.
            let sector = long(8).filter(|sector| sector.wrapping_mul(512) == range.pos);
            let sector = sector.unwrap_or(range.pos / 512);
            (matches!(work, Work::Write(_)), fits && is_on_device(&range, sector, rules))
        }
        Work::Discard | Work::Zero { .. } => {
            let count = request.ranges.len();
            let known = long(16)
                .filter(|sector| request.ranges.first().is_some_and(|it| sector.wrapping_mul(512) == it.pos));
            let fits = request.ranges.iter().enumerate().all(|(index, range)| {
                let sector = known.filter(|_| index == 0).unwrap_or(range.pos / 512);
                is_on_device(range, sector, rules)
            });
            (true, fits && (1..=MAX_RANGES).contains(&count))
        }
        _ => (false, true),
    };
    hold(fits && !(changes && rules.read_only), || format!("{work:?} of {request:?} under {rules:?}"))
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let Some((choice, rest)) = input.split_first() else {
        return Ok(Verdict::Refused("no device".to_owned()));
    };
    let (table, data) = rest.split_at(rest.len().min(TABLE));
    let memory = Arc::new(Memory::private(MEMORY)?);
    let room = MEMORY - DATA as usize;
    hold(memory.write(0, table) && memory.write(DATA, &data[..data.len().min(room)]), || {
        "the input does not fit into the guest".to_owned()
    })?;
    let at = Addresses { descriptors: 0, available: AVAILABLE, used: USED };
    let ring = Ring::new(memory, ENTRIES, at, true)?;
    let rules = Rules { size: SIZES[usize::from(choice & 3)], read_only: choice & 4 != 0 };
    let mut request = Request::default();
    match Parser::default().parse(&ring, 0, &rules, &mut request) {
        Err(Malformed(why)) => Ok(Verdict::Refused(why)),
        Ok(Work::Refuse(status)) => Ok(Verdict::Refused(format!("{status:?}"))),
        Ok(work) => check(work, &request, &rules, table, data).map(|()| Verdict::Accepted),
    }
}
