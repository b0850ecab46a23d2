//! The memory of a guest, mapped into this process, and bios over it.
//!
//! The segments of a bio over it are the guest's memory. The bio owns a reference to the mapping, so the mapping outlives
//! every bio over it. Such a bio is flagged `BORROWED`: it completes when the driver has returned the memory, and only then
//! is the guest answered, which uses the memory again (`queue/data.rs`).
//!
//! The guest and the front end may change this memory at any time. So it is only accessed through volatile slices or by
//! drivers, never through references, and what is read from it is checked after it was copied out.

#![allow(unsafe_code)]

use platter_block::bio::Bio;
use platter_block::buf::{IoBuf, IoBufMut, add_memory};
use platter_block::fault::Fault;
use platter_block::segment::RegionId;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory, VolatileSlice};

/// Most regions of a guest's memory.
pub(super) const MAX_REGIONS: usize = 32;

/// Where a region of a guest's memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its address in the guest.
    pub guest: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Its address in the process of the front end.
    pub user: u64,
    /// Its offset in the file, in bytes.
    pub offset: u64,
}

/// A region that is mapped.
struct Mapped {
    at: Region,
    map: MmapRegion,
}

/// The memory of a guest.
#[derive(Clone, Default)]
pub struct Memory {
    regions: Vec<Arc<Mapped>>,
}

/// A piece of a guest's memory that lies in one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    region: u32,
    offset: u64,
    /// Its length in bytes.
    pub len: u32,
}

impl Piece {
    /// The piece without its first `bytes`. It is at least that long.
    pub(super) fn after(self, bytes: u32) -> Piece {
        Piece { offset: self.offset + u64::from(bytes), len: self.len - bytes, ..self }
    }

    /// The first `bytes` of the piece.
    pub(super) fn first(self, bytes: u32) -> Piece {
        Piece { len: bytes, ..self }
    }
}

/// A place in a region from which on a number of bytes exist.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    region: usize,
    offset: usize,
    len: usize,
}

impl Memory {
    /// Memory of `len` bytes at guest address 0, which is not shared with anything.
    ///
    /// # Errors
    /// The system has no such memory.
    pub fn private(len: usize) -> Result<Memory, String> {
        let map = MmapRegion::new(len).map_err(|error| error.to_string())?;
        let at = Region { guest: 0, len: len as u64, user: 0, offset: 0 };
        Ok(Memory { regions: vec![Arc::new(Mapped { at, map })] })
    }

    /// Copies bytes to an address of the guest. `false`: they do not lie in one region, and nothing was copied.
    pub fn write(&self, guest: u64, bytes: &[u8]) -> bool {
        let place = self.place_of_guest(guest, bytes.len());
        place.is_some_and(|place| self.slice(place).write_slice(bytes, 0).is_ok())
    }

    /// This memory with one more region, which `file` holds.
    ///
    /// # Errors
    /// A sentence: the region overlaps another one, the file is too short or cannot be mapped, or there are too many.
    pub(super) fn with(&self, at: Region, file: File) -> Result<Memory, String> {
        let Region { guest, len, user, offset } = at;
        let overflows = [guest, user, offset].iter().any(|start| start.checked_add(len).is_none());
        if len == 0 || overflows {
            return Err(format!(
                "a memory region of {len} bytes at {guest:#x} (user {user:#x}) is impossible"
            ));
        }
        if self.regions.len() >= MAX_REGIONS {
            return Err(format!("more than {MAX_REGIONS} memory regions"));
        }
        let overlaps = |a: u64, b: u64, other: u64| a < b + other && b < a + len;
        if let Some(other) = self.regions.iter().find(|other| {
            overlaps(guest, other.at.guest, other.at.len) || overlaps(user, other.at.user, other.at.len)
        }) {
            return Err(format!("memory regions at {guest:#x} and {:#x} overlap", other.at.guest));
        }
        let map = map(file, offset + len).map_err(|why| format!("the memory region at {guest:#x}: {why}"))?;
        let mut regions = self.regions.clone();
        regions.push(Arc::new(Mapped { at, map }));
        Ok(Memory { regions })
    }

