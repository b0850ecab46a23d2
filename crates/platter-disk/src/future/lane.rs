//! The lane of a device's futures: which I/O each future waits for, and the tasks to wake.

use crate::clock::Clock;
use crate::closed::Closed;
use crate::deferred::Section;
use crate::service;
use crate::sync::{Mutex, lock};
use platter_block::bio::{Bio, Op};
use platter_block::buf::IoBuf;
use platter_block::deferred::{Deferred, later};
use platter_block::fault::Status;
use platter_block::lane::Lane;
use platter_block::time::{Span, Time, VirtualClock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

/// What a future waits for.
enum Operation {
    Free,
    Pending(Option<Waker>),
    /// The future was dropped; the bio is dropped when it completes.
    Abandoned,
    Done(Bio),
}

pub(super) struct State {
    lane: Box<dyn Lane>,
    operations: Vec<Operation>,
    free: Vec<u32>,
    done: Vec<Bio>,
    pub(super) spare: Vec<Bio>,
    /// The driver's completions cannot be seen on a descriptor, as the service thread found.
    deaf: bool,
    /// The time by which the service thread runs the lane, if it sleeps.
    wakes_at: Option<Time>,
}

/// The lane shared by all futures of a device and the device's own work.
pub(crate) struct AsyncLane {
    pub(super) state: Mutex<State>,
    pub(super) clock: Clock,
    /// The service thread watches this lane.
    pub(crate) watched: AtomicBool,
}

/// Result of a run of a lane by the service thread.
pub(crate) enum Next {
    /// Nothing is outstanding.
    Idle,
    /// Sleep on the descriptors that were appended, for at most this time.
    Sleep(Option<Span>),
    /// Everything completes at the next run.
    Again,
}

/// Number of spare bios kept.
const SPARE: usize = 1024;

impl State {
    fn run(&mut self, now: Time) {
        self.lane.run(now);
        self.lane.take_done(&mut self.done);
        while let Some(bio) = self.done.pop() {
            self.complete(bio);
        }
    }

    fn complete(&mut self, bio: Bio) {
        let index = bio.token() as u32;
        let Some(operation) = self.operations.get_mut(index as usize) else { return };
        match std::mem::replace(operation, Operation::Free) {
            Operation::Pending(waker) => {
                *operation = Operation::Done(bio);
                waker.into_iter().for_each(|waker| later(Deferred::Wake(waker)));
            }
            Operation::Abandoned => {
                self.free.push(index);
                self.keep(bio);
            }
            other => *operation = other,
        }
    }

    /// Keeps a bio for the next future. A buffer that it still owns is dropped once the lock is released.
    fn keep(&mut self, mut bio: Bio) {
        bio.recycle();
        if self.spare.len() < SPARE {
            self.spare.push(bio);
        }
    }

    pub(super) fn start(&mut self, now: Time, mut bio: Bio) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.operations.push(Operation::Free);
            self.operations.len() as u32 - 1
        });
        self.operations[index as usize] = Operation::Pending(None);
        bio.set_token(u64::from(index));
        self.lane.submit(now, bio);
        index
    }

    /// Whether the service thread, if it sleeps, would miss the next completion.
    fn is_out_of_sight(&self) -> bool {
        let sooner = match (self.lane.next_wakeup(), self.wakes_at) {
            (Some(at), Some(wakes)) => at < wakes,
            (at, _) => at.is_some(),
        };
        sooner || (self.deaf && self.lane.in_flight() > 0)
    }
}

impl AsyncLane {
    pub(crate) fn new(lane: Box<dyn Lane>, clock: Clock) -> AsyncLane {
        AsyncLane {
            clock,
            state: Mutex::new(State {
                lane,
                operations: Vec::new(),
                free: Vec::new(),
                done: Vec::new(),
                spare: Vec::new(),
                deaf: false,
                wakes_at: None,
            }),
            watched: AtomicBool::new(false),
        }
    }

    /// Runs the lane without advancing simulated time. Returns when it must be run next.
    pub(crate) fn tend(&self) -> Option<Time> {
        let mut state = lock(&self.state);
        let now = self.clock.now();
        state.lane.unplug(now);
        state.run(now);
        state.lane.next_wakeup()
    }

    /// Whether nothing is outstanding.
    pub(crate) fn is_idle(&self) -> bool {
        lock(&self.state).lane.is_idle()
    }

    /// Runs the lane for the service thread.
    pub(crate) fn serve(&self, handles: &mut Vec<i32>) -> Next {
        let mut state = lock(&self.state);
        let now = self.clock.now();
        state.lane.unplug(now);
        state.run(now);
        if state.lane.is_idle() {
            // Cleared under the lock, so that a future that starts now sees it and asks again.
            self.watched.store(false, Ordering::SeqCst);
            Next::Idle
        } else if let Some(clock) = self.clock.simulated() {
            // Only waiting threads advance virtual time.
            state.lane.next_wakeup().into_iter().for_each(|at| clock.advance_to(at));
            Next::Again
        } else {
            state.deaf = !state.lane.wait_handles(handles);
            state.wakes_at = state.lane.next_wakeup();
            match state.is_out_of_sight() {
                true => Next::Again,
                false => Next::Sleep(state.wakes_at.map(|at| at.since(now))),
            }
        }
    }

