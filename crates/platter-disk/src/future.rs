//! Futures: buffers move in and come back with the result; any executor will do.
//!
//! Dropping a future gives up its result, not its memory: the buffer stays with the bio until the device is done with
//! it and is then freed. Dropping the future of a read cancels the read, since only its result was wanted; all other
//! operations are carried out, including reads that are barriers or flush the device first. A future that is polled
//! makes progress by itself. For futures that no task polls, one service thread per process, started when it is first
//! needed, sleeps on the drivers' descriptors and wakes their tasks.

use crate::clock::Clock;
use crate::closed::Closed;
use crate::deferred::Section;
use crate::device::Device;
use crate::service;
use crate::sync::{Mutex, lock};
use crate::sync_io::IoOptions;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::buf::{IoBuf, IoBufMut};
use platter_block::deferred::{Deferred, later};
use platter_block::fault::{Error, Fault, Kind, Stage, Status};
use platter_block::lane::Lane;
use platter_block::time::{Span, Time, VirtualClock};
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
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

struct State {
    lane: Box<dyn Lane>,
    operations: Vec<Operation>,
    free: Vec<u32>,
    done: Vec<Bio>,
    spare: Vec<Bio>,
    /// The driver's completions cannot be seen on a descriptor, as the service thread found.
    deaf: bool,
    /// The time by which the service thread runs the lane, if it sleeps.
    wakes_at: Option<Time>,
}

/// The lane shared by all futures of a device and the device's own work.
pub(crate) struct AsyncLane {
    state: Mutex<State>,
    clock: Clock,
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
    fn run_by_hand(&self) -> Option<Time> {
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

    fn poll<B: IoBuf>(self: &Arc<Self>, index: u32, context: &mut Context<'_>) -> Poll<End<B>> {
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
    fn cancel(self: &Arc<Self>, index: u32) {
        let mut state = lock(&self.state);
        let now = self.clock.now();
        state.lane.cancel(now, u64::from(index));
        state.run(now);
        drop(state);
        self.watch(true);
    }

    /// The future was dropped. Its I/O is cancelled unless it `is_wanted` for its effect; in either case its end must
    /// be seen.
    fn abandon(self: &Arc<Self>, index: u32, is_wanted: bool) {
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
struct End<B> {
    status: Status,
    op: Op,
    /// Offset and length of the part that was not done, and number of bytes done.
    pos: u64,
    len: u64,
    done: u64,
    buffer: Option<B>,
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

/// The result of an I/O and its buffer. The buffer is missing after a timeout, when the device may still
/// write to it, and when it had more parts than a bio can have segments.
pub type Outcome<B> = (Result<(), Error>, Option<B>);

/// An I/O in progress. It starts when it is made, and resolves to its [`Outcome`].
#[must_use = "the I/O runs without it, but its result and buffer come only from awaiting it"]
pub struct Io<B: IoBuf> {
    device: Device,
    lane: Option<Arc<AsyncLane>>,
    index: u32,
    /// A read without effects on other I/O: only its caller needs it.
    is_mere_read: bool,
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
            Poll::Ready(End { status, op, pos, len, done, buffer }) => {
                self.lane = None;
                let result = status.map_err(|fault| {
                    let place = self.device.place_of(fault, pos);
                    self.device.error(fault, op, pos - done, len + done, place)
                });
                Poll::Ready((result, buffer))
            }
        }
    }
}

impl<B: IoBuf> Io<B> {
    /// Asks the device to cancel the I/O. An I/O that has not started does not start, and ends at once with
    /// [`Kind::Cancelled`]. An I/O that the disk has may end early with that fault, or end as if it had not been
    /// cancelled. The future resolves in any case, and must be awaited to get its buffer. A cancelled write may have
    /// been carried out.
    pub fn cancel(&mut self) {
        if let Some(lane) = &self.lane {
            lane.cancel(self.index);
        }
    }
}

impl<B: IoBuf> Drop for Io<B> {
    fn drop(&mut self) {
        if let Some(lane) = &self.lane {
            lane.abandon(self.index, !self.is_mere_read);
        }
    }
}

/// Turns a bio into a transfer of a buffer.
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
        self.read_with(pos, buffer, IoOptions::default())
    }

    /// [`Device::read`] with flags, priority, context and timeout.
    pub fn read_with<B: IoBufMut>(&self, pos: u64, buffer: B, options: IoOptions) -> Io<B> {
        self.begin(Op::Read, pos, buffer, Bio::reset_read, options)
    }

    /// Writes all of `buffer` at byte offset `pos`.
    pub fn write<B: IoBuf>(&self, pos: u64, buffer: B) -> Io<B> {
        self.write_with(pos, buffer, IoOptions::default())
    }

    /// [`Device::write`] with flags, priority, context and timeout. For a durable write use
    /// [`Flags::FUA`](platter_block::bio::Flags::FUA).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::{pin::pin, task::{Context, Poll, Waker}, future::Future};
    /// use platter_block::bio::Flags;
    /// use platter_disk::sync_io::IoOptions;
    /// let disk = platter_disk::device::Device::ram(1 << 20)?;
    /// let mut io = pin!(async {
    ///     disk.write_with(4096, vec![1u8; 512], IoOptions::flags(Flags::FUA)).await.0?;
    ///     disk.start_discard(8192, 4096).await.0?;
    ///     disk.start_flush().await.0
    /// });
    /// # let mut context = Context::from_waker(Waker::noop());
    /// # let Poll::Ready(result) = io.as_mut().poll(&mut context) else { panic!() };
    /// # result?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_with<B: IoBuf>(&self, pos: u64, buffer: B, options: IoOptions) -> Io<B> {
        self.begin(Op::Write, pos, buffer, Bio::reset_write, options)
    }

