//! Future events in order of time.

use platter_block::time::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events of a disk. Events at the same time come in the order in which they were planned.
#[derive(Debug)]
pub(super) struct EventQueue<E> {
    heap: BinaryHeap<Reverse<(Time, u64, E)>>,
    planned: u64,
}

impl<E: Ord> EventQueue<E> {
    pub(super) fn new() -> EventQueue<E> {
        EventQueue { heap: BinaryHeap::new(), planned: 0 }
    }

    pub(super) fn plan(&mut self, at: Time, event: E) {
        self.heap.push(Reverse((at, self.planned, event)));
        self.planned += 1;
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// The next event, if it is due.
    pub(super) fn pop(&mut self, now: Time) -> Option<(Time, E)> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }
}
