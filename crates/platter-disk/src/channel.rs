//! The polled interface: batches of bios in, batches of bios out, no waker and no allocation.

use crate::clock::Clock;
use crate::deferred::Closing;
use crate::device::Device;
use crate::handle::Description;
use crate::submitter::Submitter;
use platter_block::bio::Bio;
use platter_block::lane::Lane;
use platter_block::segment::{Region, RegionId};
use platter_block::time::{Span, Time};
use std::marker::PhantomData;
use std::sync::Arc;

/// A bio that found no room; give it again after a completion.
#[derive(Debug)]
pub struct Full(pub Bio);

/// One thread's own way to a device, for programs that poll.
///
/// Submitted bios collect in the channel (the caller's plug) until [`poll`](Channel::poll),
/// [`flush`](Channel::flush) or [`wait`](Channel::wait) hands them over as one batch. A channel belongs to
/// the thread that opened it (it is not [`Send`]): that is what lets its ring go without locks.
///
/// Nobody but the channel's own thread sees its completions. A barrier on the device, whoever sent it, waits
/// until the channel's bios have completed, that is, until its thread has polled for them. So a thread with
/// bios outstanding in a channel must not block in a synchronous call on the same device while there are
/// barriers: the call would wait for the barrier, and the barrier for the channel.
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
pub struct Channel {
    lane: Box<dyn Lane>,
    clock: Clock,
    submitter: Submitter,
    /// Of a handle: not closed before its bios are done.
    _description: Option<Arc<Description>>,
    /// Bios are signed: the handle is somebody's.
    signs: bool,
    now: Time,
    stamps: bool,
    polls: u64,
    outstanding: usize,
    capacity: usize,
    closing: Closing,
    _not_send: PhantomData<*const ()>,
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.closing.begin();
    }
}

/// Polls between two looks at the clock when stamps are off.
const COARSE: u64 = 64;

impl Channel {
    pub(crate) fn new(lane: Box<dyn Lane>, device: &Device, capacity: usize) -> Channel {
        let clock = device.clock();
        Channel {
            lane,
            now: clock.now(),
            clock,
            submitter: device.submitter,
            _description: device.description.clone(),
            signs: !device.submitter.is_anybody(),
            stamps: true,
            polls: 0,
            outstanding: 0,
            capacity,
            closing: Closing::default(),
            _not_send: PhantomData,
        }
    }

    /// Whether each batch is stamped with the time (default). Without, timers and the queue's latency
    /// histograms run on a clock read every 64 polls.
    pub fn set_stamps(&mut self, on: bool) {
        self.stamps = on;
    }

    /// Bios that were submitted and have not come back.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// The time of the last batch.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The clock that the channel's times are of.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// When [`poll`](Channel::poll) is needed although nothing completes; on a simulated device also when
    /// something completes next. For programs that drive several channels through virtual time.
    pub fn next_wakeup(&self) -> Option<Time> {
        self.lane.next_wakeup()
    }

    /// Takes a bio in.
    ///
    /// # Errors
    /// [`Full`] with the bio when as many are out as the channel was opened for.
    #[inline]
    pub fn submit(&mut self, mut bio: Bio) -> Result<(), Full> {
        if self.outstanding >= self.capacity {
            return Err(Full(bio));
        }
        if self.signs {
            self.submitter.sign(&mut bio);
        }
        self.outstanding += 1;
        self.lane.submit(self.now, bio);
        Ok(())
    }

    /// Asks the device to give up the bios with this token. Those that no driver has complete with
    /// [`Kind::Cancelled`](platter_block::fault::Kind::Cancelled) at the next [`poll`](Channel::poll); of the others the
    /// driver is asked, and they complete with whatever comes of it. All of them come back.
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
        self.lane.cancel(self.now, token);
    }

    /// Hands what was submitted to the device. [`poll`](Channel::poll) does so too.
    pub fn flush(&mut self) {
        self.stamp();
        self.lane.run(self.now);
    }

    /// Hands over what was submitted and appends what has completed. Does not block. Returns how many
    /// completed.
    #[inline]
    pub fn poll(&mut self, out: &mut Vec<Bio>) -> usize {
        self.stamp();
        self.turn(out)
    }

    /// Like [`poll`](Channel::poll) at a time that the caller has read from [`Channel::clock`]; it must not go
    /// back. For programs that stamp their own batches and need not pay for the clock twice.
    #[inline]
    pub fn poll_at(&mut self, now: Time, out: &mut Vec<Bio>) -> usize {
        self.now = now;
        self.turn(out)
    }

    #[inline]
    fn turn(&mut self, out: &mut Vec<Bio>) -> usize {
        self.lane.run(self.now);
        let before = out.len();
        self.lane.take_done(out);
        let completed = out.len() - before;
        self.outstanding -= completed;
        if completed == 0 && self.outstanding > 0 && self.lane.in_flight() == 0 {
            // The disk is idle and the program waits: nothing is gained by holding requests back.
            self.lane.unplug(self.now);
            self.lane.run(self.now);
        }
        completed
    }

    /// Says that the program waits for what it has handed over, as [`wait`](Channel::wait) does: the device
    /// holds nothing back for company any longer. For programs that wait for several channels at once.
    pub fn unplug(&mut self) {
        self.lane.unplug(self.now);
        self.lane.run(self.now);
    }

    /// Like [`poll`](Channel::poll), but blocks until at least one bio has completed or `timeout` has
    /// passed. Returns at once when nothing is outstanding.
    pub fn wait(&mut self, out: &mut Vec<Bio>, timeout: Option<Span>) -> usize {
        let until = timeout.map(|span| self.clock.now() + span);
        while self.outstanding > 0 {
            self.now = self.clock.now();
            self.lane.unplug(self.now);
            let wake = Time::earliest(until, self.lane.next_wakeup());
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
