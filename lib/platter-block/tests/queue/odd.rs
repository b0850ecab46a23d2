//! An elevator that breaks its contract in a chosen way.

use platter_block::bio::Context;
use platter_block::elevator::{Dir, Elevator, MayQueue, Noop, RequestId, RequestInfo};
use platter_block::time::{Span, Time};

/// The way in which it breaks the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// Returns each request twice.
    Twice,
    /// Returns requests that never existed.
    Invents,
    /// Returns requests with an old generation of their slot.
    Stale,
    /// Drops every third request.
    Loses,
    /// Drops every third request and counts it as held.
    Hides,
    /// Claims to hold requests, waits for nothing, and never returns any.
    Sulks,
    /// Holds requests for 5 ms after the last one arrived.
    Idles,
    /// Refuses requests to all contexts except 7, and always grants them to 7.
    Strict,
}

#[derive(Debug)]
pub(crate) struct Odd {
    fault: Fault,
    honest: Noop,
    last: Option<RequestId>,
    until: Option<Time>,
    inserted: usize,
    hidden: usize,
    completed: i64,
}

impl Odd {
    pub(crate) fn new(fault: Fault) -> Odd {
        Odd { fault, honest: Noop::default(), last: None, until: None, inserted: 0, hidden: 0, completed: 0 }
    }
}

impl Elevator for Odd {
    fn name(&self) -> &'static str {
        "odd"
    }

    fn reserve(&mut self, requests: usize) {
        self.honest.reserve(requests);
    }

    fn insert(&mut self, now: Time, id: RequestId, info: &RequestInfo) {
        self.inserted += 1;
        if matches!(self.fault, Fault::Loses | Fault::Hides) && self.inserted.is_multiple_of(3) {
            self.hidden += usize::from(self.fault == Fault::Hides);
            return;
        }
        self.until = Some(now + Span::from_millis(5));
        self.honest.insert(now, id, info);
    }

    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, info: &RequestInfo) {
        self.honest.absorbed(survivor, absorbed, info);
    }

    fn may_queue(&self, context: Context, _dir: Dir) -> MayQueue {
        match (self.fault, context.process()) {
            (Fault::Strict, 7) => MayQueue::Must,
            (Fault::Strict, _) => MayQueue::No,
            _ => MayQueue::May,
        }
    }

    fn dispatch(&mut self, now: Time, force: bool) -> Option<RequestId> {
        let invented = RequestId { index: u32::MAX, generation: 3 };
        match self.fault {
            Fault::Sulks => None,
            Fault::Idles if !force && self.until.is_some_and(|until| now < until) => None,
            Fault::Invents if !self.honest.is_empty() => Some(invented),
            Fault::Twice if self.last.is_some() => self.last.take(),
            Fault::Stale => {
                let id = self.honest.dispatch(now, force)?;
                Some(RequestId { generation: id.generation.wrapping_sub(1), ..id })
            }
            _ => {
                self.last = self.honest.dispatch(now, force);
                self.completed += i64::from(self.last.is_some());
                self.last
            }
        }
    }

    fn completed(&mut self, _now: Time, _id: RequestId, _info: &RequestInfo) {
        self.completed -= 1;
        assert!(self.completed >= 0, "told of a completion of a request that it never dispatched");
    }

    fn next_wakeup(&self) -> Option<Time> {
        self.until.filter(|_| self.fault == Fault::Idles && !self.honest.is_empty())
    }

    fn len(&self) -> usize {
        self.honest.len() + self.hidden
    }
}
