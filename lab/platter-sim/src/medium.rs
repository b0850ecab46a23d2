//! The contents of a simulated disk.

use platter_block::allocation::Extent;
use std::collections::{BTreeSet, HashMap};

mod volatile;

pub(crate) use volatile::Volatile;

/// Bytes of a sector.
pub const SECTOR: usize = 512;

/// Sectors that are stored together.
const PAGE_SECTORS: u64 = 8;
const PAGE: usize = SECTOR * PAGE_SECTORS as usize;

/// The contents of a disk: zeroes where nothing was written; only written parts take memory.
#[derive(Default)]
pub struct Medium {
    pages: HashMap<u64, Box<[u8; PAGE]>>,
}

impl Medium {
    /// A medium full of zeroes.
    pub fn new() -> Medium {
        Medium::default()
    }

    /// Reads whole sectors.
    pub fn read(&self, sector: u64, mut out: &mut [u8]) {
        let mut at = sector;
        while !out.is_empty() {
            let (page, skip) = (at / PAGE_SECTORS, (at % PAGE_SECTORS) as usize * SECTOR);
            let (piece, rest) = out.split_at_mut(out.len().min(PAGE - skip));
            match self.pages.get(&page) {
                Some(bytes) => piece.copy_from_slice(&bytes[skip..skip + piece.len()]),
                None => piece.fill(0),
            }
            at += (piece.len() / SECTOR) as u64;
            out = rest;
        }
    }

    /// Writes whole sectors.
    pub fn write(&mut self, sector: u64, mut data: &[u8]) {
        let mut at = sector;
        while !data.is_empty() {
            let (page, skip) = (at / PAGE_SECTORS, (at % PAGE_SECTORS) as usize * SECTOR);
            let (piece, rest) = data.split_at(data.len().min(PAGE - skip));
            let bytes = self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE]));
            bytes[skip..skip + piece.len()].copy_from_slice(piece);
            at += (piece.len() / SECTOR) as u64;
            data = rest;
        }
    }

    /// The contents of a sector.
    fn get(&self, sector: u64) -> volatile::Contents {
        let skip = (sector % PAGE_SECTORS) as usize * SECTOR;
        let page = self.pages.get(&(sector / PAGE_SECTORS))?;
        page[skip..skip + SECTOR].try_into().ok().map(Box::new)
    }

    /// Replaces the contents of a sector.
    fn put(&mut self, sector: u64, contents: volatile::Contents) {
        match contents {
            Some(bytes) => self.write(sector, &bytes[..]),
            None => self.zero(sector, 1),
        }
    }

    /// The sectors of a range that are in memory; all others are zeroes.
    fn stored(&self, sector: u64, sectors: u64) -> BTreeSet<u64> {
        let end = sector + sectors;
        let (first, last) = (sector / PAGE_SECTORS, end.div_ceil(PAGE_SECTORS));
        let of = |page: u64| (page * PAGE_SECTORS).max(sector)..((page + 1) * PAGE_SECTORS).min(end);
        if last - first > self.pages.len() as u64 {
            let inside = self.pages.keys().copied().filter(|page| (first..last).contains(page));
            return inside.flat_map(of).collect();
        }
        (first..last).filter(|page| self.pages.contains_key(page)).flat_map(of).collect()
    }

    /// The allocation status of the bytes from `pos` on, at most `len`, which is at least 1.
    pub(crate) fn allocation(&self, pos: u64, len: u64) -> Extent {
        let (first, end) = (pos / PAGE as u64, (pos + len).div_ceil(PAGE as u64));
        let until = |page: u64| (page * PAGE as u64 - pos).min(len);
        if self.pages.contains_key(&first) {
            let next = (first..end).find(|page| !self.pages.contains_key(page));
            return Extent::data(pos, until(next.unwrap_or(end)));
        }
        let next = match end - first > self.pages.len() as u64 {
            true => self.pages.keys().copied().filter(|page| (first..end).contains(page)).min(),
            false => (first..end).find(|page| self.pages.contains_key(page)),
        };
        Extent::hole(pos, until(next.unwrap_or(end)))
    }

    /// Changes a bit of a sector.
    pub(crate) fn flip(&mut self, sector: u64, bit: usize) {
        let mut bytes = self.get(sector).unwrap_or_else(|| Box::new([0; SECTOR]));
        bytes[bit / 8 % SECTOR] ^= 1 << (bit % 8);
        self.put(sector, Some(bytes));
    }

    /// Makes sectors read as zeroes.
    pub fn zero(&mut self, sector: u64, sectors: u64) {
        let mut at = sector;
        let end = sector + sectors;
        if sectors / PAGE_SECTORS > self.pages.len() as u64 {
            // Far less is stored than is cleared, as where the end of a large disk is cut off.
            let (first, last) = (at.div_ceil(PAGE_SECTORS), end / PAGE_SECTORS);
            self.pages.retain(|page, _| !(first..last).contains(page));
            self.zero(at, first * PAGE_SECTORS - at);
            at = last * PAGE_SECTORS;
        }
        while at < end {
            let next = end.min((at / PAGE_SECTORS + 1) * PAGE_SECTORS);
            let skip = (at % PAGE_SECTORS) as usize * SECTOR;
            if next - at == PAGE_SECTORS {
                self.pages.remove(&(at / PAGE_SECTORS));
            } else if let Some(bytes) = self.pages.get_mut(&(at / PAGE_SECTORS)) {
                bytes[skip..skip + (next - at) as usize * SECTOR].fill(0);
            }
            at = next;
        }
    }
}
