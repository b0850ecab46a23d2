//! The polled interface: batches of bios in, batches of bios out, no waker and no allocation.

use crate::background::Background;
use crate::clock::Clock;
use crate::deferred::Closing;
use crate::device::{Device, Timeouts};
use crate::fenced_lane::FencedLane;
use crate::handle::Description;
use crate::submitter::Submitter;
use crate::wake::Sleeper;
use platter_block::bio::Bio;
use platter_block::lane::{Cancel, Lane};
use platter_block::segment::{Region, RegionId};
use platter_block::time::{Span, Time};
use std::marker::PhantomData;
use std::os::fd::RawFd;
use std::sync::Arc;

/// Returned when the channel is full: the bio, to be submitted again after a completion.
#[derive(Debug)]
pub struct Full(pub Bio);

/// A path to a device for one thread, for programs that poll.
///
/// Submitted bios collect in the channel (the caller's plug) until [`poll`](Channel::poll), [`flush`](Channel::flush)
/// or [`wait`](Channel::wait) hands them over as one batch. A channel belongs to the thread that opened it (it is not
/// [`Send`]), so its ring needs no locks.
///
/// Only the channel's own thread sees its completions. A barrier on the device, from any submitter, waits until the
/// channel's bios have completed, that is, until its thread has polled for them. A thread with bios outstanding in a
/// channel must therefore not block in a synchronous call on the same device while there are barriers: the call would
/// wait for the barrier, and the barrier for the channel.
///
/// ```
/// # use platter_disk::device::Device;
/// use platter_block::bio::{Bio, Op};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let disk = Device::ram(1 << 20)?;
/// let mut channel = disk.channel(32)?;
/// let mut bio = Bio::write(8192, vec![7u8; 4096])?;
/// bio.set_token(1);
/// channel.submit(bio).map_err(|_| "full")?;
/// let mut done = Vec::new();
/// while done.is_empty() {
///     channel.poll(&mut done);
/// }
/// assert!(done[0].status().is_ok());
/// assert_eq!(done[0].token(), 1);
/// let buffer: Option<Vec<u8>> = done[0].take_buffer();
/// assert_eq!(buffer.map(|b| b.len()), Some(4096));
/// # Ok(())
/// # }
/// ```
///
/// The other operations are bios too: a flush, a discard, zeroes, and a write that is durable when it completes.
///
/// ```
/// # use platter_disk::device::Device;
/// use platter_block::bio::{Bio, Flags};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let disk = Device::ram(1 << 20)?;
/// let mut channel = disk.channel(4)?;
/// let mut durable = Bio::write(8192, vec![7u8; 4096])?;
/// durable.add_flags(Flags::FUA);
/// for bio in [durable, Bio::discard(16384, 4096), Bio::write_zeroes(32768, 4096), Bio::flush()] {
///     channel.submit(bio).map_err(|_| "full")?;
/// }
/// let mut done = Vec::new();
/// while channel.outstanding() > 0 {
///     channel.wait(&mut done, None);
/// }
/// assert!(done.iter().all(|bio| bio.status().is_ok()));
/// # Ok(())
/// # }
/// ```
pub struct Channel {
    lane: FencedLane,
    clock: Clock,
    /// The device's futures, of which a barrier must not pass any that was polled before.
    background: Arc<Background>,
    submitter: Submitter,
    /// The handle's description, if the channel belongs to a handle: it is not closed before its bios have completed.
    _description: Option<Arc<Description>>,
    /// Whether bios get the handle's number.
    signs: bool,
    now: Time,
    stamps: bool,
    polls: u64,
    outstanding: usize,
    capacity: usize,
    /// The time that bios without a deadline have.
    timeouts: Timeouts,
    closing: Closing,
    sleeper: Sleeper,
    _not_send: PhantomData<*const ()>,
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.closing.begin();
        if self.outstanding > 0 || self.lane.is_watchful() {
            self.lane.close(self.clock.now());
        }
    }
}

