//! The write-intent bitmap of an array that is being written: its bits in memory, and which pages of it are to be written.
//!
//! All members have the same bitmap. Its area is a header of [`HEADER_BYTES`] and the bits behind it, in pages of [`PAGE`] bytes that
//! are written as a whole. The order is the caller's, and it is md's:
//!
//! 1. Before a write to the array, [`set`](Intent::set) its range. The pages that it returns are made durable on all members, then the write
//!    may start. If it returns none, the bits are durable already, or on their way by a call before: the write waits for that.
//! 2. When nothing of a chunk is being written and all members have it, [`clear`](Intent::clear) it. Those pages may be written at any time; a
//!    bit that stays set by a crash only costs time. While a member is missing nothing is cleared, because that is what it lacks.
//! 3. Before superblocks with new events are written, [`set_events`](Intent::set_events), and its page.
//!
//! Source: `md-bitmap.c` of Linux 6.12 and `md(4)`.

use crate::bitmap::{Bitmap, HEADER_BYTES, MAX_DATA, STALE, VERSION, WRITE_ERROR};
use crate::superblock::{Level, SECTOR, Superblock};
use std::collections::BTreeSet;
use std::ops::Range;

/// Size of a page in bytes.
pub const PAGE: usize = 4096;

/// Numbers of pages, in order.
pub type Pages = BTreeSet<u64>;

/// The bitmap of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    header: Bitmap,
    /// The area as it lies on the members, but for the header.
    area: Vec<u8>,
    /// Bits that are set.
    count: u64,
}

/// How a bitmap was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loaded {
    /// Its bits say what may differ.
    Current,
    /// They do not, so that all are set now: why.
    OutOfDate(String),
}

impl Intent {
    /// A bitmap whose bits are clear, or all set. `block` is the largest logical block of the members, in bytes: the end of the bitmap is
    /// rounded up to it.
    ///
    /// # Errors
    /// Another version than 4; a chunk or a size that is impossible.
    pub fn new(header: Bitmap, block: u32, is_set: bool) -> Result<Intent, String> {
        if header.version != VERSION {
            return Err(format!("the bitmap has version {}; {VERSION} can be written", header.version));
        }
        if !header.chunk.is_power_of_two() || !(SECTOR..=1 << 31).contains(&header.chunk) {
            return Err(format!(
                "the bitmap's chunk is {} bytes; powers of two from {SECTOR} to 2^31 are possible",
                header.chunk
            ));
        }
        if !block.is_power_of_two() || block > PAGE as u32 {
            return Err(format!(
                "the bitmap's logical block is {block} bytes; powers of two up to {PAGE} are possible"
            ));
        }
        if header.data_bytes() > MAX_DATA {
            return Err(format!(
                "the bitmap takes {} bytes for its bits; at most {MAX_DATA} are possible",
                header.data_bytes()
            ));
        }
        let used = HEADER_BYTES + header.data_bytes() as usize;
        let area = vec![0; used.next_multiple_of((block as usize).max(SECTOR as usize))];
        let mut intent = Intent { header, area, count: 0 };
        if is_set {
            intent.set_all();
        }
        Ok(intent)
    }

    /// The bitmap of an array from the bytes of its area, with `newest` the superblock that is believed. A bitmap that does not say what may
    /// differ is loaded with all bits set.
    ///
    /// # Errors
    /// It is no bitmap of version 4 (or 3, which is the same here), or that of another array.
    pub fn load(
        bytes: &[u8],
        newest: &Superblock,
        sync_size: u64,
        block: u32,
    ) -> Result<(Intent, Loaded), String> {
        let header = Bitmap::parse(bytes)?;
        if header.array != newest.array {
            return Err(format!(
                "the bitmap is that of the array {}, and this is {}",
                header.array, newest.array
            ));
        }
        let is_known = header.version == VERSION || (header.version == 3 && cfg!(target_endian = "little"));
        if !is_known {
            return Err(format!("the bitmap has version {}; {VERSION} can be written", header.version));
        }
        let data = bytes.get(HEADER_BYTES..).unwrap_or_default();
        let why = if header.sync_size != sync_size {
            Some(format!("the bitmap covers {} sectors, and the array has {sync_size}", header.sync_size))
        } else if header.is_stale() {
            Some("the bitmap says that it is stale".to_owned())
        } else if header.events < newest.events {
            Some(format!("the bitmap has {} events, and the array has {}", header.events, newest.events))
        } else if (data.len() as u64) < header.data_bytes() {
            Some(format!("the bitmap has {} bytes of bits; {} are needed", data.len(), header.data_bytes()))
        } else {
            None
        };
        let fresh = Bitmap { version: VERSION, sync_size, state: header.state & !STALE, ..header };
        let mut intent = Intent::new(fresh, block, why.is_some())?;
        let Some(why) = why else {
            intent.copy_bits(data);
            return Ok((intent, Loaded::Current));
        };
        // A member that left before cannot know what it lacks.
        intent.header.events_cleared = newest.events;
        intent.header.events = newest.events;
        Ok((intent, Loaded::OutOfDate(why)))
    }

    fn copy_bits(&mut self, data: &[u8]) {
        for chunk in 0..self.header.chunks() {
            if data[(chunk / 8) as usize] >> (chunk % 8) & 1 != 0 {
                self.flip(chunk);
            }
        }
    }

    /// The header.
    pub fn header(&self) -> &Bitmap {
        &self.header
    }

