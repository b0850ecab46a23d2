//! The segment list of a bio: four segments in place, more in a vector that clones share. The command of a bio is kept
//! beside that vector, because few bios have one, and a bio has no room for another pointer.

use crate::command::Command;
use crate::segment::Segment;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Most segments of one bio: the system's `IOV_MAX`.
pub const MAX_SEGMENTS: usize = 1024;

const INLINE: usize = 4;

/// What does not fit into a bio.
#[derive(Clone, Default)]
struct Spill {
    /// All segments, if there are more than [`INLINE`].
    segments: Vec<Segment>,
    command: Option<Arc<Command>>,
}

pub(crate) struct SegmentList {
    inline: [Segment; INLINE],
    spill: Option<Arc<Spill>>,
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
            None => self.spill.as_ref().map_or(&[], |spill| spill.segments.as_slice()),
        }
    }

    /// Empties the list and drops the command; keeps the vector unless it is shared.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.count = 0;
        if let Some(spill) = &mut self.spill {
            match Arc::get_mut(spill) {
                Some(own) => own.command = None,
                None => self.spill = None,
            }
        }
    }

    /// Empties the list and keeps the command.
    pub(crate) fn clear_segments(&mut self) {
        (self.count, self.first, self.skip) = (0, 0, 0);
        if self.command().is_none() {
            self.clear();
        }
    }

    #[inline]
    pub(crate) fn command(&self) -> Option<&Arc<Command>> {
        self.spill.as_ref()?.command.as_ref()
    }

    pub(crate) fn set_command(&mut self, command: Option<Arc<Command>>) {
        match self.spill.as_mut().and_then(Arc::get_mut) {
            Some(own) => own.command = command,
            None => self.own_spill().command = command,
        }
    }

    /// The spill, copied first if clones use it.
    fn own_spill(&mut self) -> &mut Spill {
        let spill = self.spill.get_or_insert_default();
        if Arc::get_mut(spill).is_none() {
            let mut segments = Vec::with_capacity(spill.segments.len() + 1);
            segments.extend_from_slice(&spill.segments);
            *spill = Arc::new(Spill { segments, command: spill.command.clone() });
        }
        // Nothing shares it now, so this copies nothing.
        Arc::make_mut(spill)
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
        let inline = self.inline;
        // A clone that still uses the old vector keeps it.
        let segments = &mut self.own_spill().segments;
        if count == INLINE {
            segments.clear();
            segments.reserve(16);
            segments.extend_from_slice(&inline);
        }
        segments.push(segment);
    }

    /// Becomes a view of the same segments: up to four are copied, a vector is shared.
    pub(crate) fn share(&mut self, other: &SegmentList) {
        if usize::from(other.count) <= INLINE && other.command().is_none() {
            self.clear();
        } else {
            self.spill.clone_from(&other.spill);
        }
        (self.inline, self.count) = (other.inline, other.count);
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
