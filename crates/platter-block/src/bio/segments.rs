//! The segment list of a bio: four segments in place, more in a vector that clones share.

use crate::segment::Segment;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Most segments of one bio: the system's `IOV_MAX`.
pub const MAX_SEGMENTS: usize = 1024;

const INLINE: usize = 4;

pub(crate) struct SegmentList {
    inline: [Segment; INLINE],
    spill: Option<Arc<Vec<Segment>>>,
    /// Bytes of the first remaining segment that are done.
    pub(crate) skip: u32,
    count: u16,
    /// Index of the first segment that is not done.
    pub(crate) first: u16,
}

impl SegmentList {
    pub(crate) const fn new() -> SegmentList {
        SegmentList { inline: [Segment::EMPTY; INLINE], spill: None, skip: 0, count: 0, first: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> u16 {
        self.count
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[Segment] {
        let count = usize::from(self.count);
        match self.inline.get(..count) {
            Some(inline) => inline,
            None => self.spill.as_deref().map_or(&[], Vec::as_slice),
        }
    }

    /// Empties the list; keeps the vector unless it is shared.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.count = 0;
        if self.spill.as_mut().is_some_and(|spill| Arc::get_mut(spill).is_none()) {
            self.spill = None;
        }
    }

    /// Adds a segment at the end; `false` if the list is full.
    #[inline]
    pub(crate) fn push(&mut self, segment: Segment) -> bool {
        let count = usize::from(self.count);
        if let Some(place) = self.inline.get_mut(count) {
            *place = segment;
        } else if count < MAX_SEGMENTS {
            self.push_spilled(count, segment);
        } else {
            return false;
        }
        self.count += 1;
        true
    }

    #[cold]
    fn push_spilled(&mut self, count: usize, segment: Segment) {
        let shared = self.spill.get_or_insert_with(|| Arc::new(Vec::with_capacity(16)));
        if Arc::get_mut(shared).is_none() {
            // A clone still uses the old vector, so the clone keeps it.
            let mut own = Vec::with_capacity(count + 1);
            own.extend_from_slice(shared);
            *shared = Arc::new(own);
        }
        if let Some(spill) = Arc::get_mut(shared) {
            if count == INLINE {
                spill.clear();
                spill.extend_from_slice(&self.inline);
            }
            spill.push(segment);
        }
    }

    /// Becomes a view of the same segments: up to four are copied, a vector is shared.
    pub(crate) fn share(&mut self, other: &SegmentList) {
        self.count = other.count;
        if usize::from(other.count) <= INLINE {
            self.inline = other.inline;
            if self.spill.as_mut().is_some_and(|spill| Arc::get_mut(spill).is_none()) {
                self.spill = None;
            }
        } else {
            self.spill.clone_from(&other.spill);
        }
    }
}

/// Iterator over the segments of a bio that are not done, trimmed at both ends.
#[derive(Clone)]
pub struct Segments<'a> {
    rest: core::slice::Iter<'a, Segment>,
    skip: u32,
    left: u64,
}

impl<'a> Segments<'a> {
    #[inline]
    pub(crate) fn new(list: &'a [Segment], first: u16, skip: u32, left: u64) -> Segments<'a> {
        Segments { rest: list.get(usize::from(first)..).unwrap_or(&[]).iter(), skip, left }
    }
}

impl Iterator for Segments<'_> {
    type Item = Segment;

    #[inline]
    fn next(&mut self) -> Option<Segment> {
        if self.left == 0 {
            return None;
        }
        let segment = self.rest.next()?;
        let len = u64::from(segment.len() - self.skip).min(self.left);
        let piece = segment.slice(self.skip, len as u32);
        self.skip = 0;
        self.left -= len;
        Some(piece)
    }
}
