//! The buffer: segments that each hold one range of sectors, the least recently used first.

use super::params::CacheParams;

/// The state of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentState {
    /// Holds nothing.
    Empty,
    /// Holds data that is on the medium.
    Clean,
    /// Is being filled from the medium, for a command or ahead of one.
    Reading,
    /// Holds data that must still be written; the arm is not there yet.
    Dirty,
    /// Is being written to the medium.
    Writing,
}

/// One segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) state: SegmentState,
    /// First sector.
    pub(crate) start: u64,
    /// The sector after the last.
    pub(crate) end: u64,
    /// How far read-ahead must go, at least and at most.
    pub(crate) ahead: (u64, u64),
    /// Last used by a write.
    pub(crate) written: bool,
}

/// Where a read finds its data in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hit {
    /// Nowhere.
    None,
    /// All in this segment.
    Whole(usize),
    /// The first sectors, in this segment.
    Partial(usize),
}

/// All segments.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    segments: Vec<Segment>,
    /// Numbers of segments, the least recently used first.
    order: Vec<u16>,
    size: u64,
    dedicated: Option<usize>,
    enabled: bool,
    read_hits_on_writes: bool,
    almost_hits: bool,
    write_segments: u32,
}

impl Cache {
    pub(crate) fn new(params: &CacheParams) -> Cache {
        let empty = Segment { state: SegmentState::Empty, start: 0, end: 0, ahead: (0, 0), written: false };
        Cache {
            segments: vec![empty; params.segments as usize],
            order: (0..params.segments as u16).collect(),
            size: u64::from(params.segment_size),
            dedicated: params.dedicated_write_segment.then_some(0),
            enabled: params.enabled,
            read_hits_on_writes: params.read_hits_on_writes,
            almost_hits: params.almost_hits,
            write_segments: params.write_segments,
        }
    }

    #[inline]
    pub(crate) fn get(&self, segment: usize) -> &Segment {
        &self.segments[segment]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, segment: usize) -> &mut Segment {
        &mut self.segments[segment]
    }

    /// Sectors of a segment.
    #[inline]
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Gives a segment a new end; data that no longer fits is dropped at its front.
    pub(crate) fn set_end(&mut self, segment: usize, end: u64) {
        let size = self.size;
        let segment = &mut self.segments[segment];
        segment.end = end;
        segment.start = segment.start.max(end.saturating_sub(size));
    }

    /// The best segment for reading this range: whole hits before partial ones, recent write data first.
    pub(crate) fn find_read(&self, sector: u64, sectors: u32) -> Hit {
        let end = sector + u64::from(sectors);
        let (mut best, mut hit) = (0, Hit::None);
        for &number in &self.order {
            let number = usize::from(number);
            let segment = &self.segments[number];
            let value = self.read_value(number, segment, sector, end);
            if value > best {
                best = value;
                hit = if segment.end >= end { Hit::Whole(number) } else { Hit::Partial(number) };
            }
        }
        hit
    }

    #[inline]
    fn read_value(&self, number: usize, segment: &Segment, sector: u64, end: u64) -> u32 {
        let inside = segment.start <= sector && sector < segment.end;
        let almost = self.almost_hits && segment.state == SegmentState::Reading && sector == segment.end;
        if !(inside || almost) || Some(number) == self.dedicated {
            return 0;
        }
        let value = match segment.state {
            SegmentState::Empty => return 0,
            SegmentState::Dirty if self.enabled && self.read_hits_on_writes => 11,
            SegmentState::Writing if self.enabled && self.read_hits_on_writes => 10,
            SegmentState::Dirty | SegmentState::Writing => return 0,
            SegmentState::Reading if self.enabled => 9,
            SegmentState::Reading => return 0,
            SegmentState::Clean if self.read_hits_on_writes || !segment.written => 8,
            SegmentState::Clean => return 0,
        };
        if segment.end >= end { value } else { value - 4 }
    }

    /// A segment for new data: an empty one, otherwise a clean one, otherwise the one being read ahead into.
    pub(crate) fn victim(&self, write: bool, range: (u64, u64)) -> Option<usize> {
        let (mut best, mut victim) = (0, None);
        for &number in &self.order {
            let number = usize::from(number);
            let segment = &self.segments[number];
            let usable = match self.dedicated {
                Some(dedicated) => write == (dedicated == number),
                None => true,
            };
            let value = match segment.state {
                _ if !usable => 0,
                SegmentState::Empty => 3,
                // Data that the write overwrites.
                SegmentState::Clean if write && segment.start < range.1 && range.0 < segment.end => 4,
                SegmentState::Clean => 2,
                SegmentState::Reading => 1,
                SegmentState::Dirty | SegmentState::Writing => 0,
            };
            if value > best {
                (best, victim) = (value, Some(number));
            }
        }
        if write && self.dirty() >= self.write_segments { None } else { victim }
    }

    /// Segments whose data must still be written.
    pub(crate) fn dirty(&self) -> u32 {
        let dirty = |segment: &&Segment| matches!(segment.state, SegmentState::Dirty | SegmentState::Writing);
        self.segments.iter().filter(dirty).count() as u32
    }

    /// Whether data waits to be written.
    pub(crate) fn dirty_waiting(&self) -> bool {
        self.segments.iter().any(|segment| segment.state == SegmentState::Dirty)
    }

    /// The segments in a state, the least recently used first.
    pub(crate) fn in_state(&self, state: SegmentState) -> impl Iterator<Item = usize> {
        self.order.iter().map(|&number| usize::from(number)).filter(move |&n| self.segments[n].state == state)
    }

    /// A segment that ends where this write begins and that waits for the arm or is being written.
    pub(crate) fn appendable(&self, sector: u64) -> Option<usize> {
        self.segments.iter().position(|segment| {
            matches!(segment.state, SegmentState::Dirty | SegmentState::Writing) && segment.end == sector
        })
    }

    /// Dirty segments that this range touches.
    pub(crate) fn dirty_overlap(&self, sector: u64, end: u64) -> Option<usize> {
        self.segments.iter().position(|segment| {
            segment.state == SegmentState::Dirty && segment.start < end && sector < segment.end
        })
    }

    /// Marks a segment as the most recently used.
    pub(crate) fn touch(&mut self, segment: usize) {
        if let Some(at) = self.order.iter().position(|&number| usize::from(number) == segment) {
            self.order[at..].rotate_left(1);
        }
    }

    /// Whether a segment is the most recently used.
    pub(crate) fn is_latest(&self, segment: usize) -> bool {
        self.order.last().is_some_and(|&number| usize::from(number) == segment)
    }

    /// Empties clean segments that overlap a range that was changed.
    pub(crate) fn invalidate(&mut self, sector: u64, end: u64, except: Option<usize>) {
        for (number, segment) in self.segments.iter_mut().enumerate() {
            if segment.state == SegmentState::Clean
                && Some(number) != except
                && segment.start < end
                && sector < segment.end
            {
                segment.state = SegmentState::Empty;
            }
        }
    }
}
