//! Logs of arrays of Linux' md as a whole: what is found in them, and how an array is read with them.

use super::hold;
use crate::bytes::{self, u32_at};
use crate::rng::Rng;
use crate::run::{Target, Verdict, check_message};
use platter_md::Uuid;
use platter_md::geometry::{Geometry, Shape};
use platter_md::journal::{self, BLOCK_BYTES, End, Kind, Overlay, Ring};
use platter_md::ppl::{self, PartialParity};
use platter_md::sources::{Source, Sources, Way};
use platter_md::superblock::Level;

pub(super) const TARGET: Target = Target {
    name: "md-log",
    summary: "logs of partial parity and journals of Linux' md, applied to an array",
    generate,
    mutate,
    read,
    memory: 4 << 20,
};

const ARRAY: Uuid = Uuid([7; 16]);
/// Bytes before the log: what kind it is, and of what array.
const HEAD: usize = 8;
const BLOCK: usize = BLOCK_BYTES;
/// Where the data of members begins.
const FRONT: u64 = 1 << 20;
/// Most bytes of a log that are read.
const MOST: usize = 64 * BLOCK;
const JOURNAL: &[u8] = &[0x09, 0xc5, 0x33, 0x64];

/// The array that an input names.
struct Setting {
    is_journal: bool,
    level: Level,
    geometry: Geometry,
    tail: u64,
}

fn setting(input: &[u8]) -> Option<Setting> {
    let at = |at: usize| u64::from(input.get(at).copied().unwrap_or(0));
    let is_journal = at(0) % 2 == 1;
    let level = match at(1) % 3 {
        0 => Level::Raid5,
        1 if is_journal => Level::Raid6,
        _ if is_journal => Level::Raid4,
        _ => Level::Raid5,
    };
    let shape = Shape {
        level,
        layout: if level == Level::Raid4 { 0 } else { (at(2) % 6) as u32 },
        has_raid0_layout: false,
        chunk: 4096 << (at(3) % 3),
        members: vec![64 << 10; 4 + (at(4) % 3) as usize],
    };
    Some(Setting { is_journal, level, geometry: Geometry::new(&shape).ok()?, tail: at(5) % 16 * 8 })
}

fn generate(rng: &mut Rng) -> Vec<u8> {
    let mut input: Vec<u8> = (0..HEAD).map(|_| rng.below(256) as u8).collect();
    input[5] = rng.below(4) as u8;
    let Some(setting) = setting(&input) else { return input };
    if setting.is_journal {
        journal(rng, &setting, &mut input)
    } else {
        parity_log(rng, &setting, &mut input)
    }
    mend(&mut input);
    input
}

/// Records, each newer than the one before.
fn parity_log(rng: &mut Rng, setting: &Setting, input: &mut Vec<u8>) {
    let sectors = setting.geometry.size() / 512;
    for generation in 0..rng.range(1, 4) {
        let mut header = vec![0; BLOCK];
        header[..512].fill(0xff);
        bytes::overwrite(&mut header, 0x200, &crc32c::crc32c(&ARRAY.0).to_le_bytes());
        bytes::overwrite(&mut header, 0x208, &generation.to_le_bytes());
        let count = rng.range(0, 4) as usize;
        bytes::overwrite(&mut header, 0x210, &(count as u32).to_le_bytes());
        let mut partial = Vec::new();
        for number in 0..count {
            let at = 0x218 + 24 * number;
            let sector = rng.below(sectors / 8) * 8;
            let row = setting.geometry.find(sector * 512);
            let platter_md::geometry::Spot::Row { row, .. } = row.0 else { continue };
            let rows = rng.range(1, 2) as usize * BLOCK;
            let sum = vec![rng.below(256) as u8; rows];
            bytes::overwrite(&mut header, at, &sector.to_le_bytes());
            bytes::overwrite(&mut header, at + 8, &(rows as u32).to_le_bytes());
            bytes::overwrite(&mut header, at + 12, &(rows as u32 * rng.range(1, 2) as u32).to_le_bytes());
            let parity = row.member(platter_md::gf::Block::P).unwrap_or(0);
            bytes::overwrite(&mut header, at + 16, &parity.to_le_bytes());
            bytes::overwrite(&mut header, at + 20, &crc32c::crc32c(&sum).to_le_bytes());
            partial.extend(sum);
        }
        input.extend(header);
        input.extend(partial);
    }
}