/// Polls between two readings of the clock when stamps are off.
const COARSE: u64 = 64;

impl Channel {
    pub(crate) fn new(lane: Box<dyn Lane>, device: &Device, capacity: usize) -> Channel {
        let (clock, background) = (device.clock(), Arc::clone(&device.inner.background));
        Channel {
            lane: FencedLane::new(lane, Arc::clone(&background.fence), None),
            now: clock.now(),
            clock,
            background,
            submitter: device.submitter,
            _description: device.description.clone(),
            signs: !device.submitter.is_anybody(),
            stamps: true,
            polls: 0,
            outstanding: 0,
            capacity,
            timeouts: device.timeouts,
            closing: Closing::default(),
            sleeper: Sleeper::default(),
            _not_send: PhantomData,
        }
    }

    /// Whether each batch is stamped with the time (default). If not, timers and the queue's latency histograms use a
    /// clock that is read every 64 polls.
    pub fn set_stamps(&mut self, on: bool) {
        self.stamps = on;
    }

    /// Number of bios that were submitted and have not come back. Those that ended with
    /// [`Kind::TimedOut`](platter_block::fault::Kind::TimedOut) while a disk had them count as back, but leave the channel only at a later
    /// [`poll`](Channel::poll), and barriers of other lanes wait for that.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// The time of the last batch.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The clock of the channel's times.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// When [`poll`](Channel::poll) must be called even if nothing completes; on a simulated device also when the
    /// next bio completes. For programs that drive several channels through virtual time.
    pub fn next_wakeup(&self) -> Option<Time> {
        self.lane.next_wakeup()
    }

    /// Submits a bio.
    ///
    /// # Errors
    /// [`Full`] with the bio if the channel already has the number of bios that it was opened for.
    #[inline]
    pub fn submit(&mut self, mut bio: Bio) -> Result<(), Full> {
        if self.outstanding >= self.capacity {
            return Err(Full(bio));
        }
        self.background.place_before(bio.flags());
        if self.signs {
            self.submitter.sign(&mut bio);
        }
        self.outstanding += 1;
        if bio.deadline().is_some() || !self.timeouts.is_none() || !self.background.fence.is_empty() {
            self.submit_with_care(bio);
        } else {
            self.lane.submit_common(self.now, bio);
        }
        Ok(())
    }

    /// Submits a bio that has a deadline, or while a change is late.
    #[cold]
    fn submit_with_care(&mut self, mut bio: Bio) {
        self.timeouts.apply(&self.clock, &mut bio);
        self.lane.submit_with_care(self.now, self.clock.now(), bio);
    }

