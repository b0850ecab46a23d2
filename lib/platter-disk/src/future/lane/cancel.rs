//! I/Os of a lane whose futures do not want them any more.

use super::{AsyncLane, Waiting};
use crate::future::reply::Reply;
use crate::service;
use crate::sync::lock;
use platter_block::deferred::{Deferred, later};
use platter_block::lane::{Bell, Cancel};
use std::sync::Arc;

impl Bell for AsyncLane {
    /// The service thread runs the lane. Without that thread the callers that wait do.
    fn ring(&self) {
        self.call();
        service::ring();
    }
}

impl AsyncLane {
    /// Asks the device to cancel an I/O. Its future gets the result in the usual way.
    pub(in crate::future) fn cancel(self: &Arc<Self>, reply: &Reply) {
        let mut state = lock(&self.state);
        if !matches!(state.entries[reply.index as usize].waiting, Waiting::Pending(_)) {
            return;
        }
        let now = self.clock.now();
        state.lane.cancel(now, &Cancel::token(u64::from(reply.index)));
        state.run(now);
        drop(state);
        self.watch(true);
    }

    /// The future was dropped. Its I/O is cancelled unless it `is_wanted` for its effect; in either case its end must
    /// be seen.
    pub(in crate::future) fn abandon(self: &Arc<Self>, reply: &Reply, is_wanted: bool) {
        let mut state = lock(&self.state);
        let entry = &mut state.entries[reply.index as usize];
        let identity = entry.identity;
        match std::mem::replace(&mut entry.waiting, Waiting::Abandoned) {
            Waiting::Pending(waker) => waker.into_iter().for_each(|waker| later(Deferred::Forget(waker))),
            other => {
                entry.waiting = other;
                drop(state);
                self.finish(reply, |_| ());
                return;
            }
        }
        state.lane.forget_deadline(identity);
        if !is_wanted {
            state.lane.cancel(self.clock.now(), &Cancel::token(u64::from(reply.index)));
        }
        drop(state);
        // If the future was never polled, its bio has not been handed to the device.
        self.watch(true);
    }
}
