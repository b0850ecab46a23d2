//! Synchronous calls with a deadline, and those that may have to wait for a late change. They go over a lane of the futures, so that a
//! call can end while the device still has its bio, which then is late there ([`FencedLane`](crate::fenced_lane::FencedLane)).

use super::{AsyncLane, Waiting};
use crate::future::reply::Reply;
use crate::service;
use crate::sync::lock;
use crate::wake::Parker;
use platter_block::bio::Bio;
use platter_block::time::{Span, Time};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Wake, Waker};
use std::time::Duration;

/// How long a thread sleeps in the lane that it has to run itself, with the lane's lock held.
const NAP: Span = Span::from_millis(1);

/// After this time a call runs the lane itself if the service thread has not come by: code of the program keeps that thread, and
/// may even wait for this call.
const PATIENCE: Duration = Duration::from_millis(100);

/// Wakes the thread of a call.
struct Thread(Parker);

impl Wake for Thread {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Kept from call to call, so that none allocates.
pub(crate) struct CallWaiter {
    thread: Arc<Thread>,
    waker: Waker,
}

impl Default for CallWaiter {
    fn default() -> CallWaiter {
        let thread = Arc::new(Thread(Parker::new()));
        CallWaiter { waker: Waker::from(Arc::clone(&thread)), thread }
    }
}

impl CallWaiter {
    /// Sleeps until the call's bio is back, at most for the time `left` and [`PATIENCE`].
    fn sleep(&self, reply: &Reply, left: Option<Duration>) {
        let Thread(parker) = &*self.thread;
        parker.arm();
        if !reply.is_full() {
            parker.sleep(Some(left.map_or(PATIENCE, |left| left.min(PATIENCE))));
        }
        parker.disarm();
    }
}

impl AsyncLane {
    /// Carries out a bio and waits for it, until its deadline. `until` is that deadline, unless the memory of the bio is borrowed. Returns
    /// the bio, or a substitute without memory if the device still has it at the deadline.
    pub(crate) fn run_call(self: &Arc<Self>, bio: Bio, until: Option<Time>, waiter: &CallWaiter) -> Bio {
        let reply = self.start_call(bio, &waiter.waker);
        // The calling thread does not run the lane where another can: code of the program that belongs to other I/Os of the lane
        // would have to wait for the end of this call.
        let is_simulated = self.clock.simulated().is_some();
        let is_run = !is_simulated && !service::is_this_thread() && self.watch_for_call();
        let bio = self.wait_for_call(&reply, until, is_run, waiter);
        if !is_run && !is_simulated && !self.is_idle() {
            // Without the service thread other calls run the lane while they wait.
            self.watch(true);
        }
        bio
    }

    /// Waits for the bio of a call. `is_run`: a thread runs the lane.
    fn wait_for_call(&self, reply: &Reply, until: Option<Time>, is_run: bool, waiter: &CallWaiter) -> Bio {
        loop {
            if let Some(bio) = self.take_reply(reply) {
                return bio;
            }
            if !is_run {
                self.run_for_call(reply, until);
                continue;
            }
            waiter.sleep(reply, self.clock.left(until));
            let is_late = until.is_some_and(|until| self.clock.now() >= until);
            if (is_late || self.called.load(Ordering::SeqCst)) && !reply.is_full() {
                lock(&self.state).turn(&self.clock);
            }
        }
    }

    /// Puts the bio into the lane; its completion wakes the thread.
    fn start_call(&self, bio: Bio, waker: &Waker) -> Arc<Reply> {
        let waker = waker.clone();
        let mut state = lock(&self.state);
        state.reclaim(&self.returned);
        let reply = state.start(self.clock.now(), bio);
        state.entries[reply.index as usize].waiting = Waiting::Pending(Some(waker));
        reply
    }

    /// Has the service thread run the lane. `false`: the thread cannot be started.
    fn watch_for_call(self: &Arc<Self>) -> bool {
        self.call();
        self.watch(true)
    }

    /// Runs the lane on the thread of the call. In a simulation this advances the time.
    fn run_for_call(&self, reply: &Reply, until: Option<Time>) {
        let mut state = lock(&self.state);
        let now = state.turn(&self.clock);
        if reply.is_full() {
            return;
        }
        let until = Time::earliest(until, state.lane.next_wakeup());
        let left = until.map(|until| until.since(now));
        let nap = match self.clock.simulated() {
            // A lane with nothing on its way does not advance the time, but what waits for a late change of another lane must end.
            Some(clock) if state.lane.only_holds() => {
                return until.into_iter().for_each(|at| clock.advance_to(at));
            }
            Some(_) => left,
            None => Some(left.map_or(NAP, |left| left.min(NAP))),
        };
        state.lane.wait(now, nap);
        state.turn(&self.clock);
    }

    /// Takes out the bio that came back.
    fn take_reply(&self, reply: &Reply) -> Option<Bio> {
        let bio = reply.take()?;
        self.returned.push(reply);
        Some(bio)
    }
}
