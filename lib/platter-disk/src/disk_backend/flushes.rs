//! One flush of a device at a time, whichever thread or queue makes it: a flush that fails must be known before the next one
//! begins, which could succeed and report lost data as durable.
//!
//! Threads that want a flush while another one flushes share the next one, as the bios in the shared queue do among
//! themselves. A thread never waits here for that queue, because the flush may be one of a program that does not poll.
//!
//! Example: thread A flushes (the first flush). Threads B and C write, then want a flush: they wait, because the first may have begun before their writes
//! ended. It ends; B makes the second flush, which began after both calls, and when it succeeds C is served by it. If it fails, C goes
//! to the shared queue, which repeats the failure.
//!
//! The shared queue has a record of its own of a failure. Both are changed only with its lock held, so that they agree.

use crate::sync::{Condvar, Mutex, lock};

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Holder {
    #[default]
    Nothing,
    Thread,
    Queue,
}

#[derive(Default)]
struct State {
    holder: Holder,
    /// The shared queue has flushes that wait until a thread's has ended.
    wanted: bool,
    /// A flush has failed, and that was not acknowledged.
    failed: bool,
    /// Flushes that have begun.
    begun: u64,
    /// The number of the last flush that succeeded.
    succeeded: u64,
    waiting: u32,
}

pub(crate) struct Flushes {
    state: Mutex<State>,
    /// Notified when a flush has ended, if threads wait.
    ended: Condvar,
}

/// How a flush has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Succeeded,
    Failed,
    /// Without a word on the disk: it can be tried again.
    Undone,
}

/// What a thread that wants a flush has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Flush, and then [end](Flushes::end) it.
    Flush,
    /// Nothing: a flush that began after the call has succeeded.
    Served,
    /// Go through the shared queue, which flushes or waits to, or repeats a failure.
    Queue,
}

impl Flushes {
    pub(crate) fn new() -> Flushes {
        Flushes { state: Mutex::new(State::default()), ended: Condvar::new() }
    }

    /// A thread wants a flush of all that was written before this call. Waits while another thread flushes.
    pub(crate) fn begin(&self) -> Turn {
        let mut state = lock(&self.state);
        let first = state.begun + 1;
        loop {
            if state.failed {
                return Turn::Queue;
            }
            if state.succeeded >= first {
                return Turn::Served;
            }
            if state.wanted || state.holder == Holder::Queue {
                return Turn::Queue;
            }
            if state.holder == Holder::Nothing {
                state.begin(Holder::Thread);
                return Turn::Flush;
            }
            state.waiting += 1;
            state = self.ended.wait(state);
            state.waiting -= 1;
        }
    }

    /// The flush of a thread has ended. Returns whether the shared queue waits to flush.
    pub(crate) fn end(&self, how: Ended) -> bool {
        let mut state = lock(&self.state);
        state.end(how);
        let (waits, wanted) = (state.waiting > 0, state.wanted);
        // Threads that wake with the lock held would wait for it at once.
        drop(state);
        if waits {
            self.ended.notify_all();
        }
        wanted
    }

    /// Whether the shared queue may begin a flush; if not, it waits.
    pub(crate) fn begin_in_queue(&self) -> bool {
        let mut state = lock(&self.state);
        state.wanted = state.holder != Holder::Nothing;
        if !state.wanted {
            state.begin(Holder::Queue);
        }
        !state.wanted
    }

    /// The flush of the shared queue has ended.
    pub(crate) fn end_in_queue(&self, how: Ended) {
        lock(&self.state).end(how);
    }

    /// Whether the shared queue waits for a flush that has ended.
    pub(crate) fn queue_may_go_on(&self) -> bool {
        let state = lock(&self.state);
        state.wanted && state.holder == Holder::Nothing
    }

    /// The next flush goes through the shared queue, which fails it.
    pub(crate) fn fail_once(&self) {
        lock(&self.state).failed = true;
    }

    /// The failure has been acknowledged.
    pub(crate) fn acknowledge(&self) {
        lock(&self.state).failed = false;
    }
}

impl State {
    fn begin(&mut self, holder: Holder) {
        self.holder = holder;
        self.begun += 1;
    }

    fn end(&mut self, how: Ended) {
        self.holder = Holder::Nothing;
        match how {
            Ended::Succeeded => (self.succeeded, self.failed) = (self.begun, false),
            Ended::Failed => self.failed = true,
            Ended::Undone => {}
        }
    }
}