    /// Makes everything that has completed durable. The asynchronous form of [`Device::flush`].
    pub fn start_flush(&self) -> Io<()> {
        self.operate(Op::Flush, 0, 0)
    }

    /// Discards the contents of a range. The asynchronous form of [`Device::discard`].
    pub fn start_discard(&self, pos: u64, len: u64) -> Io<()> {
        self.operate(Op::Discard, pos, len)
    }

    /// Makes a range read as zeroes. The asynchronous form of [`Device::write_zeroes`].
    pub fn start_write_zeroes(&self, pos: u64, len: u64) -> Io<()> {
        self.operate(Op::WriteZeroes, pos, len)
    }

    /// Submits a bio that the program made. The device uses the bio's token. Its deadline is in the time of the
    /// device's clock ([`Device::clock`]).
    pub fn submit<B: IoBuf>(&self, bio: Bio) -> Io<B> {
        match self.inner.background.lane() {
            Ok(lane) => self.started(lane, bio),
            Err(error) => self.refused(error, None),
        }
    }

    /// In a simulation that one thread does [by hand](VirtualClock::by_hand): runs the lane of the device's futures,
    /// including dropped ones, the device's own work, and requests that synchronous calls gave up. Elsewhere the
    /// service thread does this. Returns when to call again even if nothing completes; `None`: nothing is outstanding
    /// except given-up requests.
    pub fn run_background(&self) -> Option<Time> {
        self.inner.callers.help();
        self.inner.background.opened()?.run_by_hand()
    }

    /// An operation without data.
    fn operate(&self, op: Op, pos: u64, len: u64) -> Io<()> {
        match self.inner.background.lane() {
            Ok(lane) => {
                let mut bio = lock(&lane.state).spare.pop().unwrap_or_else(Bio::flush);
                bio.reset(op, pos, len);
                self.started(lane, bio)
            }
            Err(error) => self.refused(error, Some(())),
        }
    }

    fn begin<B: IoBuf>(&self, op: Op, pos: u64, buffer: B, build: Build<B>, options: IoOptions) -> Io<B> {
        let lane = match self.inner.background.lane() {
            Ok(lane) => lane,
            Err(error) => return self.refused(error, Some(buffer)),
        };
        let mut bio = lock(&lane.state).spare.pop().unwrap_or_else(Bio::flush);
        let len = buffer.byte_len() as u64;
        match build(&mut bio, pos, buffer) {
            Ok(()) => {
                bio.add_flags(options.flags);
                bio.set_ioprio(options.ioprio);
                bio.set_context(options.context);
                bio.set_deadline(options.timeout.map(|span| self.inner.clock.now() + span));
                self.started(lane, bio)
            }
            Err(fault) => self.refused(self.error(fault, op, pos, len, String::new()), None),
        }
    }

    fn started<B: IoBuf>(&self, lane: Arc<AsyncLane>, mut bio: Bio) -> Io<B> {
        self.submitter.sign(&mut bio);
        let effect = Flags::SOFT_BARRIER | Flags::HARD_BARRIER | Flags::PREFLUSH;
        let is_mere_read = bio.op() == Op::Read && !bio.flags().intersects(effect);
        let index = lock(&lane.state).start(lane.clock.now(), bio);
        Io {
            device: self.clone(),
            lane: Some(lane),
            index,
            is_mere_read,
            refused: None,
            _buffer: PhantomData,
        }
    }

    fn refused<B: IoBuf>(&self, error: Error, buffer: Option<B>) -> Io<B> {
        let refused = Some((error, buffer));
        Io { device: self.clone(), lane: None, index: 0, is_mere_read: false, refused, _buffer: PhantomData }
    }
}
