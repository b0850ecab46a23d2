//! Follows the blocks of a journal from its tail to its end.
//!
//! Source: `raid5-cache.c` of Linux 6.1, by what the kernel replays of journals that were damaged for it.

use super::{BLOCK_BYTES, MAGIC, Meta, Payload, raw_crc, seed};
use crate::bytes::{u32_at, u64_at};
use crate::uuid::Uuid;

/// Fills bytes from a position of the ring on, or says why it cannot.
pub type Read<'a> = dyn FnMut(u64, &mut [u8]) -> Result<(), String> + 'a;

/// Bytes of a block, as positions count.
const BLOCK: u64 = BLOCK_BYTES as u64;
/// Sectors of a block.
const SECTORS: u64 = BLOCK / 512;
/// Most bytes that are read at a time.
const PIECE: u64 = 256 << 10;
/// Most blocks between tail and end that are taken: 16 GiB of data.
const MAX_STEPS: usize = 1 << 22;

/// Where a journal is, and of what array. Positions in it are in sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// The array.
    pub array: Uuid,
    /// Size of the ring.
    pub size: u64,
    /// The last checkpoint, where it begins.
    pub tail: u64,
    /// Blocks of parity of a row: 1 or 2.
    pub parities: u64,
}

/// What a block of the journal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Data, at a sector of the array.
    Data,
    /// Parity of a row, at a sector of the members.
    P,
    /// The second parity.
    Q,
    /// No block: the row has reached the members.
    Flush,
}

/// A block of data or parity, or the news that a row has been written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it is.
    pub kind: Kind,
    /// Where it belongs.
    pub sector: u64,
    /// Where it is in the ring, in sectors.
    pub at: u64,
}

/// Why a journal ends where it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// There is no further block, as after every stop and most power cuts.
    Normal,
    /// What follows is torn by a power cut, or damaged: how.
    Damaged(String),
}

/// What is in a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Where it begins, in sectors of the ring.
    pub tail: u64,
    /// Number of its first meta block; `None` if it was never used.
    pub sequence: Option<u64>,
    /// For each meta block its number, and how many steps it has.
    pub metas: Vec<(u64, usize)>,
    /// What is to be applied, in this order.
    pub steps: Vec<Step>,
    /// Where it ends, in sectors of the ring.
    pub head: u64,
    /// Why it ends there.
    pub end: End,
    /// What would have followed the damage: blocks that are not applied. Not all of them need be known.
    pub lost: Vec<Step>,
    /// Meta blocks behind the damage that are whole.
    pub followers: u64,
}

impl Log {
    /// How many steps are of a kind.
    pub fn count(&self, kind: Kind) -> usize {
        self.steps.iter().filter(|step| step.kind == kind).count()
    }
}

/// What is at a place where a meta block is expected.
enum Found {
    Meta(Meta),
    Nothing,
    Damaged(String),
}

/// Follows a journal.
///
/// # Errors
/// There is no meta block at its tail, or the journal cannot be read.
pub fn scan(ring: &Ring, read: &mut Read<'_>) -> Result<Log, String> {
    let ring = Ring { size: ring.size / SECTORS * SECTORS, ..*ring };
    if !ring.tail.is_multiple_of(SECTORS) || ring.tail >= ring.size {
        return Err(format!(
            "the journal's tail is sector {} of a ring of {}; multiples of 8 below its size are possible",
            ring.tail, ring.size
        ));
    }
    let mut log = Log {
        tail: ring.tail,
        sequence: None,
        metas: Vec::new(),
        steps: Vec::new(),
        head: ring.tail,
        end: End::Normal,
        lost: Vec::new(),
        followers: 0,
    };
    let mut first = vec![0; BLOCK_BYTES];
    read(ring.tail * 512, &mut first)?;
    if ring.tail == 0 && first.iter().all(|&byte| byte == 0) {
        return Ok(log);
    }
    let meta = Meta::parse(&first, &ring.array).map_err(|why| format!("{why}, at its tail"))?;
    log.sequence = Some(meta.sequence);
    let mut walk = Walk { ring, expected: meta.sequence, at: ring.tail, used: 0 };
    while let Found::Meta(meta) = walk.look(read, &mut log.end)? {
        let steps = match walk.steps(&meta) {
            Ok(steps) if log.steps.len() + steps.len() <= MAX_STEPS => steps,
            Ok(_) => return Err(format!("the journal has more than {MAX_STEPS} blocks to apply")),
            Err(why) => {
                log.end = End::Damaged(why);
                break;
            }
        };
        if let Some(bad) = first_bad(&meta, &steps, &ring, read)? {
            log.end = End::Damaged(format!(
                "the checksum of the block at sector {bad} of the journal, of meta block {}, does not match",
                meta.sequence
            ));
            walk.go_on(&meta);
            log.lost = steps;
            walk.count_lost(read, &mut log)?;
            return Ok(log);
        }
        walk.go_on(&meta);
        log.metas.push((meta.sequence, steps.len()));
        log.steps.extend(steps);
        log.head = walk.at;
    }
    Ok(log)
}

