//! Ranges of operations that bypass the cache: discards and write-zeroes.
//!
//! Reads and writes of such a range wait until the operation ends. Write-back of the range continues until
//! the operation is with the device, so that pages elsewhere that depend on it for order can be written.

use platter_stack::kit::ranges::{Mode, RangeKey, RangeLocks};
use std::ops::Range;

/// A range of pages reserved for one operation.
#[derive(Debug, Default)]
pub(super) struct Reserved {
    /// Pages of the range that the device is reading or writing for other I/Os: the operation waits for them.
    pub(super) busy: u32,
    /// The operation is with the device: nothing of the range is written back.
    pub(super) closed: bool,
    /// Lanes that wait for its end.
    pub(super) waiters: Vec<u32>,
}

/// All reservations, which do not overlap. A ticket is the number of a lock.
#[derive(Default)]
pub(super) struct Ranges(RangeLocks<Reserved>);

impl Ranges {
    /// Reserves a range of which `busy` pages are busy. `Err`: the ticket of an overlapping reservation.
    pub(super) fn reserve(&mut self, pages: Range<u64>, busy: u32) -> Result<u64, u64> {
        let reserved = Reserved { busy, ..Reserved::default() };
        let key = self.0.try_lock(pages, Mode::Exclusive, reserved);
        key.map(RangeKey::number).map_err(RangeKey::number)
    }

    /// Ends a reservation. Returns the lanes that waited for that.
    pub(super) fn end(&mut self, ticket: u64) -> Vec<u32> {
        let reserved = self.0.unlock(RangeKey::of_number(ticket), &mut Vec::new());
        reserved.map(|reserved| reserved.waiters).unwrap_or_default()
    }

    pub(super) fn get(&mut self, ticket: u64) -> Option<&mut Reserved> {
        self.0.get_mut(RangeKey::of_number(ticket))
    }

    /// Whether a reservation has not ended.
    #[inline]
    pub(super) fn is_live(&self, ticket: u64) -> bool {
        self.0.is_live(RangeKey::of_number(ticket))
    }

    /// The ticket of the reservation of a page.
    #[inline]
    pub(super) fn of(&self, page: u64) -> Option<u64> {
        if self.0.is_empty() { None } else { self.0.at(page).map(|(key, _)| key.number()) }
    }

    /// Whether the operation on a page's range is with the device.
    #[inline]
    pub(super) fn is_closed(&self, page: u64) -> bool {
        !self.0.is_empty() && self.0.at(page).is_some_and(|(_, range)| range.closed)
    }

    /// The device has begun to read or write a page.
    #[inline]
    pub(super) fn began(&mut self, page: u64) {
        if !self.0.is_empty() {
            self.0.each_at(page, |range| range.busy += 1);
        }
    }

    /// The device has finished with a page.
    #[inline]
    pub(super) fn ended(&mut self, page: u64) {
        if !self.0.is_empty() {
            self.0.each_at(page, |range| range.busy = range.busy.saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_one_operations_until_it_ends() {
        let mut ranges = Ranges::default();
        let one = ranges.reserve(10..20, 1).unwrap();
        assert_eq!(ranges.reserve(19..30, 0), Err(one));
        let two = ranges.reserve(20..30, 0).unwrap();
        assert_eq!((ranges.of(19), ranges.of(20), ranges.of(30)), (Some(one), Some(two), None));
        ranges.began(15);
        ranges.ended(15);
        ranges.ended(15);
        ranges.ended(25);
        assert_eq!((ranges.get(one).unwrap().busy, ranges.get(two).unwrap().busy), (0, 0));
        ranges.get(two).unwrap().closed = true;
        ranges.get(two).unwrap().waiters.push(3);
        assert!(ranges.is_closed(25) && !ranges.is_closed(15));
        assert_eq!((ranges.end(two), ranges.end(two)), (vec![3], vec![]));
        assert!(ranges.is_live(one) && !ranges.is_live(two));
    }
}
