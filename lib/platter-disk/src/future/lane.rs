//! A lane of a device's futures: which I/O each future waits for, and the tasks to wake.
//!
//! An awaited future takes the lane's lock three times at most, together with the service thread: when it starts, when
//! it is polled for the first time, and when its completion is reaped. The completed bio is handed over in a
//! [`Reply`], so the last poll takes no lock.

use super::reply::{Reply, Returned};
use crate::clock::Clock;
use crate::deferred::Section;
use crate::fence::Fence;
use crate::fenced_lane::FencedLane;
use crate::service;
use crate::sync::{Mutex, MutexGuard, lock};
use platter_block::bio::Bio;
use platter_block::deferred::{Deferred, later};
use platter_block::lane::{Bell, Lane};
use platter_block::time::{Span, Time, VirtualClock};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Waker};

mod call;
mod cancel;
mod driven;

pub(crate) use call::CallWaiter;

/// The state of an entry of the table.
enum Waiting {
    /// No future.
    Free,
    /// The bio is on its way; the waker of the future, once that has been polled.
    Pending(Option<Waker>),
    /// The future was dropped; the bio is recycled when it completes.
    Abandoned,
    /// The bio, or a substitute for one that is late, is in the reply. The future returns the entry when it has taken it.
    Done,
}

/// An entry of the table; its index is the token of the bio.
struct Entry {
    reply: Arc<Reply>,
    waiting: Waiting,
    /// Of the bio that was submitted last.
    identity: usize,
}

impl Entry {
    /// Whether the device has a bio of this entry.
    fn is_on_its_way(&self) -> bool {
        matches!(self.waiting, Waiting::Pending(_) | Waiting::Abandoned)
    }
}

/// Runs a lane that is being closed until the `left` bios of dropped futures that it has are complete, because some may
/// not have started yet and programs rely on their writes. The wait is limited: the disk may not answer. In a
/// simulation the lane ends at once, because only waiting callers advance its time.
fn carry_out(lane: &mut dyn Lane, mut left: usize, clock: &Clock) {
    if clock.simulated().is_some() {
        return;
    }
    let (mut done, end) = (Vec::new(), clock.now() + PATIENCE);
    while left > 0 {
        let now = clock.now();
        lane.unplug(now);
        lane.run(now);
        lane.take_done(&mut done);
        left = left.saturating_sub(done.len());
        done.clear();
        let now = clock.now();
        if left == 0 || now >= end {
            break;
        }
        lane.wait(now, Some(end.since(now)));
        // Not every driver blocks.
        std::thread::yield_now();
    }
}

struct AsyncState {
    lane: FencedLane,
    entries: Vec<Entry>,
    free: Vec<u32>,
    done: Vec<Bio>,
    spare: Vec<Bio>,
    /// The driver's completions cannot be seen on a descriptor, as the service thread found.
    unlisted: bool,
    /// The time by which the service thread runs the lane, if it sleeps.
    wakes_at: Option<Time>,
    /// I/Os that were polled and have not been handed to the device yet.
    deferred: u32,
    /// An I/O has started or ended since the service thread last looked.
    is_lively: bool,
    /// Number of event loops that run the lane themselves.
    drivers: u32,
    /// How often the lane was run, and how often when the service thread last looked.
    turns: u64,
    seen: u64,
}

/// A lane shared by futures of a device. The first one also does the device's own work.
pub(crate) struct AsyncLane {
    state: Mutex<AsyncState>,
    returned: Returned,
    clock: Clock,
    /// The service thread watches this lane.
    pub(crate) watched: AtomicBool,
    /// The service thread must run the lane although no descriptor shows a reason.
    called: AtomicBool,
}

/// Result of a run of a lane by the service thread.
pub(crate) enum Next {
    /// Nothing is outstanding, and the thread no longer watches the lane.
    Idle,
    /// Nothing is outstanding, and the descriptors that were appended show when that changes. `is_spurious`: nothing was
    /// outstanding before either. The lane is run once more at this time.
    Rest { is_spurious: bool, at: Option<Time> },
    /// Sleep on the descriptors that were appended, until this time at most.
    Sleep(Option<Time>),
    /// Everything completes at the next run.
    Again,
}

/// How long the close of a device waits for I/O of dropped futures that has not started.
const PATIENCE: Span = Span::from_secs(1);

/// While futures may wait in a lane to be handed over with others, and while an event loop runs it, the service thread comes by at
/// least this often. So an I/O is late by that much, and not lost, if the task or the thread that should go on with it does not.
const TICK: Span = Span::from_millis(10);