    /// Cancels the bios with this token. Bios that no driver has taken complete with
    /// [`Kind::Cancelled`](platter_block::fault::Kind::Cancelled) at the next [`poll`](Channel::poll). For the others
    /// the driver is asked to cancel, and they complete with the driver's result. All of them come back.
    ///
    /// ```
    /// # use platter_disk::device::Device;
    /// use platter_block::bio::Bio;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut channel = Device::ram(1 << 20)?.channel(4)?;
    /// let mut bio = Bio::read(0, vec![0u8; 512])?;
    /// bio.set_token(7);
    /// channel.submit(bio).map_err(|_| "full")?;
    /// channel.cancel(7);
    /// let mut done = Vec::new();
    /// while channel.outstanding() > 0 {
    ///     channel.wait(&mut done, None);
    /// }
    /// assert_eq!(done.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancel(&mut self, token: u64) {
        self.lane.cancel(self.now, &Cancel::token(token));
    }

    /// Hands the submitted bios to the device. [`poll`](Channel::poll) does so too.
    pub fn flush(&mut self) {
        self.stamp();
        self.lane.run(self.now);
    }

    /// Hands over the submitted bios and appends completed ones to `out`. Does not block. Returns how many completed.
    #[inline]
    pub fn poll(&mut self, out: &mut Vec<Bio>) -> usize {
        self.stamp();
        self.turn(out)
    }

    /// Like [`poll`](Channel::poll), at a time that the caller has read from [`Channel::clock`]; times must not go
    /// back. For programs that stamp their batches themselves and want to read the clock only once.
    #[inline]
    pub fn poll_at(&mut self, now: Time, out: &mut Vec<Bio>) -> usize {
        self.now = now;
        self.turn(out)
    }

    #[inline]
    fn turn(&mut self, out: &mut Vec<Bio>) -> usize {
        let before = out.len();
        self.lane.poll(self.now, out);
        let completed = out.len() - before;
        self.outstanding -= completed;
        if completed == 0 && self.outstanding > 0 && self.lane.in_flight() == 0 {
            // The disks are idle and the program waits: holding requests back gains nothing. A lane of one disk has seen to that.
            self.lane.unplug(self.now);
            self.lane.run(self.now);
        }
        completed
    }

    /// Tells the device that the program waits for the bios that it has handed over, as [`wait`](Channel::wait) does:
    /// the device no longer holds requests back for merging. For programs that wait for several channels at once.
    pub fn unplug(&mut self) {
        self.lane.unplug(self.now);
        self.lane.run(self.now);
    }

    /// Like [`poll`](Channel::poll), but blocks until at least one bio has completed or `timeout` has passed. Returns
    /// at once if nothing is outstanding.
    pub fn wait(&mut self, out: &mut Vec<Bio>, timeout: Option<Span>) -> usize {
        let until = timeout.map(|span| self.clock.now() + span);
        while self.outstanding > 0 {
            self.now = self.clock.now();
            self.lane.unplug(self.now);
            let wake = Time::earliest(until, Time::earliest(self.next_wakeup(), self.background.help()));
            self.lane.wait(self.now, wake.map(|at| at.since(self.now)));
            let completed = self.poll(out);
            if completed > 0 {
                return completed;
            }
            if until.is_some_and(|until| self.clock.now() >= until) {
                return 0;
            }
        }
        0
    }

    /// Like [`wait`](Channel::wait), but also returns when one of `descriptors` is readable or closed, and sleeps even if
    /// nothing is outstanding. Returns how many bios completed. For threads that serve a socket and a device: one that
    /// waits until it can write passes an epoll descriptor. May return early, so the caller tries its descriptors
    /// without blocking.
    ///
    /// On a simulated device with outstanding bios it advances virtual time and does not look at the descriptors.
    pub fn wait_or_readable(
        &mut self,
        out: &mut Vec<Bio>,
        descriptors: &[RawFd],
        timeout: Option<Span>,
    ) -> usize {
        if self.outstanding == 0 {
            self.sleeper.handles.clear();
            self.sleeper.handles.extend_from_slice(descriptors);
            self.sleeper.sleep(true, timeout);
            return 0;
        }
        let completed = self.poll(out);
        if completed > 0 {
            return completed;
        }
        self.now = self.clock.now();
        let until = timeout.map(|span| self.now + span);
        self.unplug();
        let wake = Time::earliest(until, Time::earliest(self.next_wakeup(), self.background.help()));
        self.lane.sleep(self.now, wake.map(|at| at.since(self.now)), descriptors);
        self.poll(out)
    }

    /// Appends the descriptors that become readable when [`poll`](Channel::poll) has something to do, for a thread that
    /// sleeps for several channels. They are valid until the channel is used again. `false`: not everything can be seen
    /// on them, so poll again soon.
    pub fn descriptors(&self, out: &mut Vec<RawFd>) -> bool {
        self.lane.wait_handles(out)
    }

    #[inline]
    fn stamp(&mut self) {
        self.polls += 1;
        if self.stamps || self.polls.is_multiple_of(COARSE) {
            self.now = self.clock.now();
        }
    }

    /// Offers a region of memory to the channel's drivers.
    pub fn register(&mut self, region: &Region) {
        self.lane.register(region);
    }

    /// Withdraws a region.
    pub fn unregister(&mut self, region: RegionId) {
        self.lane.unregister(region);
    }
}
