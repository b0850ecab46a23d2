//! What clients know of the blocks of a device, and what is in its file.

use std::fs::File;
use std::os::unix::fs::FileExt;

pub(crate) const BLOCK: usize = 4096;
pub(crate) const SECTOR: usize = 512;
/// Clients of a server.
pub(crate) const CLIENTS: u64 = 3;
/// Blocks of each client.
pub(crate) const BLOCKS: u64 = 256;

/// What is known of a block: versions that count its writes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Block {
    pub(crate) sent: u64,
    pub(crate) answered: u64,
    pub(crate) durable: u64,
}

/// A small generator of numbers, which differ from run to run only by the seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A block of this version: each sector says which it is.
pub(crate) fn contents(block: u64, version: u64) -> Vec<u8> {
    let sector = [&block.to_le_bytes()[..], &version.to_le_bytes()].concat();
    let whole = [sector, vec![version as u8; SECTOR - 16]].concat();
    whole.repeat(BLOCK / SECTOR)
}

/// Everything that clients know, by client and block.
pub(crate) struct Known(Vec<Vec<Block>>);

impl Known {
    pub(crate) fn new() -> Known {
        Known(vec![vec![Block::default(); BLOCKS as usize]; CLIENTS as usize])
    }

    pub(crate) fn of(&self, client: u64) -> Vec<Block> {
        self.0[client as usize].clone()
    }

    /// Compares what a client knows when its server was killed with the file. `durable_only`: what it was told to be durable is
    /// there; otherwise all that was answered.
    pub(crate) fn check(&mut self, disk: &File, client: u64, blocks: &[Block], durable_only: bool) {
        for (at, block) in blocks.iter().enumerate() {
            let least = if durable_only { block.durable } else { block.answered };
            let version = check(disk, client * BLOCKS + at as u64, least, block.sent);
            self.0[client as usize][at] = Block { sent: block.sent, answered: version, durable: version };
        }
    }
}

/// The version of a block, which must lie in a range. Sectors may differ only if the write was in flight.
fn check(disk: &File, block: u64, least: u64, most: u64) -> u64 {
    let mut bytes = [0; BLOCK];
    disk.read_exact_at(&mut bytes, block * BLOCK as u64).unwrap();
    let versions = bytes.chunks(SECTOR).map(|sector| {
        let version = u64::from_le_bytes(sector[8..16].try_into().unwrap());
        let wanted = if version == 0 { vec![0; SECTOR] } else { contents(block, version)[..SECTOR].to_vec() };
        assert!(sector == wanted, "block {block}: contents of no write");
        assert!((least..=most).contains(&version), "block {block}: version {version}, not {least} to {most}");
        version
    });
    versions.min().unwrap_or(0)
}