/// Meta blocks with their data, from the tail on.
fn journal(rng: &mut Rng, setting: &Setting, input: &mut Vec<u8>) {
    let parities = if setting.level == Level::Raid6 { 2 } else { 1 };
    input.resize(HEAD + setting.tail as usize * 512, 0);
    for sequence in 0..rng.range(1, 5) {
        let mut meta = vec![0; BLOCK];
        bytes::overwrite(&mut meta, 0, JOURNAL);
        meta[8] = 1;
        bytes::overwrite(&mut meta, 16, &(sequence + 40).to_le_bytes());
        bytes::overwrite(&mut meta, 24, &(((input.len() - HEAD) / 512) as u64).to_le_bytes());
        let (mut at, mut blocks) = (32, 0);
        for _ in 0..rng.below(4) {
            let kind = rng.below(3) as u16;
            let count = if kind == 1 { parities } else { 1 };
            let limit = if kind == 0 { setting.geometry.size() } else { setting.geometry.component() };
            bytes::overwrite(&mut meta, at, &kind.to_le_bytes());
            bytes::overwrite(&mut meta, at + 4, &(8 * count as u32).to_le_bytes());
            bytes::overwrite(&mut meta, at + 8, &(rng.below(limit / 4096) * 8).to_le_bytes());
            if kind == 2 {
                at += 16;
            } else {
                at += 16 + 4 * count;
                blocks += count;
            }
        }
        bytes::overwrite(&mut meta, 12, &(at as u32).to_le_bytes());
        input.extend(meta);
        (0..blocks).for_each(|_| input.extend(vec![rng.below(256) as u8; BLOCK]));
    }
    input.resize(input.len() + BLOCK * rng.below(3) as usize, 0);
}

/// Repairs the checksums of all headers and meta blocks, and those of the data behind meta blocks.
fn mend(input: &mut [u8]) {
    let sum = |bytes: &[u8]| !crc32c::crc32c_append(crc32c::crc32c(&ARRAY.0), bytes);
    for at in (HEAD..input.len().saturating_sub(BLOCK - 1)).step_by(BLOCK) {
        if input[at..].starts_with(&[0xff; 16]) {
            bytes::overwrite(input, at + 0x214, &[0; 4]);
            let own = crc32c::crc32c(&input[at..at + BLOCK]);
            bytes::overwrite(input, at + 0x214, &own.to_le_bytes());
        } else if input[at..].starts_with(JOURNAL) {
            let end = (u32_at(input, at + 12) as usize).min(BLOCK);
            let (mut place, mut data) = (32, at + BLOCK);
            while place + 16 <= end {
                let blocks = (u32_at(input, at + place + 4) as usize / 8).min(BLOCK);
                if input[at + place] == 2 {
                    place += 8 + 8 * blocks;
                    continue;
                }
                for number in 0..blocks {
                    let Some(block) = input.get(data..data + BLOCK) else { break };
                    let own = sum(block).to_le_bytes();
                    if place + 20 + 4 * number <= end {
                        bytes::overwrite(input, at + place + 16 + 4 * number, &own);
                    }
                    data += BLOCK;
                }
                place += 16 + 4 * blocks;
            }
            bytes::overwrite(input, at + 4, &[0; 4]);
            let own = sum(&input[at..at + BLOCK]);
            bytes::overwrite(input, at + 4, &own.to_le_bytes());
        }
    }
}

fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    let blocks = input.len() / BLOCK;
    match rng.below(4) {
        0 => bytes::mutate(rng, input, other),
        1 if blocks > 0 => {
            // A field of an entry or a payload.
            let block = HEAD + BLOCK * rng.index(blocks);
            let at = block + 4 * rng.index(24) + if rng.one_in(2) { 0 } else { 0x210 };
            bytes::overwrite(input, at, &(rng.extreme(32) as u32).to_le_bytes());
        }
        2 if blocks > 0 => {
            let at = (HEAD + rng.index(BLOCK * blocks)).min(input.len() - 1);
            input[at] = rng.below(256) as u8;
        }
        _ => {
            let at = rng.index(HEAD.min(input.len()).max(1));
            bytes::overwrite(input, at, &[rng.below(256) as u8]);
        }
    }
    if !rng.one_in(8) {
        mend(input);
    }
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let Some(setting) = setting(input) else { return Ok(Verdict::Refused("no array".to_owned())) };
    let log = input.get(HEAD..).unwrap_or_default();
    let log = &log[..log.len().min(MOST)];
    let mut wrong = None;
    let mut read = |at: u64, bytes: &mut [u8]| {
        let from = usize::try_from(at).ok().and_then(|at| log.get(at..at.checked_add(bytes.len())?));
        match from {
            Some(from) => bytes.copy_from_slice(from),
            None => wrong = Some(format!("{} bytes at {at} of a log of {}", bytes.len(), log.len())),
        }
        Ok(())
    };
    let size = log.len() as u64;
    let mut sources = Sources::default();
    let refused = if setting.is_journal {
        let parities = if setting.level == Level::Raid6 { 2 } else { 1 };
        let ring = Ring { array: ARRAY, size: size / 512, tail: setting.tail, parities };
        let found = journal::scan(&ring, &mut read);
        match (found, wrong) {
            (_, Some(wrong)) => return Err(wrong),
            (Err(why), _) => Some(why),
            (Ok(log), _) => {
                check_journal(&log, size / 512)?;
                let (overlay, applied) = Overlay::new(&log, &setting.geometry, 99, 0);
                hold(applied.alone <= applied.data, || format!("{applied:?}"))?;
                hold(applied.damage.is_some() || log.end == End::Normal, || format!("{applied:?}"))?;
                sources.journal = Some(overlay);
                applied.damage
            }
        }
    } else {
        let found = ppl::scan(size, &ARRAY, &mut read);
        match (found, wrong) {
            (_, Some(wrong)) => return Err(wrong),
            (Err(why), _) => Some(why),
            (Ok(log), _) => partial(&log, &setting, &mut sources),
        }
    };
    if let Some(why) = &refused {
        check_message(why)?;
    }
    read_array(&setting, &mut sources, size)?;
    Ok(refused.map_or(Verdict::Accepted, Verdict::Refused))
}

fn check_journal(log: &journal::Log, size: u64) -> Result<(), String> {
    let inside = |at: u64| at < size && at.is_multiple_of(8);
    let steps = log.steps.iter().chain(&log.lost).filter(|step| step.kind != Kind::Flush);
    hold(steps.map(|step| step.at).chain([log.head]).all(inside), || format!("{log:?}"))?;
    let count: usize = log.metas.iter().map(|&(_, count)| count).sum();
    hold(count == log.steps.len(), || format!("{log:?}"))
}

/// Takes the log as that of each member. Returns why it is none.
fn partial(log: &ppl::Log, setting: &Setting, sources: &mut Sources) -> Option<String> {
    let mut partial = PartialParity::new(setting.geometry.members());
    let mut refused = None;
    for member in 0..setting.geometry.members() {
        refused = partial.add(&setting.geometry, member, 99, 0, log).err().or(refused);
    }
    sources.partial = Some(partial);
    refused
}

/// Looks for all blocks of the array without each member.
fn read_array(setting: &Setting, sources: &mut Sources, size: u64) -> Result<(), String> {
    let members = setting.geometry.members();
    for lost in 0..members {
        let source = |member: u32| Source {
            device: member as usize,
            data_offset: FRONT,
            until: u64::MAX,
            bad: Vec::new(),
            write_mostly: false,
        };
        sources.members = (0..members)
            .map(|member| if member == lost { Vec::new() } else { vec![source(member)] })
            .collect();
        let mut pos = 0;
        while pos < setting.geometry.size() {
            let (way, len) = sources.way(&setting.geometry, pos, 1 << 20, &[]);
            hold(len > 0, || format!("{way:?} at {pos}"))?;
            let extents = match &way {
                Way::Any(extents) => extents.clone(),
                Way::Sum(terms) => terms.iter().map(|term| term.0).collect(),
                Way::Lost(_) | Way::Doubtful => Vec::new(),
            };
            for extent in extents {
                let inside = match extent.device {
                    99 => extent.pos + len <= size,
                    device => {
                        device != lost as usize
                            && extent.pos >= FRONT
                            && extent.pos + len <= FRONT + (64 << 10)
                    }
                };
                hold(inside, || format!("{extent:?} of {len} bytes at {pos}, without {lost}"))?;
            }
            pos += len;
        }
    }
    Ok(())
}
