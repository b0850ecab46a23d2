//! Meta blocks of the journal of a raid4, raid5 or raid6, which lies on a device of its own.
//!
//! Source: `struct r5l_meta_block` of Linux 6.12 (`md_p.h`, `raid5-cache.c`).

mod overlay;
mod scan;

pub use overlay::{Applied, Overlay, Row};
pub use scan::{End, Kind, Log, Read, Ring, Step, scan};

use crate::bytes::{u16_at, u32_at, u64_at};
use crate::uuid::Uuid;

/// Size of a meta block, and of a block of data, in bytes.
pub const BLOCK_BYTES: usize = 4096;

const MAGIC: u32 = 0x6433_c509;
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 32;
const PAYLOAD_BYTES: usize = 16;

/// What a payload is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Blocks of data: first sector on the array, and the checksum of each block of 4 KiB.
    Data {
        /// First sector of the array.
        sector: u64,
        /// Of each block.
        checksums: Vec<u32>,
        /// Whether the blocks are void and not to be written.
        is_discard: bool,
    },
    /// Parity of a row: its first sector on the members, and the checksums of P and Q.
    Parity {
        /// First sector on a member.
        sector: u64,
        /// Of each block.
        checksums: Vec<u32>,
        /// Whether the blocks are void and not to be written.
        is_discard: bool,
    },
    /// Rows that have reached the members.
    Flush {
        /// First sectors of rows on the members.
        sectors: Vec<u64>,
    },
}

/// A meta block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Number of the block.
    pub sequence: u64,
    /// Its place in the ring, in sectors.
    pub position: u64,
    /// What it describes; the blocks follow it.
    pub payloads: Vec<Payload>,
}

/// The checksum without inversions at its beginning and end, continued from `seed`.
fn raw_crc(seed: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, bytes)
}

/// The seed of all checksums of a journal.
fn seed(array: &Uuid) -> u32 {
    raw_crc(!0, &array.0)
}

impl Meta {
    /// Parses a meta block of the journal of an array.
    ///
    /// # Errors
    /// It is none, damaged or impossible.
    pub fn parse(bytes: &[u8], array: &Uuid) -> Result<Meta, String> {
        if bytes.len() < BLOCK_BYTES {
            return Err(format!(
                "a meta block of a journal has {BLOCK_BYTES} bytes; there are {}",
                bytes.len()
            ));
        }
        let bytes = &bytes[..BLOCK_BYTES];
        let magic = u32_at(bytes, 0);
        if magic != MAGIC {
            return Err(format!(
                "the journal's block begins with {magic:#010x}; {MAGIC:#010x} is a meta block"
            ));
        }
        if bytes[8] != VERSION {
            return Err(format!("the journal has version {}; {VERSION} is known", bytes[8]));
        }
        let mut sealed = bytes.to_vec();
        sealed[4..8].fill(0);
        let (stated, computed) = (u32_at(bytes, 4), raw_crc(seed(array), &sealed));
        if stated != computed {
            return Err(format!(
                "the checksum of the journal's block does not match: it says {stated:#010x} and has {computed:#010x}"
            ));
        }
        let size = u32_at(bytes, 12) as usize;
        if !(HEADER_BYTES..=BLOCK_BYTES).contains(&size) {
            return Err(format!(
                "the journal's block uses {size} bytes; {HEADER_BYTES} to {BLOCK_BYTES} are possible"
            ));
        }
        let mut payloads = Vec::new();
        let mut rest = &bytes[HEADER_BYTES..size];
        while !rest.is_empty() {
            let (payload, len) = payload(rest)?;
            payloads.push(payload);
            rest = &rest[len..];
        }
        Ok(Meta { sequence: u64_at(bytes, 16), position: u64_at(bytes, 24), payloads })
    }

    /// Blocks that follow it.
    pub fn blocks(&self) -> u64 {
        let of = |payload: &Payload| match payload {
            Payload::Data { checksums, is_discard: false, .. }
            | Payload::Parity { checksums, is_discard: false, .. } => checksums.len() as u64,
            _ => 0,
        };
        self.payloads.iter().map(of).sum()
    }
}

