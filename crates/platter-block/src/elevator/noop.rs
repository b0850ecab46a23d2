//! `noop`: first in, first out; only the queue merges (Linux 2.6.15 and later).

use super::{Elevator, ElevatorType, Fifos, ListId, RequestId, RequestInfo};
use crate::time::Time;
use alloc::boxed::Box;

/// The row of the table of elevators.
pub const TYPE: ElevatorType = ElevatorType {
    name: "noop",
    summary: "first in, first out, with merging",
    params: &[],
    make: || Box::new(Noop::default()),
};

const FIFO: ListId = ListId::new(0);

/// The FIFO elevator.
#[derive(Clone, Debug)]
pub struct Noop {
    fifo: Fifos<()>,
}

impl Default for Noop {
    fn default() -> Self {
        Noop { fifo: Fifos::new(1) }
    }
}

impl Elevator for Noop {
    fn name(&self) -> &'static str {
        TYPE.name
    }

    fn reserve(&mut self, requests: usize) {
        self.fifo.reserve(requests);
    }

    fn insert(&mut self, _now: Time, id: RequestId, _info: &RequestInfo) {
        self.fifo.push_back(FIFO, id, ());
    }

    fn absorbed(&mut self, _survivor: RequestId, absorbed: RequestId, _info: &RequestInfo) {
        self.fifo.remove(absorbed);
    }

    fn dispatch(&mut self, _now: Time, _force: bool) -> Option<RequestId> {
        self.fifo.pop_front(FIFO).map(|(id, ())| id)
    }

    fn len(&self) -> usize {
        self.fifo.len()
    }
}
