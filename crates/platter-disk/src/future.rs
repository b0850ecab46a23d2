//! Futures: buffers move in and come back with the result; any executor will do.
//!
//! Dropping a future gives up interest, not memory: the buffer stays with the bio until the device is done
//! with it and is freed then. A future that is polled makes progress by itself; while nobody polls, one
//! service thread per process, started on first need, sleeps on the drivers' descriptors and wakes whoever
//! waits.

use crate::clock::Clock;
use crate::closed::Closed;
use crate::device::Device;
use crate::service;
use crate::sync::{Mutex, MutexGuard, lock};
use platter_block::bio::{Bio, Op};
use platter_block::buf::{IoBuf, IoBufMut};
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::lane::Lane;
use platter_block::time::{Span, Time, VirtualClock};
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

/// What a future is waiting for.
enum Operation {
    Free,
    Pending(Option<Waker>),
    /// The future is gone; the bio is dropped when it comes.
    Abandoned,
    Done(Bio),
}

struct State {
    lane: Box<dyn Lane>,
    operations: Vec<Operation>,
    free: Vec<u32>,
    done: Vec<Bio>,
    spare: Vec<Bio>,
    /// What the driver does cannot be seen on a descriptor, as the service thread found.
    deaf: bool,
    /// When the service thread looks at the lane at the latest, if it sleeps.
    wakes_at: Option<Time>,
    after: After,
    /// Empty lists for the next time.
    afters: Vec<After>,
}

/// What is left to do when the lock is released: it calls code of the program.
#[derive(Default)]
struct After {
    wakers: Vec<Waker>,
    /// Bios of futures that are gone, with their buffers.
    abandoned: Vec<Bio>,
}

impl After {
    fn is_empty(&self) -> bool {
        self.wakers.is_empty() && self.abandoned.is_empty()
    }
}

/// The lane that all futures of a device share, and the device's own work.
pub(crate) struct AsyncLane {
    state: Mutex<State>,
    clock: Clock,
    /// The service thread watches this lane.
    pub(crate) watched: AtomicBool,
}

/// What the service thread learns when it has run a lane.
pub(crate) enum Next {
    /// Nothing is out.
    Idle,
    /// Sleep on the handles that were appended, at most this long.
    Sleep(Option<Span>),
    /// Everything completes at the next run.
    Again,
}

