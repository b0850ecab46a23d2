//! Futures: buffers move in and come back with the result; any executor will do.
//!
//! Dropping a future gives up interest, not memory: the buffer stays with the bio until the device is done with it and is
//! freed then. A read that is dropped is cancelled, since only its result was wanted; anything else is carried out,
//! and so is a read that is a barrier or flushes the device first. A future that is polled makes progress by itself.
//! For futures that are not, one service thread per process, started on first need, sleeps on the drivers' descriptors
//! and wakes their tasks.

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
            }),
            watched: AtomicBool::new(false),
        }
    }

    /// Runs the lane without making time pass. When it wants to be run next.
    pub(crate) fn tend(&self) -> Option<Time> {
        let mut state = lock(&self.state);
        let now = self.clock.now();
        state.lane.unplug(now);
        state.run(now);
        state.lane.next_wakeup()
    }

    /// Whether nothing is out.
    pub(crate) fn is_idle(&self) -> bool {
        lock(&self.state).lane.is_idle()
    }

    /// Runs the lane on behalf of those who sleep.
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
        }
    }

    /// Runs the lane for a program that does everything by hand. When to do so again; `None`: nothing is out.
    fn run_by_hand(&self) -> Option<Time> {
        let mut state = lock(&self.state);
        let now = self.clock.now();
        state.lane.unplug(now);
        state.run(now);
        if state.lane.is_idle() { None } else { state.lane.next_wakeup() }
    }

    /// Has the service thread look at the lane, unless it will by itself. `false`: there is none.
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
        // Until the service thread watches the lane: a destructor that waits for the device may wait for this lane's I/O.
        let mut section = Section::enter();
        // Dropped after the lock is released, like every waker here.
        let mut cloned = None;
        let mut state = lock(&self.state);
        let now = self.clock.now();
        // Twice: what was only submitted now may be there at the next look (memory, null).
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
                        // Cloning a waker runs code of the program, so not under the lock. The I/O may complete meanwhile.
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
            // Nobody will look but those who poll.
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// The device goes, with all futures of it. The service thread may look at this lane a last time, so the
    /// way to the device ends here and now, not when that thread is done with it.
    pub(crate) fn close(&self) {
        let lane: Box<dyn Lane> = std::mem::replace(&mut lock(&self.state).lane, Box::new(Closed::default()));
        // Waits for what its driver has, and frees the buffers of futures that are gone.
        let _section = Section::enter();
        drop(lane);
    }

    /// Asks the device to give up an I/O. Whatever comes of it, its future learns as of any other end.
    fn cancel(self: &Arc<Self>, index: u32) {
        let mut state = lock(&self.state);
        let now = self.clock.now();
        state.lane.cancel(now, u64::from(index));
        state.run(now);
        drop(state);
        self.watch(true);
    }

    /// The future is gone. Its I/O goes on, unless nobody misses it (`is_wanted`), and its end must be seen.
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
        // If it was never polled, nobody has handed it to the device.
        self.watch(true);
    }
}

/// What a future needs of its bio when that has completed.
struct End<B> {
    status: Status,
    op: Op,
    /// Place and length of what was not done, and how much was.
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

/// An I/O in progress. Starts when it is made; resolves to its [`Outcome`].
#[must_use = "the I/O runs without it, but its result and buffer come only from awaiting it"]
pub struct Io<B: IoBuf> {
    device: Device,
    lane: Option<Arc<AsyncLane>>,
    index: u32,
    /// A read that has no effect on others: only its caller needs it.
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
    /// Asks the device to give up the I/O. One that has not started does not start, and ends at once with
    /// [`Kind::Cancelled`]; one that the disk has may end with that sooner than it would, or as if it had not been
    /// cancelled. The future resolves in any case, and has to be awaited for its buffer. A write that was cancelled may
    /// have been carried out.
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

    /// [`Device::write`] with flags, priority, context and timeout. A durable write is one with
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

    /// Makes everything that has completed durable. The future's form of [`Device::flush`].
    pub fn start_flush(&self) -> Io<()> {
        self.operate(Op::Flush, 0, 0)
    }

    /// Says that the contents of a range are no longer needed. The future's form of [`Device::discard`].
    pub fn start_discard(&self, pos: u64, len: u64) -> Io<()> {
        self.operate(Op::Discard, pos, len)
    }

    /// Makes a range read as zeroes. The future's form of [`Device::write_zeroes`].
    pub fn start_write_zeroes(&self, pos: u64, len: u64) -> Io<()> {
        self.operate(Op::WriteZeroes, pos, len)
    }

    /// Submits a bio of the program's own making. Its token is used by the device. A deadline of it is by the device's
    /// clock ([`Device::clock`]).
    pub fn submit<B: IoBuf>(&self, bio: Bio) -> Io<B> {
        match self.inner.background.lane() {
            Ok(lane) => self.started(lane, bio),
            Err(error) => self.refused(error, None),
        }
    }

    /// In a simulation that one thread does [by hand](VirtualClock::by_hand): runs what all futures of the device
    /// share, those that were dropped included, the device's own work, and what synchronous calls gave up, as the service
    /// thread does elsewhere. Returns when to do so again although nothing completes; `None`: nothing is out but what was
    /// given up.
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
