//! The requests of all processes: sorted and in order of arrival per process, the dispatch list in front of
//! the driver, and requests that were chosen and have not completed.

use super::Nearest;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use platter_block::elevator::{Fifos, ListId, RequestId, RequestInfo, SectorMap};
use platter_block::time::Time;

const NONE: u32 = u32::MAX;

/// Bits of a sector number; the bits above hold the slot.
const SECTOR_BITS: u32 = 48;

/// The record of a queued request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Slot of its process.
    pub(crate) slot: u32,
    pub(crate) pos: u64,
    pub(crate) end: u64,
    pub(crate) arrived: Time,
    pub(crate) sync: bool,
    pub(crate) dir: u8,
}

impl Entry {
    pub(crate) fn new(slot: u32, now: Time, info: &RequestInfo) -> Entry {
        let (pos, end, dir) = (info.pos, info.end(), info.dir as u8);
        Entry { slot, pos, end, arrived: now, sync: info.sync, dir }
    }
}

/// The record of a request from its choice to its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) slot: u32,
    /// When it left for the driver.
    pub(crate) at: Time,
    pub(crate) dir: u8,
    generation: u32,
}

impl Taken {
    const NONE: Taken = Taken { slot: NONE, at: Time(0), dir: 0, generation: 0 };
}

/// Where an absorbed request was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// Queued with its process.
    Queued(Entry),
    /// On the dispatch list.
    Chosen(Taken),
}

#[derive(Clone, Copy, Debug)]
struct Ready {
    pos: u64,
    end: u64,
    id: RequestId,
}

/// All requests that an elevator holds. A request is with its process (slot), in one of the lists of that
/// slot, until it is chosen; then on the dispatch list until it leaves; then only its record is kept until it
/// completes.
///
/// The requests of a slot are a range of one sorted map, whose positions have the slot in their upper bits.
/// Positions beyond 2^57 bytes count as one.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    fifos: Fifos<Entry>,
    sorted: SectorMap,
    ready: VecDeque<Ready>,
    taken: Vec<Taken>,
    /// Lists per slot, and number of slots.
    lists: u32,
    slots: u32,
    /// End of the last chosen request, and of the last one that left.
    head: u64,
    boundary: u64,
}

#[inline]
fn place(slot: u32, pos: u64) -> u64 {
    u64::from(slot) << SECTOR_BITS | (pos >> 9).min((1 << SECTOR_BITS) - 1)
}

#[inline]
fn of_slot(slot: u32, found: Option<(u64, RequestId)>) -> Option<RequestId> {
    found.filter(|&(place, _)| place >> SECTOR_BITS == u64::from(slot)).map(|(_, id)| id)
}

impl Requests {
    /// An empty set with `lists` lists per slot.
    pub(crate) fn new(lists: u32) -> Requests {
        let (fifos, sorted) = (Fifos::new(0), SectorMap::new());
        let (ready, taken) = (VecDeque::new(), Vec::new());
        Requests { fifos, sorted, ready, taken, lists, slots: 0, head: 0, boundary: 0 }
    }

    /// Makes room for `requests` requests and `slots` slots.
    pub(crate) fn reserve(&mut self, requests: usize, slots: usize) {
        self.fifos.reserve(requests);
        self.sorted.reserve(requests);
        self.ready.reserve(requests.saturating_sub(self.ready.len()));
        if requests > self.taken.len() {
            self.taken.resize(requests, Taken::NONE);
        }
        while (self.slots as usize) < slots {
            (0..self.lists).for_each(|_| {
                self.fifos.add_list();
            });
            self.slots += 1;
        }
    }

    /// Whether there is room for a request of this index.
    #[inline]
    pub(crate) fn has_room(&self, id: RequestId) -> bool {
        (id.index as usize) < self.taken.len()
    }