/// Number of polled I/Os that are handed over together at most, so that the device works on some while the program makes others.
const BATCH: u32 = 8;

/// Number of spare bios kept.
const SPARE: usize = 1024;

thread_local! {
    /// A bio for the next future that this thread starts. The lane's spare bios are taken out with its lock held, one
    /// I/O ahead, because a bio is filled by the program's code ([`IoBuf`](platter_block::buf::IoBuf)), without a lock.
    static NEXT: Cell<Option<Bio>> = const { Cell::new(None) };
}

/// A bio to fill.
pub(super) fn spare_bio() -> Bio {
    // Without a thread-local value, which is gone when a thread ends, a bio is allocated.
    NEXT.try_with(Cell::take).ok().flatten().unwrap_or_else(Bio::flush)
}

/// Keeps a bio without a buffer for the next future that this thread starts.
pub(super) fn keep_bio(bio: Bio) {
    // Fails if the thread is ending.
    let _ = NEXT.try_with(|next| next.set(Some(bio)));
}

impl AsyncState {
    fn run(&mut self, now: Time) {
        self.deferred = 0;
        self.turns += 1;
        self.lane.turn(now, &mut self.done);
        self.complete_all();
    }

    #[inline]
    fn complete_all(&mut self) {
        self.is_lively |= !self.done.is_empty();
        while let Some(bio) = self.done.pop() {
            self.complete(bio);
        }
    }

    fn complete(&mut self, bio: Bio) {
        let index = bio.token() as u32;
        let Some(entry) = self.entries.get_mut(index as usize) else { return };
        match std::mem::replace(&mut entry.waiting, Waiting::Done) {
            Waiting::Pending(waker) => {
                let put = entry.reply.put(bio);
                debug_assert!(put.is_ok(), "a reply is empty while its bio is on its way");
                waker.into_iter().for_each(|waker| later(Deferred::Wake(waker)));
            }
            Waiting::Abandoned => {
                entry.waiting = Waiting::Free;
                self.free.push(index);
                self.keep(bio);
            }
            other => entry.waiting = other,
        }
    }

    /// Keeps a bio for a later future. A buffer that it still owns is dropped once the lock is released.
    fn keep(&mut self, mut bio: Bio) {
        bio.recycle();
        if self.spare.len() < SPARE {
            self.spare.push(bio);
        }
    }

    /// Frees the entries that futures have returned.
    fn reclaim(&mut self, returned: &Returned) {
        let mut next = returned.take_all();
        while let Some(index) = next {
            let entry = &mut self.entries[index as usize];
            next = entry.reply.next();
            entry.waiting = Waiting::Free;
            self.free.push(index);
            // The future has recycled it.
            let bio = entry.reply.take();
            if self.spare.len() < SPARE {
                self.spare.extend(bio);
            }
        }
    }

    fn start(&mut self, now: Time, mut bio: Bio) -> Arc<Reply> {
        let index = self.free.pop().unwrap_or_else(|| {
            let index = self.entries.len() as u32;
            self.entries.push(Entry {
                reply: Arc::new(Reply::new(index)),
                waiting: Waiting::Free,
                identity: 0,
            });
            index
        });
        bio.set_token(u64::from(index));
        self.is_lively = true;
        let entry = &mut self.entries[index as usize];
        (entry.waiting, entry.identity) = (Waiting::Pending(None), bio.identity());
        let reply = Arc::clone(&entry.reply);
        self.lane.submit(now, bio);
        self.lane.take_refused(&mut self.done);
        self.complete_all();
        reply
    }

    /// Whether the service thread, if it sleeps, would miss the next completion.
    fn is_out_of_sight(&self) -> bool {
        let sooner = match (self.lane.next_wakeup(), self.wakes_at) {
            (Some(at), Some(wakes)) => at < wakes,
            (at, _) => at.is_some(),
        };
        sooner || (self.unlisted && self.lane.in_flight() > 0)
    }

