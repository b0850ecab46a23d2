//! Futures: buffers move in and come back with the result; any executor will do.
//!
//! Dropping a future gives up its result, not its memory: the buffer stays with the bio until the device is done with
//! it and is then freed. Dropping the future of a read cancels the read, since only its result was wanted; all other
//! operations are carried out, including reads that are barriers or flush the device first. A future that is polled
//! makes progress by itself. For futures that no task polls, one service thread per process, started when it is first
//! needed, sleeps on the drivers' descriptors and wakes their tasks.

use crate::device::Device;
use crate::sync_io::IoOptions;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::buf::{IoBuf, IoBufMut};
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::time::Time;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

mod lane;
mod reactor;
#[allow(unsafe_code)]
mod reply;

pub(crate) use lane::{AsyncLane, CallWaiter, Next};
use lane::{keep_bio, spare_bio};
pub use reactor::Reactor;
use reply::Reply;

/// The result of an I/O and its buffer. The buffer is missing after a timeout, when the device may still write to it,
/// when it had more parts than a bio can have segments, and for operations without data.
pub type Outcome<B> = (Result<(), Error>, Option<B>);

/// An I/O in progress. It starts when it is made, and resolves to its [`Outcome`].
#[must_use = "the I/O runs without it, but its result and buffer come only from awaiting it"]
pub struct Io<B: IoBuf> {
    device: Device,
    /// The lane that has the I/O, and where its completed bio will be; `None` once it has been taken.
    lane: Option<(Arc<AsyncLane>, Arc<Reply>)>,
    /// It has not been polled.
    is_new: bool,
    /// A read without effects on other I/O: only its caller needs it.
    is_mere_read: bool,
    /// The outcome of an I/O that ended before anything was submitted.
    ended: Option<Outcome<B>>,
    _buffer: PhantomData<fn() -> B>,
}

impl<B: IoBuf> Unpin for Io<B> {}

impl<B: IoBuf> Future for Io<B> {
    type Output = Outcome<B>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<B>> {
        if let Some(outcome) = self.ended.take() {
            return Poll::Ready(outcome);
        }
        let Some((lane, reply)) = &self.lane else {
            let fault = Fault::new(Kind::Contract, Stage::Handle);
            let error = self.device.error(fault, Op::Read, 0, 0, "polled after completion".to_string());
            return Poll::Ready((Err(error), None));
        };
        let ended = lane.poll(reply, self.is_new, context, |bio| self.outcome(bio));
        self.is_new = false;
        match ended {
            None => Poll::Pending,
            Some(outcome) => {
                self.lane = None;
                Poll::Ready(outcome)
            }
        }
    }
}

impl<B: IoBuf> Io<B> {
    fn ended(device: Device, result: Result<(), Error>, buffer: Option<B>) -> Io<B> {
        let ended = Some((result, buffer));
        Io { device, lane: None, is_new: true, is_mere_read: false, ended, _buffer: PhantomData }
    }

    /// The outcome of a completed bio.
    fn outcome(&self, bio: &mut Bio) -> Outcome<B> {
        let result = bio.status().map_err(|fault| {
            let place = self.device.place_of(fault, bio.pos());
            self.device.error(fault, bio.op(), bio.pos() - bio.done(), bio.len() + bio.done(), place)
        });
        (result, bio.take_buffer())
    }

    /// Asks the device to cancel the I/O. An I/O that has not started does not start, and ends at once with
    /// [`Kind::Cancelled`]. An I/O that the disk has may end early with that fault, or end as if it had not been
    /// cancelled. The future resolves in any case, and must be awaited to get its buffer. A cancelled write may have
    /// been carried out.
    pub fn cancel(&mut self) {
        if let Some((lane, reply)) = &self.lane {
            lane.cancel(reply);
        }
    }
}