    /// Requests with their processes or on the dispatch list.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.fifos.len() + self.ready.len()
    }

    #[inline]
    fn list(&self, slot: u32, number: u32) -> ListId {
        ListId::new(slot * self.lists + number)
    }

    /// Adds a request at the end of list `number` of its slot, which must be below the slots reserved.
    /// Returns `false` and changes nothing if a request with this index has not completed.
    #[inline]
    pub(crate) fn insert(&mut self, number: u32, id: RequestId, entry: Entry) -> bool {
        let taken = self.taken.get(id.index as usize).is_some_and(|taken| taken.slot != NONE);
        if taken || !self.fifos.push_back(self.list(entry.slot, number), id, entry) {
            return false;
        }
        self.sorted.insert(place(entry.slot, entry.pos), id)
    }

    /// A request that is with its process.
    #[inline]
    pub(crate) fn get(&self, id: RequestId) -> Option<&Entry> {
        self.fifos.get(id)
    }

    /// The request of a slot with the lowest position.
    #[inline]
    pub(crate) fn lowest(&self, slot: u32) -> Option<RequestId> {
        of_slot(slot, self.sorted.first_at_or_after(place(slot, 0)))
    }

    /// The oldest request of a list of a slot, and when it arrived.
    #[inline]
    pub(crate) fn oldest(&self, slot: u32, number: u32) -> Option<(RequestId, Time)> {
        self.fifos.front(self.list(slot, number)).map(|(id, entry)| (id, entry.arrived))
    }

    /// The better of two requests that are with their processes, for a disk at `head`.
    #[inline]
    fn nearer(&self, rule: Nearest, head: u64, a: RequestId, b: RequestId) -> RequestId {
        let rank = |id| self.fifos.get(id).map(|entry| rule.rank(head, (entry.pos, entry.sync)));
        match (rank(a), rank(b)) {
            (Some(one), Some(other)) if one <= other => a,
            (Some(_), None) => a,
            _ => b,
        }
    }

    /// The better of a request and one that is new or has moved.
    #[inline]
    pub(crate) fn better(&self, rule: Nearest, old: Option<RequestId>, new: RequestId) -> RequestId {
        old.map_or(new, |old| self.nearer(rule, self.head, old, new))
    }

    /// The best request of a slot to follow `id`, of which it is a neighbour in the sorted order; the
    /// neighbour after the highest request is the lowest. The disk is at the end of `id` if that is `chosen`
    /// now, otherwise where the last choice left it.
    #[inline]
    pub(crate) fn best_beside(&self, rule: Nearest, id: RequestId, chosen: bool) -> Option<RequestId> {
        let entry = self.fifos.get(id)?;
        let (slot, here) = (entry.slot, place(entry.slot, entry.pos));
        let head = if chosen { entry.end } else { self.head };
        let before = of_slot(slot, self.sorted.predecessor(here, id));
        let after =
            of_slot(slot, self.sorted.successor(here, id)).or_else(|| before.and_then(|_| self.lowest(slot)));
        match (before, after) {
            (Some(before), Some(after)) => Some(self.nearer(rule, head, after, before)),
            (before, after) => before.or(after),
        }
    }

    /// Chooses a request: it goes to the dispatch list, which is sorted by position from `boundary` on and
    /// then from the lowest; equal positions stay in order. Returns the record.
    pub(crate) fn choose(&mut self, id: RequestId, boundary: u64) -> Option<Entry> {
        let entry = self.fifos.remove(id)?;
        self.sorted.remove(place(entry.slot, entry.pos), id);
        let rank = |pos: u64| (pos < boundary, pos);
        let before = self.ready.iter().rev().take_while(|ready| rank(ready.pos) > rank(entry.pos)).count();
        let ready = Ready { pos: entry.pos, end: entry.end, id };
        self.ready.insert(self.ready.len() - before, ready);
        self.head = entry.end;
        let (slot, dir) = (entry.slot, entry.dir);
        self.taken[id.index as usize] = Taken { slot, at: Time(0), dir, generation: id.generation };
        Some(entry)
    }

    /// End of the last request that left.
    #[inline]
    pub(crate) fn boundary(&self) -> u64 {
        self.boundary
    }

    /// Whether there are requests on the dispatch list.
    #[inline]
    pub(crate) fn has_chosen(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Removes the first request of the dispatch list, for the driver.
    #[inline]
    pub(crate) fn leave(&mut self, now: Time) -> Option<RequestId> {
        let ready = self.ready.pop_front()?;
        self.boundary = ready.end;
        self.taken[ready.id.index as usize].at = now;
        Some(ready.id)
    }

    /// The slot of a request that was chosen and has not completed.
    #[inline]
    pub(crate) fn chosen_by(&self, id: RequestId) -> Option<u32> {
        self.taken.get(id.index as usize).map(|taken| taken.slot).filter(|&slot| slot != NONE)
    }

    /// A request has grown.
    pub(crate) fn grow(&mut self, id: RequestId, new: &RequestInfo) {
        if let Some(entry) = self.fifos.get_mut(id) {
            let old = core::mem::replace(entry, Entry { pos: new.pos, end: new.end(), ..*entry });
            if old.pos != new.pos {
                self.sorted.remove(place(old.slot, old.pos), id);
                self.sorted.insert(place(old.slot, new.pos), id);
            }
        } else if let Some(ready) = self.ready.iter_mut().find(|ready| ready.id == id) {
            *ready = Ready { pos: new.pos, end: new.end(), id };
        }
    }

    /// `absorbed` has become a part of `survivor`. In one list, the survivor inherits the age of the older.
    pub(crate) fn absorb(&mut self, survivor: RequestId, absorbed: RequestId) -> Option<Gone> {
        if survivor == absorbed {
            return None;
        }
        let Some(&gone) = self.fifos.get(absorbed) else {
            let at = self.ready.iter().position(|ready| ready.id == absorbed)?;
            self.ready.remove(at);
            return self.complete(absorbed).map(Gone::Chosen);
        };
        self.sorted.remove(place(gone.slot, gone.pos), absorbed);
        let same = self.fifos.list_of(survivor) == self.fifos.list_of(absorbed);
        if let Some(entry) = self.fifos.get_mut(survivor)
            && same
            && gone.arrived < entry.arrived
        {
            entry.arrived = gone.arrived;
            self.fifos.take_place(survivor, absorbed);
        }
        self.fifos.remove(absorbed);
        Some(Gone::Queued(gone))
    }

    /// A chosen request has completed; `None` if it is unknown.
    #[inline]
    pub(crate) fn complete(&mut self, id: RequestId) -> Option<Taken> {
        let taken = self.taken.get_mut(id.index as usize)?;
        if taken.slot == NONE || taken.generation != id.generation {
            return None;
        }
        Some(core::mem::replace(taken, Taken::NONE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_block::bio::{Context, IoPrio, Op};
    use platter_block::elevator::Dir;

    const SECTOR: u64 = 512;

    fn id(index: u32) -> RequestId {
        RequestId { index, generation: 7 }
    }

    fn info(sector: u64) -> RequestInfo {
        let (pos, len) = (sector * SECTOR, 8 * SECTOR);
        let (ioprio, context) = (IoPrio::NONE, Context::new(0));
        RequestInfo { pos, len, dir: Dir::Read, op: Op::Read, sync: true, ioprio, context }
    }

    /// Requests 0, 1, … at these sectors, each with a slot, in order of arrival.
    fn with(places: &[(u32, u64)]) -> Requests {
        let mut requests = Requests::new(1);
        requests.reserve(16, 8);
        for (index, &(slot, sector)) in (0..).zip(places) {
            let entry = Entry::new(slot, Time(index.into()), &info(sector));
            assert!(requests.insert(0, id(index), entry));
            assert!(!requests.insert(0, id(index), entry), "its place is taken");
        }
        requests
    }

    const RULE: Nearest = Nearest { back_max: 1 << 20, penalty: 2 };

    #[test]
    fn slots_are_apart() {
        let requests = with(&[(0, 900), (1, 100), (1, 50), (3, 10)]);
        assert_eq!(requests.lowest(0), Some(id(0)));
        assert_eq!(requests.lowest(1), Some(id(2)));
        assert_eq!(requests.lowest(2), None);
        assert_eq!(requests.oldest(1, 0), Some((id(1), Time(1))));
        assert_eq!(requests.best_beside(RULE, id(0), false), None);
        assert_eq!(requests.best_beside(RULE, id(1), false), Some(id(2)));
    }

    #[test]
    fn the_dispatch_list_is_sorted_from_the_boundary() {
        let mut requests = with(&[(0, 900), (1, 100), (1, 50), (0, 300), (2, 300)]);
        for index in [0, 1, 2, 3, 4] {
            let entry = requests.choose(id(index), 100 * SECTOR).expect("queued");
            assert!(!requests.insert(0, id(index), entry), "it has not completed");
            assert_eq!(requests.complete(id(index)).map(|taken| taken.slot), Some(entry.slot));
        }
        assert_eq!(requests.len(), 5);
        let left: Vec<u32> = core::iter::from_fn(|| requests.leave(Time(0))).map(|id| id.index).collect();
        assert_eq!((left, requests.boundary()), ([1, 3, 4, 0, 2].to_vec(), 58 * SECTOR));
    }

    #[test]
    fn merges_reach_queued_and_chosen_requests() {
        let mut requests = with(&[(1, 8), (1, 0), (1, 16), (1, 24)]);
        assert_eq!(requests.absorb(id(1), id(1)), None);
        let gone = Entry::new(1, Time(0), &info(8));
        assert_eq!(requests.absorb(id(1), id(0)), Some(Gone::Queued(gone)));
        assert_eq!(requests.oldest(1, 0), Some((id(1), Time(0))), "the age of the older");
        requests.grow(id(1), &RequestInfo { len: 16 * SECTOR, ..info(0) });
        requests.choose(id(1), 0);
        requests.choose(id(2), 0);
        assert!(matches!(requests.absorb(id(1), id(2)), Some(Gone::Chosen(taken)) if taken.slot == 1));
        requests.grow(id(1), &RequestInfo { len: 24 * SECTOR, ..info(0) });
        requests.grow(id(3), &info(20));
        assert_eq!(requests.get(id(3)).map(|entry| entry.pos), Some(20 * SECTOR));
        assert_eq!(
            (requests.leave(Time(6)), requests.boundary(), requests.len()),
            (Some(id(1)), 24 * SECTOR, 1)
        );
        assert_eq!(requests.absorb(id(3), id(2)), None, "not there any more");
        let stale = RequestId { index: 1, generation: 6 };
        assert_eq!(requests.complete(stale), None);
        assert_eq!(requests.complete(id(1)).map(|taken| taken.at), Some(Time(6)), "when it left");
        assert_eq!(requests.complete(id(1)), None);
    }
}