    /// Runs the lane for a program that does everything by hand. Returns when to do so again; `None`: nothing is
    /// outstanding.
    pub(super) fn run_by_hand(&self) -> Option<Time> {
        let mut state = lock(&self.state);
        let now = self.clock.now();
        state.lane.unplug(now);
        state.run(now);
        if state.lane.is_idle() { None } else { state.lane.next_wakeup() }
    }

    /// Asks the service thread to watch the lane, unless it does already. `false`: the thread cannot be started.
    pub(crate) fn watch(self: &Arc<Self>, out_of_sight: bool) -> bool {
        if self.clock.simulated().is_some_and(VirtualClock::is_by_hand) {
            return true;
        }
        if !self.watched.swap(true, Ordering::SeqCst) {
            let watched = service::watch(self);
            if !watched {
                self.watched.store(false, Ordering::SeqCst);
            }
            return watched;
        }
        if out_of_sight {
            service::ring();
        }
        true
    }

    pub(super) fn poll<B: IoBuf>(self: &Arc<Self>, index: u32, context: &mut Context<'_>) -> Poll<End<B>> {
        // Until the service thread watches the lane: a destructor that waits for the device may wait for this lane's
        // I/O.
        let mut section = Section::enter();
        // Dropped after the lock is released, like every waker here.
        let mut cloned = None;
        let mut state = lock(&self.state);
        let now = self.clock.now();
        // Twice: bios submitted by the first run may complete at the second (memory, null).
        for _ in 0..2 {
            if matches!(state.operations[index as usize], Operation::Pending(_)) {
                state.lane.unplug(now);
                state.run(now);
            }
        }
        loop {
            match &mut state.operations[index as usize] {
                Operation::Pending(Some(known)) if known.will_wake(context.waker()) => break,
                Operation::Pending(known) => match cloned.take() {
                    Some(waker) => {
                        known.replace(waker).into_iter().for_each(|old| later(Deferred::Forget(old)));
                        break;
                    }
                    None => {
                        // Cloning a waker runs code of the program, so it is done without the lock. The I/O may
                        // complete in the meantime.
                        drop(state);
                        drop(section);
                        cloned = Some(context.waker().clone());
                        section = Section::enter();
                        state = lock(&self.state);
                    }
                },
                finished => {
                    if let Operation::Done(mut bio) = std::mem::replace(finished, Operation::Free) {
                        state.free.push(index);
                        let end = End::of(&mut bio);
                        state.keep(bio);
                        return Poll::Ready(end);
                    }
                    break;
                }
            }
        }
        let out_of_sight = state.is_out_of_sight();
        drop(state);
        let watched = self.watch(out_of_sight);
        drop(section);
        if !watched {
            // Only polling makes progress here, so the task is woken at once.
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// The device is being closed, with all its futures. The service thread may use this lane a last time, so the way
    /// to the device ends here, not when that thread is done with the lane.
    pub(crate) fn close(&self) {
        let lane: Box<dyn Lane> = std::mem::replace(&mut lock(&self.state).lane, Box::new(Closed::default()));
        // Waits for the requests of its driver, and frees the buffers of dropped futures.
        let _section = Section::enter();
        drop(lane);
    }

    /// Asks the device to cancel an I/O. Its future gets the result in the usual way.
    pub(super) fn cancel(self: &Arc<Self>, index: u32) {
        let mut state = lock(&self.state);
        let now = self.clock.now();
        state.lane.cancel(now, u64::from(index));
        state.run(now);
        drop(state);
        self.watch(true);
    }

    /// The future was dropped. Its I/O is cancelled unless it `is_wanted` for its effect; in either case its end must
    /// be seen.
    pub(super) fn abandon(self: &Arc<Self>, index: u32, is_wanted: bool) {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut state.operations[index as usize], Operation::Abandoned) {
            Operation::Done(bio) => {
                state.operations[index as usize] = Operation::Free;
                state.free.push(index);
                return state.keep(bio);
            }
            Operation::Pending(waker) => waker.into_iter().for_each(|waker| later(Deferred::Forget(waker))),
            _ => {}
        }
        if !is_wanted {
            state.lane.cancel(self.clock.now(), u64::from(index));
        }
        drop(state);
        // If the future was never polled, its bio has not been handed to the device.
        self.watch(true);
    }
}

/// What a future needs of its bio when the bio has completed.
pub(super) struct End<B> {
    pub(super) status: Status,
    pub(super) op: Op,
    /// Offset and length of the part that was not done, and number of bytes done.
    pub(super) pos: u64,
    pub(super) len: u64,
    pub(super) done: u64,
    pub(super) buffer: Option<B>,
}

impl<B: IoBuf> End<B> {
    fn of(bio: &mut Bio) -> End<B> {
        End {
            status: bio.status(),
            op: bio.op(),
            pos: bio.pos(),
            len: bio.len(),
            done: bio.done(),
            buffer: bio.take_buffer(),
        }
    }
}
