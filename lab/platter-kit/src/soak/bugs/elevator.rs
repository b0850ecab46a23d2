//! Wrong elevators.

use platter_block::bio::Context;
use platter_block::elevator::{Dir, Elevator, MayQueue, RequestId, RequestInfo};
use platter_block::params::{Param, ParamError};
use platter_block::time::Time;

/// What is wrong with an elevator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Crookedness {
    Twice,
    Invents,
    Loses,
    Starves,
}

/// A correct elevator in a wrapper with a bug, which affects every seventh request.
pub(in super::super) struct Crooked {
    wrong: Crookedness,
    inner: Box<dyn Elevator>,
    count: u64,
    last: Option<RequestId>,
    /// Requests that the wrapper delays or loses.
    kept: Vec<RequestId>,
}

const EVERY: u64 = 7;

impl Crooked {
    pub(in super::super) fn new(wrong: Crookedness, inner: Box<dyn Elevator>) -> Crooked {
        Crooked { wrong, inner, count: 0, last: None, kept: Vec::new() }
    }

    fn is_time(&mut self) -> bool {
        self.count += 1;
        self.count.is_multiple_of(EVERY)
    }

    fn hides(&self) -> bool {
        matches!(self.wrong, Crookedness::Loses | Crookedness::Starves)
    }
}

impl Elevator for Crooked {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn reserve(&mut self, requests: usize) {
        self.inner.reserve(requests);
    }

    fn insert(&mut self, now: Time, id: RequestId, info: &RequestInfo) {
        if self.hides() && self.is_time() {
            self.kept.push(id);
            return;
        }
        self.inner.insert(now, id, info);
    }

    fn front_merges(&self) -> bool {
        self.inner.front_merges()
    }

    fn allow_merge(&self, id: RequestId, request: &RequestInfo, bio: &RequestInfo) -> bool {
        !self.kept.contains(&id) && self.inner.allow_merge(id, request, bio)
    }

    fn merged(&mut self, id: RequestId, old: &RequestInfo, new: &RequestInfo) {
        if !self.kept.contains(&id) {
            self.inner.merged(id, old, new);
        }
    }

    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, info: &RequestInfo) {
        if self.kept.contains(&absorbed) {
            self.kept.retain(|&id| id != absorbed);
        } else if !self.kept.contains(&survivor) {
            self.inner.absorbed(survivor, absorbed, info);
        }
    }

    fn allow_join(&self, front: RequestId, back: RequestId) -> bool {
        self.inner.allow_join(front, back)
    }

    fn may_queue(&self, context: Context, dir: Dir) -> MayQueue {
        self.inner.may_queue(context, dir)
    }

    fn dispatch(&mut self, now: Time, force: bool) -> Option<RequestId> {
        let could = match self.wrong {
            Crookedness::Twice => self.last.is_some(),
            Crookedness::Invents => !self.inner.is_empty(),
            Crookedness::Loses | Crookedness::Starves => false,
        };
        if could && self.is_time() {
            let invented = RequestId { index: 1 << 20, generation: 1 };
            return if self.wrong == Crookedness::Twice { self.last.take() } else { Some(invented) };
        }
        let id = self.inner.dispatch(now, force)?;
        self.last = Some(id);
        Some(id)
    }

    fn completed(&mut self, now: Time, id: RequestId, info: &RequestInfo) {
        self.inner.completed(now, id, info);
    }

    fn exited(&mut self, now: Time, context: Context) {
        self.inner.exited(now, context);
    }

    fn next_wakeup(&self) -> Option<Time> {
        self.inner.next_wakeup()
    }

    fn len(&self) -> usize {
        let starved = if self.wrong == Crookedness::Starves { self.kept.len() } else { 0 };
        self.inner.len() + starved
    }

    fn params(&self) -> &'static [Param] {
        self.inner.params()
    }

    fn get(&self, name: &str) -> Option<i64> {
        self.inner.get(name)
    }

    fn set(&mut self, name: &str, value: i64) -> Result<(), ParamError> {
        self.inner.set(name, value)
    }
}
