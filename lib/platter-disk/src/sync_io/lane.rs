//! The lane of a synchronous call: taken from the pool, used for one bio at a time, and returned. A call with a deadline uses a lane
//! of the futures, where its bio can stay.

use crate::background::Background;
use crate::bounce::Bouncer;
use crate::byte_range::ByteRange;
use crate::callers::{Callers, relieve};
use crate::clock::Clock;
use crate::device::Inner;
use crate::disk_backend::NO_CHANNEL;
use crate::future::{AsyncLane, CallWaiter};
use platter_block::bio::{Bio, Flags};
use platter_block::fault::{Error, Status};
use platter_block::lane::Lane;
use platter_block::time::Time;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How the bios of calls reach the device.
enum Way {
    /// A lane of the pool: a call on it returns when its bio is back.
    Own(Box<dyn Lane>),
    /// A lane of the futures, which is there during a call, and what wakes the thread: a call may return earlier.
    Shared(Option<Arc<AsyncLane>>, CallWaiter),
}

/// What a call works with: a lane, and the bios of its calls, one, and another one if a call needs several transfers.
pub(crate) struct SyncLane {
    way: Way,
    pub(crate) clock: Clock,
    pub(super) bios: Vec<Bio>,
    done: Vec<Bio>,
    /// Range of the last bio that failed, as it came back.
    pub(super) failed: ByteRange,
    pub(super) bouncer: Bouncer,
    /// The token of the last bio; each bio gets a new one.
    last: u64,
    /// The last reading of the clock.
    pub(crate) now: Time,
    /// The device's futures, whose lanes may have to be run while this one waits.
    background: Arc<Background>,
}

/// The device uses memory that a caller lent for the duration of a call. The call must not return before the device
/// is done, not even by a panic (of a trace sink or an elevator, say): in that case the process aborts.
struct Lent;

impl Drop for Lent {
    fn drop(&mut self) {
        eprintln!("platter: a panic while the device uses borrowed memory; aborting");
        std::process::abort();
    }
}

impl Clock {
    /// Time left until a deadline. `None`: there is no deadline, or no thread can sleep until then because the time
    /// is simulated.
    pub(crate) fn left(&self, until: Option<Time>) -> Option<Duration> {
        let until = until.filter(|_| self.simulated().is_none());
        until.map(|until| Duration::from_nanos(until.since(self.now()).0))
    }
}

impl SyncLane {
    pub(crate) fn new(lane: Box<dyn Lane>, clock: Clock, background: Arc<Background>) -> SyncLane {
        SyncLane::on(Way::Own(lane), clock, background)
    }

    /// For calls with a deadline.
    pub(crate) fn without_lane(clock: Clock, background: Arc<Background>) -> SyncLane {
        SyncLane::on(Way::Shared(None, CallWaiter::default()), clock, background)
    }

    fn on(way: Way, clock: Clock, background: Arc<Background>) -> SyncLane {
        SyncLane {
            way,
            clock,
            bios: Vec::with_capacity(2),
            done: Vec::with_capacity(1),
            failed: ByteRange::default(),
            bouncer: Bouncer::default(),
            last: 0,
            now: Time::default(),
            background,
        }
    }

    /// The lane of the futures that the next call uses.
    pub(crate) fn use_lane(&mut self, lane: Arc<AsyncLane>) {
        if let Way::Shared(used, _) = &mut self.way {
            *used = Some(lane);
        }
    }

    /// Time left until a deadline.
    pub(super) fn left(&self, until: Option<Time>) -> Option<Duration> {
        self.clock.left(until)
    }

    pub(super) fn take_bio(&mut self) -> Bio {
        self.bios.pop().unwrap_or_else(Bio::flush)
    }

    /// Submits a bio and waits for it.
    pub(super) fn run(&mut self, bio: Bio, until: Option<Time>) -> Status {
        let mut bio = self.wait_for(bio, until);
        if bio.status() == Err(NO_CHANNEL) && relieve() {
            // The device's shared queue had no channel, and now one may be available: the bio was not tried.
            bio.rewind(bio.pos(), bio.len());
            bio.set_deadline(until);
            bio = self.wait_for(bio, until);
        }
        self.settle(bio)
    }