impl<B: IoBuf> Drop for Io<B> {
    fn drop(&mut self) {
        if let Some((lane, reply)) = &self.lane {
            lane.abandon(reply, !self.is_mere_read);
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

    /// [`Device::write`] with flags, priority, context and timeout.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::{pin::pin, task::{Context, Poll, Waker}, future::Future};
    /// use platter_block::bio::Flags;
    /// use platter_block::time::Span;
    /// use platter_disk::sync_io::IoOptions;
    /// let disk = platter_disk::device::Device::ram(1 << 20)?;
    /// let options = IoOptions::flags(Flags::PREFLUSH).with_timeout(Some(Span::from_millis(500)));
    /// let mut io = pin!(async { disk.write_with(4096, vec![1u8; 512], options).await.0 });
    /// # let mut context = Context::from_waker(Waker::noop());
    /// # let Poll::Ready(result) = io.as_mut().poll(&mut context) else { panic!() };
    /// # result?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_with<B: IoBuf>(&self, pos: u64, buffer: B, options: IoOptions) -> Io<B> {
        self.begin(Op::Write, pos, buffer, Bio::reset_write, options)
    }

    /// Writes all of `buffer` at byte offset `pos`. When the future resolves, the data is durable, as after a write with
    /// [`Flags::FUA`]: on a disk without durable writes a flush follows the write. Other options:
    /// [`Device::write_with`] with that flag.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::{pin::pin, task::{Context, Poll, Waker}, future::Future};
    /// let disk = platter_disk::device::Device::ram(1 << 20)?;
    /// let mut io = pin!(async {
    ///     let (result, buffer) = disk.write_durable(4096, vec![1u8; 512]).await;
    ///     result.map(|()| buffer)
    /// });
    /// # let mut context = Context::from_waker(Waker::noop());
    /// # let Poll::Ready(result) = io.as_mut().poll(&mut context) else { panic!() };
    /// assert_eq!(result?, Some(vec![1u8; 512]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_durable<B: IoBuf>(&self, pos: u64, buffer: B) -> Io<B> {
        self.write_with(pos, buffer, IoOptions::flags(Flags::FUA))
    }