    /// This memory without a region.
    ///
    /// # Errors
    /// There is no such region.
    pub(super) fn without(&self, at: Region) -> Result<Memory, String> {
        let is_it = |other: &Region| (other.guest, other.len, other.user) == (at.guest, at.len, at.user);
        let found = self.regions.iter().position(|region| is_it(&region.at));
        let found = found.ok_or_else(|| format!("there is no memory region at {:#x}", at.guest))?;
        let mut regions = self.regions.clone();
        regions.remove(found);
        Ok(Memory { regions })
    }

    /// The place of `len` bytes at an address of the front end's process, if they lie in one region.
    pub(super) fn place_of_user(&self, user: u64, len: usize) -> Option<Place> {
        self.place(user, len, |at| at.user)
    }

    /// The place of `len` bytes at an address of the guest, if they lie in one region.
    pub(super) fn place_of_guest(&self, guest: u64, len: usize) -> Option<Place> {
        self.place(guest, len, |at| at.guest)
    }

    fn place(&self, address: u64, len: usize, start: impl Fn(&Region) -> u64) -> Option<Place> {
        self.regions.iter().enumerate().find_map(|(region, mapped)| {
            let within = address.checked_sub(start(&mapped.at))?;
            let fits = within.checked_add(len as u64)? <= mapped.at.len;
            fits.then_some(Place { region, offset: (mapped.at.offset + within) as usize, len })
        })
    }

    /// The memory of a place. A place of other memory gives an empty slice.
    #[inline]
    pub(super) fn slice(&self, place: Place) -> VolatileSlice<'_> {
        let mapped = self.regions.get(place.region);
        let slice = mapped.and_then(|mapped| mapped.map.get_slice(place.offset, place.len).ok());
        // SAFETY: a slice of no bytes accesses nothing, wherever it is.
        slice.unwrap_or_else(|| unsafe { VolatileSlice::new(std::ptr::null_mut(), 0) })
    }

    /// Adds the pieces of `len` bytes at an address of the guest to `out`. `false`: not all of them are memory of the guest.
    #[inline]
    pub(super) fn pieces(&self, mut guest: u64, mut len: u32, out: &mut Vec<Piece>) -> bool {
        while len > 0 {
            let found = self.regions.iter().enumerate().find_map(|(region, mapped)| {
                let within = guest.checked_sub(mapped.at.guest).filter(|within| *within < mapped.at.len)?;
                Some((region, within, mapped.at.len - within, mapped.at.offset + within))
            });
            let Some((region, _, left, offset)) = found else { return false };
            let here = u64::from(len).min(left) as u32;
            out.push(Piece { region: region as u32, offset, len: here });
            len -= here;
            let Some(next) = guest.checked_add(u64::from(here)) else { return len == 0 };
            guest = next;
        }
        true
    }

    /// The memory of a piece, which must be of this memory.
    #[inline]
    pub(super) fn piece(&self, piece: Piece) -> VolatileSlice<'_> {
        let place =
            Place { region: piece.region as usize, offset: piece.offset as usize, len: piece.len as usize };
        self.slice(place)
    }
}

/// Maps the first `end` bytes of a file. From its beginning, because an offset in a file of huge pages would have to be a
/// multiple of their size.
fn map(file: File, end: u64) -> Result<MmapRegion, String> {
    let about = file.metadata().map_err(|error| error.to_string())?;
    if about.len() < end {
        return Err(format!("its file has {} bytes, and {end} are needed", about.len()));
    }
    // The length, too, must be a multiple of the size of a page, which is the preferred block of such a file.
    let whole = end.checked_next_multiple_of(about.blksize().max(1)).unwrap_or(end).min(about.len());
    let len = usize::try_from(whole).map_err(|_| format!("{whole} bytes are too many"))?;
    MmapRegion::from_file(FileOffset::new(file, 0), len)
        .map_err(|error| format!("it cannot be mapped: {error}"))
}

/// Memory of a guest that a bio uses, in order.
pub(super) struct Lent {
    memory: Arc<Memory>,
    pub(super) pieces: Vec<Piece>,
}