    /// Number of I/Os whose futures still need their entries, and of entries that are about to be returned.
    fn outstanding(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Whether an I/O that is polled for the first time is handed over later, with others of the same turn of an executor. The
    /// device is busy meanwhile, and the service thread hands it over if no task does.
    fn may_defer(&self, now: Time) -> bool {
        let is_bounded = self.wakes_at.is_some_and(|at| at > now && at.since(now) <= TICK);
        is_bounded && self.deferred + 1 < BATCH && self.lane.in_flight() > 0
    }

    /// Runs the lane, for which some task waits. Returns the time.
    fn turn(&mut self, clock: &Clock) -> Time {
        let now = clock.now();
        self.lane.unplug(now);
        self.run(now);
        now
    }
}

impl AsyncLane {
    pub(crate) fn new(lane: Box<dyn Lane>, clock: Clock, fence: Arc<Fence>) -> Arc<AsyncLane> {
        Arc::new_cyclic(|itself: &Weak<AsyncLane>| AsyncLane {
            clock,
            state: Mutex::new(AsyncState {
                lane: FencedLane::new(lane, fence, Some(Weak::clone(itself) as Weak<dyn Bell>)),
                entries: Vec::new(),
                free: Vec::new(),
                done: Vec::new(),
                spare: Vec::new(),
                unlisted: false,
                wakes_at: None,
                deferred: 0,
                is_lively: false,
                drivers: 0,
                turns: 0,
                seen: 0,
            }),
            returned: Returned::new(),
            watched: AtomicBool::new(false),
            called: AtomicBool::new(false),
        })
    }

    /// Whether nothing is outstanding.
    pub(crate) fn is_idle(&self) -> bool {
        lock(&self.state).lane.is_idle()
    }

    /// Whether the service thread was asked to run the lane since the last call.
    pub(crate) fn take_call(&self) -> bool {
        self.called.swap(false, Ordering::SeqCst)
    }

    /// Asks the service thread, which must be rung afterwards, to run the lane.
    pub(crate) fn call(&self) {
        self.called.store(true, Ordering::SeqCst);
    }

    /// Runs the lane for the service thread, `only_late`: unless an event loop has done so since the last time.
    pub(crate) fn serve(&self, handles: &mut Vec<i32>, only_late: bool) -> Next {
        let mut state = lock(&self.state);
        if state.is_driven() {
            return self.look_after(state, only_late);
        }
        let is_spurious = state.lane.is_idle();
        state.turn(&self.clock);
        let is_idle = state.lane.is_idle();
        if let Some(clock) = self.clock.simulated() {
            if is_idle {
                return self.let_go(state);
            }
            // Only waiting threads advance virtual time.
            state.lane.next_wakeup().into_iter().for_each(|at| clock.advance_to(at));
            return Next::Again;
        }
        state.unlisted = !state.lane.wait_handles(handles);
        // The thread looks at no timer of an idle lane, but comes by once more if tasks are about to start others after its I/Os. Of
        // a lane in which nothing moves it does not: I/Os that wait for an hour cost nothing.
        let is_lively = std::mem::take(&mut state.is_lively);
        let tick = (state.outstanding() > 1 && !is_spurious && is_lively).then(|| self.clock.now() + TICK);
        state.wakes_at = Time::earliest(state.lane.next_wakeup().filter(|_| !is_idle), tick);
        match is_idle {
            true if state.unlisted => self.let_go(state),
            true => Next::Rest { is_spurious, at: state.wakes_at },
            false if state.is_out_of_sight() => Next::Again,
            false => Next::Sleep(state.wakes_at),
        }
    }

    /// The service thread stops watching the lane. The mark is cleared under the lock, so that a future that starts
    /// now sees it and asks again.
    fn let_go(&self, mut state: MutexGuard<'_, AsyncState>) -> Next {
        state.wakes_at = None;
        self.watched.store(false, Ordering::SeqCst);
        Next::Idle
    }

    /// The service thread stops watching the lane if nothing is outstanding. Returns whether it does.
    pub(crate) fn is_let_go(&self) -> bool {
        let state = lock(&self.state);
        state.lane.is_idle() && matches!(self.let_go(state), Next::Idle)
    }

    /// Runs the lane for a program that does everything by hand. Returns when to do so again; `None`: nothing is
    /// outstanding.
    pub(crate) fn run_by_hand(&self) -> Option<Time> {
        let mut state = lock(&self.state);
        state.turn(&self.clock);
        if state.lane.is_idle() { None } else { state.lane.next_wakeup() }
    }

    /// Hands the bios of futures that have not been polled to the device. From then on the device may wait for them, so
    /// the service thread watches the lane.
    pub(crate) fn hand_over(self: &Arc<Self>) {
        let mut state = lock(&self.state);
        let now = self.clock.now();
        state.run(now);
        let (is_idle, out_of_sight) = (state.lane.is_idle(), state.is_out_of_sight());
        drop(state);
        if !is_idle {
            self.watch(out_of_sight);
        }
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
            self.ring();
        }
        true
    }