/// The first payload, and how many bytes it takes.
fn payload(rest: &[u8]) -> Result<(Payload, usize), String> {
    if rest.len() < PAYLOAD_BYTES {
        return Err(format!(
            "{} bytes are left for a payload of the journal, which has 16 at least",
            rest.len()
        ));
    }
    let (kind, flags, size) = (u16_at(rest, 0), u16_at(rest, 2), u32_at(rest, 4));
    let fits = |len: usize| match len <= rest.len() {
        true => Ok(len),
        false => Err(format!("a payload of the journal has {len} bytes, and {} are left", rest.len())),
    };
    if kind == 2 {
        if size % 8 != 0 {
            return Err(format!("a flush of the journal lists {size} bytes; multiples of 8 are possible"));
        }
        let len = fits(8 + size as usize)?;
        let sectors = (8..len).step_by(8).map(|at| u64_at(rest, at)).collect();
        return Ok((Payload::Flush { sectors }, len));
    }
    if kind > 2 {
        return Err(format!("a payload of the journal has type {kind}; 0 to 2 are known"));
    }
    if size == 0 || size % 8 != 0 {
        return Err(format!(
            "a payload of the journal has {size} sectors; multiples of 8 from 8 are possible"
        ));
    }
    let len = fits(PAYLOAD_BYTES + size as usize / 8 * 4)?;
    let checksums = (PAYLOAD_BYTES..len).step_by(4).map(|at| u32_at(rest, at)).collect();
    let (sector, is_discard) = (u64_at(rest, 8), flags & 1 != 0);
    let payload = match kind {
        0 => Payload::Data { sector, checksums, is_discard },
        _ => Payload::Parity { sector, checksums, is_discard },
    };
    Ok((payload, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(array: &Uuid, payloads: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0u8; BLOCK_BYTES];
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8] = 1;
        bytes[12..16].copy_from_slice(&(32 + payloads.len() as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&5u64.to_le_bytes());
        bytes[24..32].copy_from_slice(&64u64.to_le_bytes());
        bytes[32..32 + payloads.len()].copy_from_slice(payloads);
        let sum = raw_crc(seed(array), &bytes);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn payload_bytes(kind: u16, size: u32, sector: u64, sums: &[u32]) -> Vec<u8> {
        let mut bytes = [kind.to_le_bytes(), [0, 0]].concat();
        bytes.extend(size.to_le_bytes());
        bytes.extend(sector.to_le_bytes());
        bytes.extend(sums.iter().flat_map(|sum| sum.to_le_bytes()));
        bytes
    }

    #[test]
    fn payloads_are_read_in_order() {
        let array = Uuid([9; 16]);
        let payloads = [payload_bytes(0, 16, 800, &[1, 2]), payload_bytes(1, 8, 256, &[3]), {
            let mut flush = [2u16.to_le_bytes(), [0, 0]].concat();
            flush.extend(8u32.to_le_bytes());
            flush.extend(40u64.to_le_bytes());
            flush
        }]
        .concat();
        let bytes = meta(&array, &payloads);
        let read = Meta::parse(&bytes, &array).unwrap();
        assert_eq!((read.sequence, read.position, read.blocks()), (5, 64, 3));
        let data = Payload::Data { sector: 800, checksums: vec![1, 2], is_discard: false };
        let parity = Payload::Parity { sector: 256, checksums: vec![3], is_discard: false };
        assert_eq!(read.payloads, [data, parity, Payload::Flush { sectors: vec![40] }]);
        assert!(Meta::parse(&bytes, &Uuid([8; 16])).unwrap_err().contains("checksum"));
    }

    #[test]
    fn impossible_payloads_are_named() {
        let array = Uuid([9; 16]);
        let said = |payloads: &[u8]| Meta::parse(&meta(&array, payloads), &array).unwrap_err();
        assert!(said(&payload_bytes(3, 8, 0, &[0])).contains("type 3"));
        assert!(said(&payload_bytes(0, 0, 0, &[])).contains("0 sectors"));
        assert!(said(&payload_bytes(0, 4096, 0, &[0])).contains("are left"));
        assert!(said(&[0; 8]).contains("8 bytes are left"));
        assert!(Meta::parse(&[0; 4096], &array).unwrap_err().contains("0x00000000"));
    }
}