impl Lent {
    pub(super) fn new(memory: &Arc<Memory>) -> Lent {
        Lent { memory: Arc::clone(memory), pieces: Vec::new() }
    }
}

// SAFETY: the segments lie in mappings that the reference to the memory keeps, at addresses that do not change while it
// is moved. The memory is shared with another process, which may write to it at any time: that is the guest's own loss,
// and no code of this process reads it through a reference or relies on it staying the same.
unsafe impl IoBuf for Lent {
    const IS_FOREIGN: bool = false;

    fn byte_len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len as usize).sum()
    }

    unsafe fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        self.pieces.iter().try_for_each(|piece| {
            let slice = self.memory.piece(*piece);
            let (address, len) = (slice.ptr_guard_mut().as_ptr(), slice.len());
            // SAFETY: the slice lies in a mapping that this value keeps, and it is in the bio's owner from here on.
            unsafe { add_memory(bio, address, len, RegionId::NONE) }
        })
    }
}

// SAFETY: the mappings are readable and writable, and any byte may have any value.
unsafe impl IoBufMut for Lent {}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(len: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(len).unwrap();
        file
    }

    #[test]
    fn regions_are_checked_and_addresses_translated() {
        let at = |guest, len, user, offset| Region { guest, len, user, offset };
        let memory = Memory::default().with(at(0x1000, 0x2000, 0x7000, 0x1000), file(0x3000)).unwrap();
        let memory = memory.with(at(0x3000, 0x1000, 0x100_0000, 0), file(0x1000)).unwrap();
        assert!(memory.with(at(0x2fff, 0x10, 0x200_0000, 0), file(0x1000)).is_err(), "overlaps");
        assert!(memory.with(at(0x8000, 0x10, 0x7fff, 0), file(0x1000)).is_err(), "overlaps for the user");
        assert!(memory.with(at(0x9000, 0x1001, 0x200_0000, 0), file(0x1000)).is_err(), "short file");
        assert!(memory.with(at(0x9000, 0, 0x200_0000, 0), file(0x1000)).is_err(), "empty");
        assert!(memory.with(at(u64::MAX - 5, 10, 0, 0), file(0x1000)).is_err(), "wraps");
        assert!(memory.with(at(0, 10, 0, u64::MAX - 5), file(0x1000)).is_err(), "offset wraps");
        let mut pieces = Vec::new();
        assert!(memory.pieces(0x2ff0, 0x20, &mut pieces), "adjacent regions");
        assert_eq!(pieces.iter().map(|piece| piece.len).collect::<Vec<_>>(), [0x10, 0x10]);
        assert_eq!((pieces[0].offset, pieces[1].offset), (0x2ff0, 0));
        for (guest, len) in [(0xfff, 1), (0x4000, 1), (0x3fff, 2), (u64::MAX, 1), (0xfff, u32::MAX)] {
            assert!(!memory.pieces(guest, len, &mut Vec::new()), "{guest:#x} {len}");
        }
        assert!(memory.place_of_user(0x8fff, 1).is_some() && memory.place_of_user(0x8fff, 2).is_none());
        assert!(memory.place_of_guest(0x2ff0, 0x20).is_none(), "in two regions");
        let fewer = memory.without(at(0x3000, 0x1000, 0x100_0000, 0)).unwrap();
        assert!(!fewer.pieces(0x3000, 1, &mut Vec::new()));
        assert!(fewer.without(at(0x3000, 0x1000, 0x100_0000, 0)).is_err());
    }

    #[test]
    fn a_bio_keeps_the_mapping() {
        let memory = Arc::new(Memory::private(8192).unwrap());
        memory.piece(Piece { region: 0, offset: 100, len: 3 }).copy_from(b"abc");
        let mut lent = Lent::new(&memory);
        assert!(memory.pieces(100, 3, &mut lent.pieces));
        let bio = Bio::write(0, lent).unwrap();
        let kept = Arc::downgrade(&memory);
        drop(memory);
        assert!(kept.upgrade().is_some());
        drop(bio);
        assert!(kept.upgrade().is_none());
    }
}
