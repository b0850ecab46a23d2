//! Which queue has the next slice: the rotation over levels of Linux up to 2.6.21, and the tree of 2.6.22.

use super::queue::Queue;
use crate::cfq::Processes;
use platter_block::bio::Class;
use platter_block::elevator::{Fifos, ListId, RequestId, SectorMap};

/// Number of best effort levels; their lists are the first ones.
const LEVELS: u8 = 8;
/// Queues whose turn it is: real time, then one level.
const CURRENT: ListId = ListId::new(8);
/// Queues of best effort that have requests in flight.
const BUSY: ListId = ListId::new(9);
/// Queues of the idle class.
const IDLE: ListId = ListId::new(10);

/// Visits the levels 0 | 0, 1 | 0, 1, 2 | … | 0 to 7 and again: level p comes 8 − p times in a cycle.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Walk {
    next: u8,
    end: u8,
}

/// Steps of a cycle.
const CYCLE: u32 = 36;

impl Walk {
    pub(super) fn step(&mut self) -> u8 {
        let level = self.next;
        if self.next < self.end {
            self.next += 1;
        } else {
            self.next = 0;
            self.end = (self.end + 1) % LEVELS;
        }
        level
    }
}

#[inline]
fn member(slot: u32) -> RequestId {
    RequestId { index: slot, generation: 0 }
}

/// The queues that wait for a slice. Members of the lists are slots.
#[derive(Clone, Debug)]
pub(super) struct Order {
    lists: Fifos<()>,
    walk: Walk,
    /// Ordered by virtual time; in an entry's id the index is a count of such entries and the generation the
    /// slot.
    tree: SectorMap,
    serial: u32,
}

impl Order {
    pub(super) fn new() -> Order {
        Order { lists: Fifos::new(11), walk: Walk::default(), tree: SectorMap::new(), serial: 0 }
    }

    pub(super) fn reserve(&mut self, requests: usize, slots: usize) {
        self.lists.reserve(slots);
        self.tree.reserve(requests);
    }

    /// Inserts a queue before the first member of a list for which `is_ahead` is false, or at the end.
    /// Members that are ahead are at the front of the list.
    fn put(&mut self, list: ListId, slot: u32, is_ahead: impl Fn(u32) -> bool) {
        let last = self.lists.back(list).filter(|(id, ())| !is_ahead(id.index));
        let behind =
            last.and_then(|_| self.lists.iter(list).map(|(id, ())| id).find(|id| !is_ahead(id.index)));
        match behind {
            Some(behind) => self.lists.insert_before(behind, member(slot), ()),
            None => self.lists.push_back(list, member(slot), ()),
        };
    }

    /// Adds a queue to its list. A queue that is new or was preempted goes to the front, behind others that
    /// are new.
    pub(super) fn add(&mut self, queues: &Processes<Queue>, slot: u32, preempted: bool) {
        let queue = &queues[slot];
        let front = preempted || queue.new;
        match queue.class {
            Class::RealTime => self.put(CURRENT, slot, |other| {
                queues[other].class == Class::RealTime && (!front || queues[other].new)
            }),
            class => {
                let list = match class {
                    Class::Idle => IDLE,
                    _ if queue.in_flight > 0 => BUSY,
                    _ => ListId::new(queue.level.into()),
                };
                self.put(list, slot, |other| !front || queues[other].new);
            }
        }
    }

    /// Adds a queue of best effort to the tree.
    pub(super) fn add_to_tree(&mut self, queues: &mut Processes<Queue>, slot: u32, place: u64) {
        let entry = RequestId { index: self.serial, generation: slot };
        self.serial = self.serial.wrapping_add(1);
        self.tree.insert(place, entry);
        queues[slot].in_tree = Some((place, entry));
    }

    /// Inserts a queue so that it is next, except for queues of real time.
    pub(super) fn add_first(&mut self, queues: &Processes<Queue>, slot: u32) {
        let real_time = queues[slot].class == Class::RealTime;
        self.put(CURRENT, slot, |other| !real_time && queues[other].class == Class::RealTime);
    }

    /// Removes a queue from its list or the tree.
    #[inline]
    pub(super) fn remove(&mut self, queues: &mut Processes<Queue>, slot: u32) {
        self.lists.remove(member(slot));
        if let Some((place, entry)) = queues[slot].in_tree.take() {
            self.tree.remove(place, entry);
        }
    }

    /// Whether a queue waits for its requests in flight to complete.
    #[inline]
    pub(super) fn is_busy(&self, slot: u32) -> bool {
        self.lists.list_of(member(slot)) == Some(BUSY)
    }

    /// The queue to serve next, not counting the idle class.
    #[inline]
    pub(super) fn first(&mut self) -> Option<u32> {
        let front = |order: &Order, list| order.lists.front(list).map(|(id, _)| id.index);
        front(self, CURRENT)
            .or_else(|| self.tree.first().map(|(_, entry)| entry.generation))
            .or_else(|| {
                self.next_level();
                front(self, CURRENT)
            })
            .or_else(|| front(self, BUSY))
    }

    /// The first queue of the idle class.
    #[inline]
    pub(super) fn first_idle(&self) -> Option<u32> {
        self.lists.front(IDLE).map(|(id, _)| id.index)
    }

    /// Makes the next level that has queues the current one.
    fn next_level(&mut self) {
        let list = |level: u8| ListId::new(level.into());
        if (0..LEVELS).all(|level| self.lists.len_of(list(level)) == 0) {
            return;
        }
        for _ in 0..CYCLE {
            let level = list(self.walk.step());
            while let Some((id, ())) = self.lists.pop_front(level) {
                self.lists.push_back(CURRENT, id, ());
            }
            if self.lists.len_of(CURRENT) > 0 {
                return;
            }
        }
    }
}
