//! `noop`: first in, first out; merging is the queue's business (Linux 2.6.15 and later).

use super::{Elevator, RequestId, RequestInfo, Row};
use crate::time::Time;
use alloc::boxed::Box;
use alloc::collections::VecDeque;

pub(super) const ROW: Row = Row {
    name: "noop",
    summary: "first in, first out, with merging",
    params: &[],
    make: || Box::new(Noop::default()),
};

/// The FIFO elevator.
#[derive(Debug, Default)]
pub struct Noop {
    fifo: VecDeque<RequestId>,
}

impl Elevator for Noop {
    fn name(&self) -> &'static str {
        ROW.name
    }

    fn reserve(&mut self, requests: usize) {
        self.fifo.reserve(requests);
    }

    fn insert(&mut self, _now: Time, id: RequestId, _info: &RequestInfo) {
        self.fifo.push_back(id);
    }

    fn absorbed(&mut self, _survivor: RequestId, absorbed: RequestId, _info: &RequestInfo) {
        self.fifo.retain(|&id| id != absorbed);
    }

    fn dispatch(&mut self, _now: Time, _force: bool) -> Option<RequestId> {
        self.fifo.pop_front()
    }

    fn len(&self) -> usize {
        self.fifo.len()
    }
}