/// Spare bios that are kept.
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
                self.after.wakers.extend(waker);
            }
            Operation::Abandoned => {
                self.free.push(index);
                self.after.abandoned.push(bio);
            }
            other => *operation = other,
        }
    }

    /// Keeps a bio that owns nothing any more.
    fn keep(&mut self, bio: Bio) {
        if self.spare.len() < SPARE {
            self.spare.push(bio);
        }
    }

    fn start(&mut self, now: Time, mut bio: Bio) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.operations.push(Operation::Free);
            self.operations.len() as u32 - 1
        });
        self.operations[index as usize] = Operation::Pending(None);
        bio.set_token(u64::from(index));
        self.lane.submit(now, bio);
        index
    }

    /// Whether the service thread, if it sleeps, would miss what happens next.
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
                after: After::default(),
                afters: Vec::new(),
            }),
            watched: AtomicBool::new(false),
        }
    }

    /// Releases the lock and does what had to wait for that. A panic of a waker stays its own.
    fn release(&self, mut state: MutexGuard<'_, State>) {
        if state.after.is_empty() {
            return;
        }
        let empty = state.afters.pop().unwrap_or_default();
        let mut after = std::mem::replace(&mut state.after, empty);
        drop(state);
        for waker in after.wakers.drain(..) {
            // The panic has been reported by the hook; whoever else waits is woken all the same.
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
        for bio in &mut after.abandoned {
            let _ = catch_unwind(AssertUnwindSafe(|| bio.reset(Op::Flush, 0, 0)));
        }
        let mut state = lock(&self.state);
        after.abandoned.drain(..).for_each(|bio| state.keep(bio));
        state.afters.push(after);
    }

    /// Runs the lane on behalf of those who sleep.
    pub(crate) fn serve(&self, handles: &mut Vec<i32>) -> Next {
        let mut state = lock(&self.state);
        let now = self.clock.now();
        state.lane.unplug(now);
        state.run(now);
        let next = if state.lane.is_idle() {
            // Cleared under the lock, so that a future that starts now sees it and asks again.
            self.watched.store(false, Ordering::SeqCst);
            Next::Idle
        } else if let Some(clock) = self.clock.simulated() {
            // Nobody but those who wait makes virtual time pass.
            state.lane.next_wakeup().into_iter().for_each(|at| clock.advance_to(at));
            Next::Again
        } else {
            state.deaf = !state.lane.wait_handles(handles);
            state.wakes_at = state.lane.next_wakeup();
            match state.is_out_of_sight() {
                true => Next::Again,
                false => Next::Sleep(state.wakes_at.map(|at| at.since(now))),
            }
        };
        self.release(state);
        next
    }

    /// Runs the lane for a program that does everything by hand. When to do so again; `None`: nothing is out.
    fn run_by_hand(&self) -> Option<Time> {
        let mut state = lock(&self.state);
        let now = self.clock.now();
        state.lane.unplug(now);
        state.run(now);
        let next = if state.lane.is_idle() { None } else { state.lane.next_wakeup() };
        self.release(state);
        next
    }

    /// Has the service thread look at the lane, unless it will by itself. `false`: there is none.
    fn watch(self: &Arc<Self>, out_of_sight: bool) -> bool {
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

    fn poll(self: &Arc<Self>, index: u32, context: &mut Context<'_>) -> Poll<Bio> {
        let mut state = lock(&self.state);
        let now = self.clock.now();
        // Twice: what was only submitted now may be there at the next look (memory, null).
        for _ in 0..2 {
            if matches!(state.operations[index as usize], Operation::Pending(_)) {
                state.lane.unplug(now);
                state.run(now);
            }
        }
        let operation = &mut state.operations[index as usize];
        match std::mem::replace(operation, Operation::Free) {
            Operation::Done(bio) => {
                state.free.push(index);
                self.release(state);
                Poll::Ready(bio)
            }
            before => {
                let (waker, old) = match before {
                    Operation::Pending(Some(old)) if old.will_wake(context.waker()) => (old, None),
                    Operation::Pending(old) => (context.waker().clone(), old),
                    _ => (context.waker().clone(), None),
                };
                *operation = Operation::Pending(Some(waker));
                let out_of_sight = state.is_out_of_sight();
                self.release(state);
                drop(old);
                if !self.watch(out_of_sight) {
                    // Nobody will look but those who poll.
                    context.waker().wake_by_ref();
                }
                Poll::Pending
            }
        }
    }

    /// The device goes, with all futures of it. The service thread may look at this lane a last time, so the
    /// way to the device ends here and now, not when that thread is done with it.
    pub(crate) fn close(&self) {
        let lane: Box<dyn Lane> = std::mem::replace(&mut lock(&self.state).lane, Box::new(Closed::default()));
        // Waits for what its driver has, and frees the buffers of futures that are gone.
        drop(lane);
    }

    /// The future is gone. Its I/O goes on, and somebody has to see its end.
    fn abandon(self: &Arc<Self>, index: u32) {
        let mut state = lock(&self.state);
        let operation = &mut state.operations[index as usize];
        let waker = match std::mem::replace(operation, Operation::Abandoned) {
            Operation::Done(bio) => {
                *operation = Operation::Free;
                state.free.push(index);
                state.after.abandoned.push(bio);
                return self.release(state);
            }
            Operation::Pending(waker) => waker,
            _ => None,
        };
        drop(state);
        drop(waker);
        // If it was never polled, nobody has handed it to the device.
        self.watch(true);
    }
}

/// The result of an I/O and its buffer. The buffer is missing after a timeout, when the device may still
/// write to it, and when it had more parts than a bio can have segments.
pub type Outcome<B> = (Result<(), Error>, Option<B>);

/// An I/O in progress. Starts when it is made; resolves to its [`Outcome`].
#[must_use = "the I/O runs without it, but its result and buffer come only from awaiting it"]
pub struct Io<B: IoBuf> {
    device: Device,
    lane: Option<Arc<AsyncLane>>,
    index: u32,
    /// A failure before anything was submitted, with the buffer.
    refused: Option<(Error, Option<B>)>,
    _buffer: PhantomData<fn() -> B>,
}

impl<B: IoBuf> Unpin for Io<B> {}

impl<B: IoBuf> Future for Io<B> {
    type Output = Outcome<B>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<B>> {
        if let Some((error, buffer)) = self.refused.take() {
            return Poll::Ready((Err(error), buffer));
        }
        let Some(lane) = self.lane.clone() else {
            let fault = Fault::new(Kind::Contract, Stage::Handle);
            let error = self.device.error(fault, Op::Read, 0, 0, "polled after completion".to_string());
            return Poll::Ready((Err(error), None));
        };
        match lane.poll(self.index, context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(mut bio) => {
                self.lane = None;
                let (op, done) = (bio.op(), bio.done());
                let result = bio.status().map_err(|fault| {
                    let place = self.device.place_of(fault, bio.pos());
                    self.device.error(fault, op, bio.pos() - done, bio.len() + done, place)
                });
                let buffer = bio.take_buffer();
                bio.reset(Op::Flush, 0, 0);
                lock(&lane.state).keep(bio);
                Poll::Ready((result, buffer))
            }
        }
    }
}

impl<B: IoBuf> Drop for Io<B> {
    fn drop(&mut self) {
        if let Some(lane) = &self.lane {
            lane.abandon(self.index);
        }
    }
}

/// Makes a bio a transfer of a buffer.
type Build<B> = fn(&mut Bio, u64, B) -> Result<(), Fault>;

impl Device {
    /// Reads at byte offset `pos` until `buffer` is full.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::{pin::pin, task::{Context, Poll, Waker}, future::Future};
    /// let disk = platter_disk::device::Device::ram(1 << 20)?;
    /// let mut io = pin!(async {
    ///     let (result, _) = disk.write(4096, vec![1u8; 512]).await;
    ///     result?;
    ///     let (result, buffer) = disk.read(4096, vec![0u8; 512]).await;
    ///     result.map(|()| buffer)
    /// });
    /// # let mut context = Context::from_waker(Waker::noop());
    /// # let Poll::Ready(result) = io.as_mut().poll(&mut context) else { panic!() };
    /// assert_eq!(result?, Some(vec![1u8; 512]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn read<B: IoBufMut>(&self, pos: u64, buffer: B) -> Io<B> {
        self.begin(Op::Read, pos, buffer, Bio::reset_read)
    }

    /// Writes all of `buffer` at byte offset `pos`.
    pub fn write<B: IoBuf>(&self, pos: u64, buffer: B) -> Io<B> {
        self.begin(Op::Write, pos, buffer, Bio::reset_write)
    }

    /// Submits a bio of the program's own making. Its token is used by the device.
    pub fn submit<B: IoBuf>(&self, bio: Bio) -> Io<B> {
        match self.inner.background.lane() {
            Ok(lane) => self.started(lane, bio),
            Err(error) => self.refused(error, None),
        }
    }

    /// In a simulation that one thread does [by hand](VirtualClock::by_hand): runs what all futures of the device
    /// share, those that were dropped included, and the device's own work, as the service thread does elsewhere. Returns
    /// when to do so again although nothing completes; `None`: nothing is out.
    pub fn run_background(&self) -> Option<Time> {
        self.inner.background.opened()?.run_by_hand()
    }

    fn begin<B: IoBuf>(&self, op: Op, pos: u64, buffer: B, build: Build<B>) -> Io<B> {
        let lane = match self.inner.background.lane() {
            Ok(lane) => lane,
            Err(error) => return self.refused(error, Some(buffer)),
        };
        let mut bio = lock(&lane.state).spare.pop().unwrap_or_else(Bio::flush);
        let len = buffer.byte_len() as u64;
        match build(&mut bio, pos, buffer) {
            Ok(()) => self.started(lane, bio),
            Err(fault) => self.refused(self.error(fault, op, pos, len, String::new()), None),
        }
    }

    fn started<B: IoBuf>(&self, lane: Arc<AsyncLane>, mut bio: Bio) -> Io<B> {
        self.submitter.sign(&mut bio);
        let index = lock(&lane.state).start(lane.clock.now(), bio);
        Io { device: self.clone(), lane: Some(lane), index, refused: None, _buffer: PhantomData }
    }

    fn refused<B: IoBuf>(&self, error: Error, buffer: Option<B>) -> Io<B> {
        let refused = Some((error, buffer));
        Io { device: self.clone(), lane: None, index: 0, refused, _buffer: PhantomData }
    }
}
