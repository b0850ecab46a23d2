//! Elevators that break the contract, each in one way: a queue must survive them and a test must notice them.

use platter_block::elevator::{Elevator, Noop, RequestId, RequestInfo};
use platter_block::time::Time;

/// The way in which the elevator breaks the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// Dispatches every request twice.
    Twice,
    /// Dispatches a request in a slot that does not exist.
    Invents,
    /// Dispatches a request by an old id of its slot.
    Stale,
    /// Drops every second request.
    Loses,
    /// Keeps the last request for ever.
    Hoards,
    /// Dispatches requests that were absorbed.
    KeepsAbsorbed,
}

impl Wrong {
    /// All of them.
    pub(crate) const ALL: [Wrong; 6] =
        [Wrong::Twice, Wrong::Invents, Wrong::Stale, Wrong::Loses, Wrong::Hoards, Wrong::KeepsAbsorbed];

    /// A first-in-first-out elevator with this fault.
    pub(crate) fn make(self) -> Box<dyn Elevator> {
        Box::new(WrongElevator { wrong: self, inner: Noop::default(), last: None, dispatched: 0 })
    }
}

struct WrongElevator {
    wrong: Wrong,
    inner: Noop,
    last: Option<RequestId>,
    dispatched: u64,
}

impl Elevator for WrongElevator {
    fn name(&self) -> &'static str {
        "wrong"
    }

    fn reserve(&mut self, requests: usize) {
        self.inner.reserve(requests);
    }

    fn insert(&mut self, now: Time, id: RequestId, info: &RequestInfo) {
        self.inner.insert(now, id, info);
    }

    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, info: &RequestInfo) {
        if self.wrong != Wrong::KeepsAbsorbed {
            self.inner.absorbed(survivor, absorbed, info);
        }
    }

    fn dispatch(&mut self, now: Time, force: bool) -> Option<RequestId> {
        self.dispatched += 1;
        match self.wrong {
            Wrong::Twice => {
                if let Some(id) = self.last.take() {
                    return Some(id);
                }
                self.last = self.inner.dispatch(now, force);
                self.last
            }
            Wrong::Invents if self.inner.len() > 1 => Some(RequestId { index: u32::MAX, generation: 0 }),
            Wrong::Stale => {
                let id = self.inner.dispatch(now, force)?;
                Some(RequestId { generation: id.generation.wrapping_sub(1), ..id })
            }
            Wrong::Loses if self.dispatched.is_multiple_of(2) => {
                self.inner.dispatch(now, force)?;
                self.inner.dispatch(now, force)
            }
            Wrong::Hoards if self.inner.len() == 1 => None,
            _ => self.inner.dispatch(now, force),
        }
    }

    fn len(&self) -> usize {
        self.inner.len()
    }
}