/// A place in the ring.
struct Walk {
    ring: Ring,
    expected: u64,
    at: u64,
    used: u64,
}

impl Walk {
    fn look(&self, read: &mut Read<'_>, end: &mut End) -> Result<Found, String> {
        let found = self.find(read)?;
        if let Found::Damaged(why) = &found {
            *end = End::Damaged(why.clone());
        }
        Ok(found)
    }

    /// What is here.
    fn find(&self, read: &mut Read<'_>) -> Result<Found, String> {
        if self.used + SECTORS > self.ring.size {
            return Ok(Found::Nothing);
        }
        let mut bytes = vec![0; BLOCK_BYTES];
        read(self.at * 512, &mut bytes)?;
        // Blocks of an earlier turn of the ring have lower numbers.
        let is_next = u32_at(&bytes, 0) == MAGIC
            && u64_at(&bytes, 16) == self.expected
            && u64_at(&bytes, 24) == self.at;
        Ok(match Meta::parse(&bytes, &self.ring.array) {
            _ if !is_next => Found::Nothing,
            Ok(meta) => Found::Meta(meta),
            Err(why) => Found::Damaged(why),
        })
    }

    /// What a meta block says, with places.
    fn steps(&self, meta: &Meta) -> Result<Vec<Step>, String> {
        let impossible =
            |what: String| Err(format!("meta block {} of the journal has {what}", meta.sequence));
        let room = (self.ring.size - self.used) / SECTORS;
        if meta.blocks() >= room {
            return impossible(format!("{} blocks, and {} are left in the ring", meta.blocks(), room - 1));
        }
        let mut at = self.at;
        let mut steps = Vec::new();
        for payload in &meta.payloads {
            let (kinds, sector, blocks, is_discard) = match payload {
                Payload::Flush { sectors } => {
                    steps.extend(sectors.iter().map(|&sector| Step { kind: Kind::Flush, sector, at: 0 }));
                    continue;
                }
                Payload::Data { sector, checksums, is_discard } => {
                    (&[Kind::Data][..], *sector, checksums.len() as u64, *is_discard)
                }
                Payload::Parity { sector, checksums, is_discard } => {
                    let kinds = &[Kind::P, Kind::Q][..self.ring.parities.clamp(1, 2) as usize];
                    (kinds, *sector, checksums.len() as u64, *is_discard)
                }
            };
            if is_discard {
                return impossible("a discard, which is not known here".to_owned());
            }
            if blocks != kinds.len() as u64 {
                return impossible(format!("a payload of {blocks} blocks; {} are possible", kinds.len()));
            }
            for &kind in kinds {
                at = (at + SECTORS) % self.ring.size;
                steps.push(Step { kind, sector, at });
            }
        }
        Ok(steps)
    }

    /// Goes to the next meta block.
    fn go_on(&mut self, meta: &Meta) {
        let len = (1 + meta.blocks()) * SECTORS;
        self.at = (self.at + len) % self.ring.size;
        self.used += len;
        self.expected = self.expected.wrapping_add(1);
    }

    /// What follows damage, without looking at its data.
    fn count_lost(mut self, read: &mut Read<'_>, log: &mut Log) -> Result<(), String> {
        while let Found::Meta(meta) = self.find(read)? {
            let Ok(steps) = self.steps(&meta) else { break };
            if log.lost.len() + steps.len() > MAX_STEPS {
                break;
            }
            log.lost.extend(steps);
            log.followers += 1;
            self.go_on(&meta);
        }
        Ok(())
    }
}

/// The place of the first block of a meta block that is not what was written.
fn first_bad(meta: &Meta, steps: &[Step], ring: &Ring, read: &mut Read<'_>) -> Result<Option<u64>, String> {
    let sums = meta.payloads.iter().flat_map(|payload| match payload {
        Payload::Data { checksums, .. } | Payload::Parity { checksums, .. } => &checksums[..],
        Payload::Flush { .. } => &[],
    });
    let blocks = steps.iter().filter(|step| step.kind != Kind::Flush).map(|step| step.at);
    let mut blocks: Vec<(u64, u32)> = blocks.zip(sums.copied()).collect();
    let own = seed(&ring.array);
    // They lie one behind the other, except at the end of the ring.
    while let Some(&(begin, _)) = blocks.first() {
        let run = (ring.size - begin).min(PIECE / 512) / SECTORS;
        let rest = blocks.split_off(blocks.len().min(run as usize));
        let mut bytes = vec![0; blocks.len() * BLOCK_BYTES];
        read(begin * 512, &mut bytes)?;
        for (block, (at, sum)) in bytes.chunks_exact(BLOCK_BYTES).zip(&blocks) {
            if raw_crc(own, block) != *sum {
                return Ok(Some(*at));
            }
        }
        blocks = rest;
    }
    Ok(None)
}