    /// Submits a bio and waits until it comes back. If the bio borrows its memory, the wait has no limit; otherwise it ends at its
    /// deadline, with a substitute that has no memory and the fault [`Kind::TimedOut`].
    pub(super) fn wait_for(&mut self, bio: Bio, until: Option<Time>) -> Bio {
        let lent = bio.flags().contains(Flags::BORROWED).then(|| Lent);
        let until = until.and(bio.deadline()).filter(|_| lent.is_none());
        let bio = match &mut self.way {
            Way::Own(_) => self.wait_own(bio, lent.is_some()),
            Way::Shared(Some(lane), waiter) => lane.run_call(bio, until, waiter),
            Way::Shared(None, _) => unreachable!("a call has its lane until it ends"),
        };
        std::mem::forget(lent);
        bio
    }

    /// Waits for a bio without a limit; other bios that the lane returns are skipped.
    fn wait_own(&mut self, mut bio: Bio, is_lent: bool) -> Bio {
        let Way::Own(lane) = &mut self.way else { unreachable!("the caller has looked") };
        let identity = bio.identity();
        self.last += 1;
        let token = self.last;
        bio.set_token(token);
        lane.submit(self.clock.now(), bio);
        loop {
            let now = self.clock.now();
            lane.wait(now, self.background.help().map(|at| at.since(now)));
            self.now = self.clock.now();
            lane.turn(self.now, &mut self.done);
            let own = self.done.iter().position(|bio| match is_lent {
                true => bio.identity() == identity,
                false => bio.token() == token,
            });
            if let Some(own) = own {
                let mut bio = self.done.swap_remove(own);
                self.done.clear();
                self.background.fence.settle(&mut bio);
                return bio;
            }
        }
    }

    /// Keeps a bio that came back, and returns its status.
    pub(super) fn settle(&mut self, bio: Bio) -> Status {
        let status = bio.status();
        if status.is_err() {
            self.failed = ByteRange { pos: bio.pos(), len: bio.len() };
        }
        self.bios.push(bio);
        status
    }
}

impl Callers {
    /// Takes a lane for a call. `has_deadline`: it may end before the device has returned its bio. While a change is late, all calls
    /// go the way of these, on which they can wait for it.
    #[inline]
    pub(crate) fn take(&self, inner: &Inner, has_deadline: bool) -> Result<Turn<'_>, Error> {
        let lane = match has_deadline || !inner.background.fence.is_empty() {
            false => self.pool.take(|| self.open(inner))?,
            true => self.take_spare(inner)?,
        };
        Ok(Turn { callers: self, lane: Some(lane) })
    }
}

/// A lane lent to a call.
pub(crate) struct Turn<'a> {
    callers: &'a Callers,
    lane: Option<Box<SyncLane>>,
}

impl Turn<'_> {
    #[inline]
    pub(crate) fn lane(&mut self) -> &mut SyncLane {
        self.lane.as_mut().unwrap_or_else(|| unreachable!("a turn has its lane until it ends"))
    }

    /// The call has ended.
    #[inline]
    pub(crate) fn end(mut self) {
        let Some(mut lane) = self.lane.take() else { return };
        if let Way::Shared(used, _) = &mut lane.way {
            *used = None;
            return self.callers.keep_spare(lane);
        }
        let now = lane.now;
        self.callers.pool.put(lane);
        if now.0 >= self.callers.trim_at.load(Ordering::Relaxed) {
            self.callers.trim(now);
        }
    }
}

impl Drop for Turn<'_> {
    /// A panic passes through the call: the lane is not used again.
    fn drop(&mut self) {
        if let Some(lane) = self.lane.take()
            && let Way::Own(_) = lane.way
        {
            drop(lane);
            self.callers.pool.closed();
        }
    }
}
