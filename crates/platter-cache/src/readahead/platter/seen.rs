//! Recent reads that belong to no stream.

use super::pos_of;
use crate::readahead::Access;

/// A read that continued nothing.
#[derive(Clone, Copy, Debug)]
struct Once {
    /// Its first byte.
    pos: u64,
    /// The page after its last.
    end: u64,
    /// Distance to the nearest earlier read, in bytes, if this one began behind it; 0 if there was none.
    step: i64,
}

/// Relation of a read to an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// It continues where the earlier one ended.
    Forward,
    /// It is this many bytes behind (negative: before) the earlier one, and further reads at this distance are
    /// expected.
    Steps(i64),
}

/// The last reads that continued nothing, in a ring.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    ring: Vec<Once>,
    capacity: usize,
    next: usize,
}

impl Seen {
    pub(super) fn new(capacity: usize) -> Seen {
        Seen { ring: Vec::with_capacity(capacity), capacity, next: 0 }
    }

    /// The relation of a read, whose `page` is missing with `before` cached pages before it, to the reads seen. The
    /// read that it continues is forgotten.
    pub(super) fn find(&mut self, access: &Access, page: u64, before: u32) -> Option<Match> {
        let pos = pos_of(access);
        let mut steps = None;
        for (index, once) in self.ring.iter().enumerate() {
            if (page.saturating_sub(u64::from(before))..=page).contains(&once.end) && once.pos != pos {
                self.forget(index);
                return Some(Match::Forward);
            }
            if pos.saturating_add(access.len) == once.pos && access.len > 0 {
                steps = steps.or(i64::try_from(access.len).ok().map(|len| (index, -len)));
            } else if once.step != 0 && once.pos.checked_add_signed(once.step) == Some(pos) {
                steps = Some((index, once.step));
            }
        }
        let (index, step) = steps?;
        self.forget(index);
        Some(Match::Steps(step))
    }

    fn forget(&mut self, index: usize) {
        // The slot is reused when its turn comes.
        self.ring[index] = Once { pos: u64::MAX, end: u64::MAX, step: 0 };
    }

    /// Remembers a read in the slot of the oldest.
    pub(super) fn remember(&mut self, access: &Access) {
        let pos = pos_of(access);
        let others = self.ring.iter().filter(|once| once.end != u64::MAX && once.pos != pos);
        let nearest = others.min_by_key(|once| once.pos.abs_diff(pos));
        let step = nearest.and_then(|once| i64::try_from(i128::from(pos) - i128::from(once.pos)).ok());
        let once = Once { pos, end: access.end(), step: step.unwrap_or(0) };
        if self.ring.len() < self.capacity {
            self.ring.push(once);
            return;
        }
        self.ring[self.next] = once;
        self.next = (self.next + 1) % self.capacity;
    }
}
