//! `noop`: first in, first out; only the queue merges. With `front_merges`, bios also join the front of requests, as in
//! Linux 2.4 to 2.6.14; 2.6.15 and later merge at the back.

use super::{Elevator, ElevatorType, Fifos, ListId, RequestId, RequestInfo, Settings};
use crate::params::{Param, ParamError, Unit};
use crate::time::Time;
use alloc::boxed::Box;

/// The row of the table of elevators.
pub const TYPE: ElevatorType = ElevatorType {
    name: "noop",
    summary: "first in, first out, with merging",
    params: &PARAMS,
    make: || Box::new(Noop::default()),
};

static PARAMS: [Param; 1] = [Param::number(
    "front_merges",
    Unit::Switch,
    0,
    (0, 1),
    "whether bios may join the front of a queued request, as in Linux 2.4 to 2.6.14",
)];

const FIFO: ListId = ListId::new(0);

/// The FIFO elevator.
#[derive(Clone, Debug)]
pub struct Noop {
    fifo: Fifos<()>,
    settings: Settings<1>,
}

impl Default for Noop {
    fn default() -> Self {
        Noop { fifo: Fifos::new(1), settings: Settings::new(TYPE.name, &PARAMS) }
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

    fn front_merges(&self) -> bool {
        self.settings.at(0) != 0
    }

    fn absorbed(&mut self, _survivor: RequestId, absorbed: RequestId, _info: &RequestInfo) {
        self.fifo.remove(absorbed);
    }

    fn dispatch(&mut self, _now: Time, _force: bool) -> Option<RequestId> {
        self.fifo.pop_front(FIFO).map(|(id, ())| id)
    }

    fn hears_completions(&self) -> bool {
        false
    }

    fn len(&self) -> usize {
        self.fifo.len()
    }

    fn params(&self) -> &'static [Param] {
        &PARAMS
    }

    fn get(&self, name: &str) -> Option<i64> {
        self.settings.get(name)
    }

    fn set(&mut self, name: &str, value: i64) -> Result<(), ParamError> {
        self.settings.set(name, value)
    }
}