    /// Makes everything that has completed durable. The asynchronous form of [`Device::flush`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::{pin::pin, task::{Context, Poll, Waker}, future::Future};
    /// let disk = platter_disk::device::Device::ram(1 << 20)?;
    /// let mut io = pin!(async {
    ///     let (first, second) = (disk.write(0, vec![1u8; 512]), disk.write(4096, vec![2u8; 512]));
    ///     first.await.0?;
    ///     second.await.0?;
    ///     disk.start_flush().await.0
    /// });
    /// # let mut context = Context::from_waker(Waker::noop());
    /// # let Poll::Ready(result) = io.as_mut().poll(&mut context) else { panic!() };
    /// # result?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_flush(&self) -> Io<()> {
        self.start_flush_with(IoOptions::default())
    }

    /// [`Device::start_flush`] with flags, priority, context and timeout.
    pub fn start_flush_with(&self, options: IoOptions) -> Io<()> {
        self.start_operation(Op::Flush, 0, 0, options)
    }

    /// Makes writes to the `len` bytes at `pos` (0: to the end of the device) durable, as far as they have completed.
    /// The asynchronous form of [`Device::flush_range`].
    pub fn start_flush_range(&self, pos: u64, len: u64) -> Io<()> {
        match self.range_to(Op::Flush, pos, len) {
            // At the very end of the device there is nothing to flush, and a flush without a length would flush
            // everything.
            Ok(0) => Io::ended(self.clone(), Ok(()), None),
            Ok(len) => self.start_operation(Op::Flush, pos, len, IoOptions::default()),
            Err(error) => self.refused(error, None),
        }
    }

    /// Tells the device that the contents of a range are no longer needed. The asynchronous form of
    /// [`Device::discard`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::{pin::pin, task::{Context, Poll, Waker}, future::Future};
    /// let disk = platter_disk::device::Device::ram(1 << 20)?;
    /// let mut io = pin!(async {
    ///     disk.start_discard(8192, 4096).await.0?;
    ///     disk.start_write_zeroes(16384, 4096).await.0
    /// });
    /// # let mut context = Context::from_waker(Waker::noop());
    /// # let Poll::Ready(result) = io.as_mut().poll(&mut context) else { panic!() };
    /// # result?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_discard(&self, pos: u64, len: u64) -> Io<()> {
        self.start_discard_with(pos, len, IoOptions::default())
    }

    /// [`Device::start_discard`] with flags, priority, context and timeout.
    pub fn start_discard_with(&self, pos: u64, len: u64, options: IoOptions) -> Io<()> {
        self.start_operation(Op::Discard, pos, len, options)
    }

    /// Makes a range read as zeroes. The asynchronous form of [`Device::write_zeroes`].
    pub fn start_write_zeroes(&self, pos: u64, len: u64) -> Io<()> {
        self.start_write_zeroes_with(pos, len, IoOptions::default())
    }

    /// [`Device::start_write_zeroes`] with flags, priority, context and timeout.
    pub fn start_write_zeroes_with(&self, pos: u64, len: u64, options: IoOptions) -> Io<()> {
        self.start_operation(Op::WriteZeroes, pos, len, options)
    }

    /// Submits a bio that the program made. The device uses the bio's token. Its deadline is in the time of the
    /// device's clock ([`Device::clock`]).
    pub fn submit<B: IoBuf>(&self, mut bio: Bio) -> Io<B> {
        self.timeouts.apply(&self.inner.clock, &mut bio);
        match self.inner.background.lane() {
            Ok(lane) => self.started(lane, bio),
            Err(error) => self.refused(error, None),
        }
    }

    /// In a simulation that one thread does [by hand](platter_block::time::VirtualClock::by_hand): runs the lane of the device's futures,
    /// including dropped ones, the device's own work, and late requests of synchronous calls. Calls and channels that wait do so, too.
    /// Elsewhere the service thread does this. Returns when to call again even if nothing completes; `None`: nothing is outstanding.
    pub fn run_background(&self) -> Option<Time> {
        self.inner.background.run_by_hand()
    }

    /// Lets an event loop wait for the I/Os of this device's futures, whichever thread starts them.
    ///
    /// # Errors
    /// The process has no free descriptors.
    pub fn reactor(&self) -> Result<Reactor, Error> {
        Reactor::new(self)
    }

    /// Runs a future on this thread, which sleeps until the device completes an I/O of it, or something else wakes it. Unlike with
    /// another executor, no other thread takes part in the I/Os that the future starts on this device. Those on other devices end
    /// as well.
    ///
    /// ```
    /// let disk = platter_disk::device::Device::ram(1 << 20)?;
    /// let (result, buffer) = disk.block_on(disk.read(4096, vec![1u8; 512]));
    /// result?;
    /// assert_eq!(buffer, Some(vec![0u8; 512]));
    /// # Ok::<(), platter_block::fault::Error>(())
    /// ```
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        reactor::block_on(self, future)
    }

    /// An operation without data.
    fn start_operation(&self, op: Op, pos: u64, len: u64, options: IoOptions) -> Io<()> {
        match self.inner.background.lane() {
            Ok(lane) => {
                let mut bio = spare_bio();
                bio.reset(op, pos, len);
                self.apply(&mut bio, options);
                self.started(lane, bio)
            }
            Err(error) => self.refused(error, None),
        }
    }

    fn begin<B: IoBuf>(&self, op: Op, pos: u64, buffer: B, build: Build<B>, options: IoOptions) -> Io<B> {
        let mut bio = spare_bio();
        let len = buffer.byte_len() as u64;
        if let Err(fault) = build(&mut bio, pos, buffer) {
            return self.refused(self.error(fault, op, pos, len, String::new()), None);
        }
        if options.flags == Flags::NONE && self.has_answered_bio(&mut bio) {
            let buffer = bio.take_buffer();
            bio.recycle();
            keep_bio(bio);
            return Io::ended(self.clone(), Ok(()), buffer);
        }
        match self.inner.background.lane() {
            Ok(lane) => {
                self.apply(&mut bio, options);
                self.started(lane, bio)
            }
            Err(error) => self.refused(error, bio.take_buffer()),
        }
    }

    /// Reads from the device's memory without a lane; returns whether all that the bio asks for was read.
    fn has_answered_bio(&self, bio: &mut Bio) -> bool {
        let Some(resident) = self.inner.resident.as_ref().filter(|_| bio.op() == Op::Read) else {
            return false;
        };
        // In a simulation a barrier has its place only when its future is polled.
        if self.inner.clock.simulated().is_some() && !self.inner.background.is_idle() {
            return false;
        }
        if !self.inner.background.fence.is_empty() {
            return false;
        }
        let (limits, size) = (&self.inner.geometry.limits, self.size());
        let checked = limits.check_range(bio.pos(), bio.len(), size);
        // What is invalid is refused further down.
        checked.and_then(|()| limits.check_memory(bio, size)).is_ok() && resident.read_bio(bio)
    }

    fn apply(&self, bio: &mut Bio, options: IoOptions) {
        bio.add_flags(options.flags);
        bio.set_ioprio(options.ioprio);
        bio.set_context(options.context);
        bio.set_deadline(self.until(bio.op(), options));
    }

    fn started<B: IoBuf>(&self, lane: &Arc<AsyncLane>, mut bio: Bio) -> Io<B> {
        self.submitter.sign(&mut bio);
        let is_barrier = bio.flags().intersects(Flags::SOFT_BARRIER | Flags::HARD_BARRIER);
        let has_effect = is_barrier || bio.op() != Op::Read || bio.flags().contains(Flags::PREFLUSH);
        // Other threads' I/Os that were started before it must not stay behind it.
        let has_others = is_barrier && self.inner.background.hand_over_others(lane);
        // Nor may a later read be answered from memory before it has its place.
        let can_be_passed = self.inner.resident.is_some() && self.inner.clock.simulated().is_none();
        let ordered = has_others || (is_barrier && can_be_passed);
        let reply = lane.start(bio, ordered);
        Io {
            device: self.clone(),
            lane: Some((Arc::clone(lane), reply)),
            is_new: true,
            is_mere_read: !has_effect,
            ended: None,
            _buffer: PhantomData,
        }
    }

    fn refused<B: IoBuf>(&self, error: Error, buffer: Option<B>) -> Io<B> {
        Io::ended(self.clone(), Err(error), buffer)
    }
}
