//! The memory of an open raw device that describes the I/O of a call: 2.4's kiobuf, the paper's lighter one,
//! or nothing but bios.
//!
//! Both kiobufs have the size given in the paper and serve the purposes described there: the map of the pages
//! of a call, the numbers of its blocks, and its buffer heads, which are bios here. Blocks and bios have
//! 32-bit numbers, as on the machines of 2.4, so these rungs end at 2 TiB.

use super::table::Descriptor;
use platter_block::bio::Bio;
use platter_block::segment::Segment;

/// Bytes of a kiobuf of 2.4.17 (section 8 of the paper).
pub const KIOBUF_BYTES: usize = 8792;
/// Bytes of the paper's kiobuf (section 8).
pub const LIGHT_KIOBUF_BYTES: usize = 608;

/// Pages that a kiobuf maps at a time (`KIO_STATIC_PAGES`).
pub(super) const STATIC_PAGES: usize = 65;
/// Sectors that a kiobuf describes at a time, and buffer heads that it has (`KIO_MAX_SECTORS`).
pub(super) const MAX_SECTORS: usize = 1024;

/// Size of the blocks that block numbers count.
pub(super) const SECTOR: u64 = 512;

/// The common part of both kiobufs.
#[repr(C)]
pub(super) struct Map {
    /// Addresses of the pieces of the call's memory; no piece crosses a page.
    pages: [usize; STATIC_PAGES],
    nr_pages: u32,
    length: u32,
    /// Space of a kiobuf's lists, callbacks, wait queue and lock; their equivalents are elsewhere.
    _rest: [u64; 9],
}

#[repr(C)]
pub(super) struct Kiobuf {
    map: Map,
    blocks: [u32; MAX_SECTORS],
    bh: [u32; MAX_SECTORS],
}

#[repr(C)]
pub(super) struct LightKiobuf {
    map: Map,
    /// First block number; the others follow.
    block: u32,
    /// First bio; the others follow.
    bh: u32,
}

const _: () = assert!(size_of::<Kiobuf>() == KIOBUF_BYTES);
const _: () = assert!(size_of::<LightKiobuf>() == LIGHT_KIOBUF_BYTES);

/// The descriptor of an open device.
pub(super) enum Open {
    Heavy(Box<Kiobuf>),
    Light(Box<LightKiobuf>),
}

impl Map {
    const EMPTY: Map = Map { pages: [0; STATIC_PAGES], nr_pages: 0, length: 0, _rest: [0; 9] };
}

impl Open {
    /// A descriptor; `None` if the rung uses only bios.
    pub(super) fn new(kind: Descriptor) -> Option<Open> {
        match kind {
            Descriptor::Kiobuf => {
                let mut bh = [0; MAX_SECTORS];
                (0..).zip(&mut bh).for_each(|(i, bh)| *bh = i);
                Some(Open::Heavy(Box::new(Kiobuf { map: Map::EMPTY, blocks: [0; MAX_SECTORS], bh })))
            }
            Descriptor::LightKiobuf => {
                Some(Open::Light(Box::new(LightKiobuf { map: Map::EMPTY, block: 0, bh: 0 })))
            }
            Descriptor::Bio => None,
        }
    }

    fn map(&self) -> &Map {
        match self {
            Open::Heavy(kiobuf) => &kiobuf.map,
            Open::Light(kiobuf) => &kiobuf.map,
        }
    }

    fn map_mut(&mut self) -> &mut Map {
        match self {
            Open::Heavy(kiobuf) => &mut kiobuf.map,
            Open::Light(kiobuf) => &mut kiobuf.map,
        }
    }

    /// Clears the map.
    pub(super) fn clear(&mut self) {
        let map = self.map_mut();
        (map.nr_pages, map.length) = (0, 0);
    }

    /// Maps a piece of memory. `false`: the map is full.
    pub(super) fn push(&mut self, address: usize, len: usize) -> bool {
        let map = self.map_mut();
        let Some(place) = map.pages.get_mut(map.nr_pages as usize) else { return false };
        *place = address;
        map.nr_pages += 1;
        map.length += len as u32;
        true
    }

    /// Address of a mapped piece.
    pub(super) fn page(&self, index: usize) -> usize {
        self.map().pages[index]
    }

    /// Number of mapped pieces.
    pub(super) fn nr_pages(&self) -> usize {
        self.map().nr_pages as usize
    }

    /// Number of mapped bytes.
    pub(super) fn length(&self) -> u64 {
        u64::from(self.map().length)
    }

    /// Numbers the mapped blocks, starting at `first`.
    pub(super) fn number_blocks(&mut self, first: u32) {
        let count = (self.length() / SECTOR) as usize;
        match self {
            Open::Heavy(kiobuf) => {
                (first..).zip(&mut kiobuf.blocks[..count]).for_each(|(number, block)| *block = number);
            }
            Open::Light(kiobuf) => kiobuf.block = first,
        }
    }

    /// Number of the block at a mapped sector.
    pub(super) fn block(&self, sector: usize) -> u32 {
        match self {
            Open::Heavy(kiobuf) => kiobuf.blocks[sector],
            Open::Light(kiobuf) => kiobuf.block + sector as u32,
        }
    }

    /// Number of the bio of a unit.
    pub(super) fn bh(&self, unit: usize) -> u32 {
        match self {
            Open::Heavy(kiobuf) => kiobuf.bh[unit],
            Open::Light(kiobuf) => kiobuf.bh + unit as u32,
        }
    }
}

/// Bytes of a bio with a list of `segments` buffers.
pub fn bio_bytes(segments: usize) -> usize {
    Bio::DESCRIPTOR_BYTES + if segments > INLINE { segments * size_of::<Segment>() } else { 0 }
}

/// Segments that a bio holds without a list (see [`Bio::DESCRIPTOR_BYTES`]).
const INLINE: usize = 4;

/// Bytes of the descriptor of an open device, for calls of `segments` buffers.
pub(super) fn bytes(kind: Descriptor, segments: usize) -> usize {
    match kind {
        Descriptor::Kiobuf => KIOBUF_BYTES,
        Descriptor::LightKiobuf => LIGHT_KIOBUF_BYTES,
        Descriptor::Bio => bio_bytes(segments),
    }
}