    /// Starts an I/O. If it is `ordered`, it goes to the device at once, so that it keeps its place among the I/Os of
    /// other lanes.
    pub(super) fn start(self: &Arc<Self>, bio: Bio, ordered: bool) -> Arc<Reply> {
        let mut state = lock(&self.state);
        let now = self.clock.now();
        state.reclaim(&self.returned);
        let reply = state.start(now, bio);
        let spare = state.spare.pop();
        drop(state);
        if ordered {
            self.hand_over();
        }
        if let Some(spare) = spare {
            keep_bio(spare);
        }
        reply
    }

    /// Takes the completed bio of a future out of its reply.
    fn finish<R>(&self, reply: &Reply, end: impl FnOnce(&mut Bio) -> R) -> Option<R> {
        let mut bio = reply.take()?;
        let result = end(&mut bio);
        bio.recycle();
        // Kept there for a later future.
        let _ = reply.put(bio);
        self.returned.push(reply);
        Some(result)
    }

    /// Polls for a future: calls `end` with its completed bio, or keeps the task's waker and returns `None`. A future
    /// that `is_new` has no waker here yet.
    pub(super) fn poll<R>(
        self: &Arc<Self>,
        reply: &Reply,
        is_new: bool,
        context: &mut Context<'_>,
        end: impl FnOnce(&mut Bio) -> R,
    ) -> Option<R> {
        if reply.is_full() {
            return self.finish(reply, end);
        }
        // Cloning a waker runs code of the program, so it is done without the lock. A new future will need a clone
        // unless its I/O completes at once; cloning in advance saves a second acquisition. It is dropped, like all
        // wakers here, after the lock is released.
        let mut cloned = is_new.then(|| context.waker().clone());
        loop {
            // Until the service thread watches the lane: a destructor that waits for the device may wait for this
            // lane's I/O.
            let section = Section::enter();
            let mut state = lock(&self.state);
            let defers = is_new && state.may_defer(self.clock.now());
            match state.register(reply, &self.clock, context.waker(), &mut cloned, defers) {
                Registered::Done => {
                    drop(state);
                    drop(section);
                    return self.finish(reply, end);
                }
                Registered::NeedsClone => {
                    drop(state);
                    drop(section);
                    cloned = Some(context.waker().clone());
                }
                Registered::Pending => {
                    let out_of_sight = state.is_out_of_sight();
                    state.deferred += u32::from(defers);
                    let leads = defers && state.deferred == 1;
                    drop(state);
                    let watched = self.watch(out_of_sight);
                    drop(section);
                    if !watched || leads {
                        // Without the thread only polling makes progress. The task that leads is polled again after those that
                        // are ready now, and hands over what they have started.
                        later(Deferred::Wake(context.waker().clone()));
                    }
                    return None;
                }
            }
        }
    }

    /// The device is being closed, with all its futures. The service thread may use this lane a last time, so the way
    /// to the device ends here, not when that thread is done with the lane.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        let on_the_way = state.entries.iter().filter(|entry| entry.is_on_its_way()).count();
        let left = (on_the_way + state.lane.lates()).saturating_sub(state.lane.held());
        let mut lane = state.lane.take_lane();
        drop(state);
        // Waits for the requests of its driver, and frees the buffers of dropped futures.
        let section = Section::enter();
        carry_out(lane.as_mut(), left, &self.clock);
        drop(lane);
        drop(section);
        if self.watched.load(Ordering::SeqCst) {
            // The thread may sleep on descriptors that are closed now.
            service::ring();
        }
    }
}

/// What has become of an I/O, and of the waker of its task.
enum Registered {
    /// It is done, and the waker is not needed.
    Done,
    /// It is pending, and its task will be woken.
    Pending,
    /// It is pending, and another waker is needed.
    NeedsClone,
}

impl AsyncState {
    /// Runs the lane, and keeps the waker if the I/O of `reply` is still pending.
    fn register(
        &mut self,
        reply: &Reply,
        clock: &Clock,
        waker: &Waker,
        cloned: &mut Option<Waker>,
        defers: bool,
    ) -> Registered {
        // Twice: bios submitted by the first run may complete at the second (memory, null).
        for _ in 0..if defers { 0 } else { 2 } {
            if !reply.is_full() {
                self.turn(clock);
            }
        }
        match &mut self.entries[reply.index as usize].waiting {
            Waiting::Pending(Some(known)) if known.will_wake(waker) => Registered::Pending,
            Waiting::Pending(known) => match cloned.take() {
                Some(waker) => {
                    known.replace(waker).into_iter().for_each(|old| later(Deferred::Forget(old)));
                    Registered::Pending
                }
                None => Registered::NeedsClone,
            },
            _ => Registered::Done,
        }
    }
}