    /// Number of chunks.
    pub fn chunks(&self) -> u64 {
        self.header.chunks()
    }

    /// Number of bits that are set.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether a chunk is marked.
    pub fn is_set(&self, chunk: u64) -> bool {
        chunk < self.chunks() && self.area[byte_of(chunk)] >> (chunk % 8) & 1 != 0
    }

    fn flip(&mut self, chunk: u64) {
        let byte = &mut self.area[byte_of(chunk)];
        *byte ^= 1 << (chunk % 8);
        match *byte >> (chunk % 8) & 1 {
            0 => self.count -= 1,
            _ => self.count += 1,
        }
    }

    /// The chunks that a range of bytes touches. Positions are those of `sync_size`: of a member's data, and for raid10 of the array.
    fn touched(&self, range: &Range<u64>) -> Range<u64> {
        let chunk = self.header.chunk;
        if range.is_empty() {
            return 0..0;
        }
        let last = range.end.div_ceil(chunk).min(self.chunks());
        (range.start / chunk).min(last)..last
    }

    /// Marks the chunks that a range of bytes touches. Returns the pages in which bits were set that were clear.
    pub fn set(&mut self, range: Range<u64>) -> Pages {
        let chunks = self.touched(&range);
        self.change(chunks, true)
    }

    /// Clears the chunks that lie in a range of bytes as a whole; the last chunk ends with the array. Returns the pages in which bits were
    /// cleared.
    pub fn clear(&mut self, range: Range<u64>) -> Pages {
        let chunk = self.header.chunk;
        let is_end = range.end >= self.header.sync_size.saturating_mul(SECTOR);
        let last = if is_end { self.chunks() } else { range.end / chunk };
        let first = range.start.div_ceil(chunk);
        self.change(first..last.max(first), false)
    }

    /// Marks all chunks.
    pub fn set_all(&mut self) -> Pages {
        self.change(0..self.chunks(), true)
    }

    fn change(&mut self, chunks: Range<u64>, to: bool) -> Pages {
        let mut pages = Pages::new();
        for chunk in chunks {
            if self.is_set(chunk) != to {
                self.flip(chunk);
                pages.insert((byte_of(chunk) / PAGE) as u64);
            }
        }
        pages
    }

    /// The next range of bytes that is marked, from `pos` on.
    pub fn next_set(&self, pos: u64) -> Option<Range<u64>> {
        let end = self.header.sync_size.saturating_mul(SECTOR);
        let chunk = self.header.chunk;
        let first = (pos / chunk..self.chunks()).find(|&at| self.is_set(at))?;
        let last = (first..self.chunks()).find(|&at| !self.is_set(at)).unwrap_or(self.chunks());
        Some((first * chunk).max(pos)..(last * chunk).min(end)).filter(|range| !range.is_empty())
    }

    /// Notes the events of the superblocks that are about to be written. `events_cleared` follows them while the array is complete, and
    /// stands still while it is not. Returns the page to write before the superblocks.
    pub fn set_events(&mut self, events: u64, is_complete: bool) -> Pages {
        self.header.events = events;
        if is_complete {
            self.header.events_cleared = events;
        }
        Pages::from([0])
    }

    /// Says that the bitmap is out of date, or is so no more. Returns the page to write.
    pub fn set_stale(&mut self, is_stale: bool) -> Pages {
        self.state(STALE, is_stale)
    }

    /// Says that a write of the bitmap has failed, or that it is in order again. Returns the page to write.
    pub fn set_write_error(&mut self, is_failed: bool) -> Pages {
        self.state(WRITE_ERROR, is_failed)
    }

    fn state(&mut self, bit: u32, is_on: bool) -> Pages {
        let state = if is_on { self.header.state | bit } else { self.header.state & !bit };
        if std::mem::replace(&mut self.header.state, state) == state {
            Pages::new()
        } else {
            Pages::from([0])
        }
    }

    /// Whether a member that left with these events may come back and take only the chunks that are marked.
    pub fn covers(&self, events: u64) -> bool {
        !self.header.is_stale() && events >= self.header.events_cleared
    }

    /// Numbers of all pages.
    pub fn pages(&self) -> Pages {
        (0..self.area.len().div_ceil(PAGE) as u64).collect()
    }

    /// A page: its position in the area, in bytes, and what it has. The last one ends with the bits, rounded up to a logical block.
    pub fn page(&self, number: u64) -> Option<(u64, Vec<u8>)> {
        let begin = usize::try_from(number).ok()?.checked_mul(PAGE)?;
        let end = (begin + PAGE).min(self.area.len());
        let mut bytes = self.area.get(begin..end).filter(|bytes| !bytes.is_empty())?.to_vec();
        if number == 0 {
            bytes[..HEADER_BYTES].copy_from_slice(&self.header.encode());
        }
        Some((begin as u64, bytes))
    }

    /// All of the area.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.area.clone();
        bytes[..HEADER_BYTES].copy_from_slice(&self.header.encode());
        bytes
    }
}

/// The sectors that the bitmap of an array covers, in bytes of its superblock's units: those of a member, and for raid10 of the array, which
/// has `array` sectors.
pub fn sync_size(superblock: &Superblock, array: u64) -> u64 {
    match superblock.level {
        Level::Raid10 => array,
        _ => superblock.component,
    }
}

/// The byte of the area that has the bit of a chunk.
fn byte_of(chunk: u64) -> usize {
    HEADER_BYTES + (chunk / 8) as usize
}
