//! A disk that transfers nothing, to measure the cost of the layer alone.

use platter_block::driver::{Completion, Driver, Outstanding, Started};
use platter_block::time::Time;
use std::sync::Arc;

/// Completes everything without touching memory: reads leave their buffers unchanged, writes are discarded.
/// Completions come only at a later reap, the last submitted first, so that nothing above can depend on the
/// order of submission.
pub struct Null {
    /// Requests queued since the last reap, in the first `count` entries.
    held: Box<[Completion]>,
    count: usize,
    /// How many of them were submitted by a doorbell.
    rung: usize,
}

impl Null {
    /// A channel that takes `depth` requests at a time.
    pub fn new(depth: u32) -> Null {
        let empty = Completion { tag: 0, result: 0 };
        Null { held: vec![empty; depth as usize].into_boxed_slice(), count: 0, rung: 0 }
    }
}

/// A disk that completes each request as soon as it gets it never has any outstanding.
pub(super) struct Nothing;

impl Outstanding for Nothing {
    fn outstanding(&self) -> u32 {
        0
    }
}

impl Driver for Null {
    #[inline]
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        match self.held.get_mut(self.count) {
            Some(place) => {
                *place = Completion { tag: request.tag, result: request.len as i64 };
                self.count += 1;
                true
            }
            None => false,
        }
    }

    #[inline]
    fn submit(&mut self, _now: Time) {
        self.rung = self.count;
    }

    #[inline]
    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        if self.rung == 0 {
            return;
        }
        match self.held[..self.rung] {
            [one] => done.push(one),
            ref some => done.extend(some.iter().rev()),
        }
        if self.count > self.rung {
            self.held.copy_within(self.rung..self.count, 0);
        }
        self.count -= self.rung;
        self.rung = 0;
    }

    fn is_prompt(&self) -> bool {
        true
    }

    fn outstanding(&self) -> Option<Arc<dyn Outstanding>> {
        Some(Arc::new(Nothing))
    }
}
