//! An I/O scheduler of a program: last in, first out, except that every nth request is the one that waits longest.

use platter::block::elevator::{Elevator, ElevatorType, RequestId, RequestInfo};
use platter::block::params::{Param, ParamError, Unit, check};
use platter::block::time::Time;
use platter::{Access, open, register_elevator};
use std::collections::VecDeque;

static PARAMS: [Param; 1] =
    [Param::number("fair", Unit::Requests, 4, (1, 1024), "every nth request is the one that waits longest")];
static TYPE: ElevatorType = ElevatorType {
    name: "lifo",
    summary: "last in, first out",
    params: &PARAMS,
    make: || Box::new(Lifo { fair: PARAMS[0].default, sent: 0, waiting: VecDeque::new() }),
};

struct Lifo {
    fair: i64,
    sent: i64,
    waiting: VecDeque<RequestId>,
}

impl Elevator for Lifo {
    fn name(&self) -> &'static str {
        TYPE.name
    }
    fn reserve(&mut self, requests: usize) {
        self.waiting.reserve(requests.saturating_sub(self.waiting.len()));
    }
    fn insert(&mut self, _now: Time, id: RequestId, _info: &RequestInfo) {
        self.waiting.push_back(id);
    }
    fn absorbed(&mut self, _survivor: RequestId, absorbed: RequestId, _info: &RequestInfo) {
        self.waiting.retain(|id| *id != absorbed);
    }
    fn dispatch(&mut self, _now: Time, _force: bool) -> Option<RequestId> {
        self.sent += 1;
        if self.sent % self.fair == 0 { self.waiting.pop_front() } else { self.waiting.pop_back() }
    }
    fn len(&self) -> usize {
        self.waiting.len()
    }
    fn params(&self) -> &'static [Param] {
        &PARAMS
    }
    fn get(&self, name: &str) -> Option<i64> {
        (name == PARAMS[0].name).then_some(self.fair)
    }
    fn set(&mut self, name: &str, value: i64) -> Result<(), ParamError> {
        check(TYPE.name, &PARAMS, name, value)?;
        self.fair = value;
        Ok(())
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    register_elevator(&TYPE)?;
    let disk = open("ram(1M, elevator=lifo(fair=8))", Access::read_write())?;
    disk.write_at(&[7; 4096], 65536)?;
    let mut page = [0; 4096];
    disk.read_at(&mut page, 65536)?;
    for (param, value) in disk.elevator_params() {
        println!("{}: {}={value}, read {}", TYPE.name, param.name, page[0]);
    }
    // It can be chosen while I/O runs, too.
    disk.set_elevator("noop")?;
    disk.set_elevator("lifo")?;
    disk.flush()?;
    Ok(())
}
