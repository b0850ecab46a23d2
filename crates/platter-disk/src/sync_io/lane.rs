//! The lane of a synchronous call: taken from the pool, used for one bio at a time, and returned.

use crate::aside::Aside;
use crate::bounce::Bouncer;
use crate::byte_range::ByteRange;
use crate::callers::{Callers, relieve};
use crate::clock::Clock;
use crate::device::Inner;
use crate::disk_backend::NO_CHANNEL;
use crate::lane_pool::NoLane;
use platter_block::bio::{Bio, Flags};
use platter_block::fault::{Error, Fault, Kind, Stage, Status};
use platter_block::lane::Lane;
use platter_block::time::Time;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The fault of a call that did not end in its time.
pub(super) const TIMED_OUT: Fault = Fault::new(Kind::TimedOut, Stage::Handle);

/// A lane and the bios of its calls: one, and another one if a call needs several transfers.
pub(crate) struct SyncLane {
    pub(crate) lane: Box<dyn Lane>,
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
    /// The disk still has a request of a call that has ended.
    pub(crate) is_unsettled: bool,
    /// Lanes of the device that may have to be run while this one waits.
    aside: Arc<Aside>,
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

impl SyncLane {
    pub(crate) fn new(lane: Box<dyn Lane>, clock: Clock, aside: Arc<Aside>) -> SyncLane {
        SyncLane {
            lane,
            clock,
            bios: Vec::with_capacity(2),
            done: Vec::with_capacity(1),
            failed: ByteRange::default(),
            bouncer: Bouncer::default(),
            last: 0,
            now: Time::default(),
            is_unsettled: false,
            aside,
        }
    }

    /// Time left until a deadline.
    pub(super) fn left(&self, until: Option<Time>) -> Option<Duration> {
        self.clock.left(until)
    }

    pub(super) fn take_bio(&mut self) -> Bio {
        self.bios.pop().unwrap_or_else(Bio::flush)
    }

    /// Submits a bio and waits for it. If the bio borrows its memory, the wait has no limit; otherwise it ends at
    /// `until`, with [`Kind::TimedOut`].
    pub(super) fn run(&mut self, bio: Bio, until: Option<Time>) -> Status {
        match self.wait_for(bio, until) {
            Some(bio) if bio.status() == Err(NO_CHANNEL) && relieve() => self.run_again(bio, until),
            Some(bio) => self.settle(bio),
            None => Err(TIMED_OUT),
        }
    }

    /// The device's shared queue had no channel, and now one may be available: the bio was not tried.
    #[cold]
    fn run_again(&mut self, mut bio: Bio, until: Option<Time>) -> Status {
        bio.rewind(bio.pos(), bio.len());
        self.wait_for(bio, until).map_or(Err(TIMED_OUT), |bio| self.settle(bio))
    }

    /// Submits a bio and waits until it comes back; other bios that the lane returns are skipped. If the bio owns its
    /// memory, another bio with its token may come back in its place. If `until` has passed and cancelling did not
    /// help, none does: the bio stays in the lane.
    pub(super) fn wait_for(&mut self, mut bio: Bio, until: Option<Time>) -> Option<Bio> {
        let lent = bio.flags().contains(Flags::BORROWED).then(|| Lent);
        // As the bio has it, which is rounded up: a call that ended earlier would end before its device has noted what is in doubt.
        let until = until.map(|until| bio.deadline().map_or(until, |deadline| deadline.max(until)));
        let identity = bio.identity();
        self.last += 1;
        let token = self.last;
        bio.set_token(token);
        self.lane.submit(self.clock.now(), bio);
        let mut is_cancelled = false;
        let back = loop {
            let now = self.clock.now();
            let wake = Time::earliest(until, self.aside.help());
            self.lane.wait(now, wake.map(|at| at.since(now)));
            self.now = self.clock.now();
            self.lane.turn(self.now, &mut self.done);
            let own = self.done.iter().position(|bio| match lent {
                Some(_) => bio.identity() == identity,
                None => bio.token() == token,
            });
            if let Some(own) = own {
                let bio = self.done.swap_remove(own);
                self.done.clear();
                break Some(bio);
            }
            if lent.is_none() && until.is_some_and(|until| self.now >= until) {
                if is_cancelled {
                    self.is_unsettled = true;
                    break None;
                }
                is_cancelled = true;
                self.lane.cancel(self.now, token);
            }
        };
        std::mem::forget(lent);
        // The caller did not cancel it: it did not end in its time.
        back.filter(|bio| {
            !is_cancelled || bio.status().err().is_none_or(|fault| fault.kind != Kind::Cancelled)
        })
    }

    /// Keeps a bio that came back, and returns its status.
    pub(super) fn settle(&mut self, bio: Bio) -> Status {
        let status = bio.status();
        if let Err(fault) = status {
            self.failed = ByteRange { pos: bio.pos(), len: bio.len() };
            self.is_unsettled |= fault.kind == Kind::TimedOut && !self.lane.is_idle();
        }
        self.bios.push(bio);
        status
    }
}

impl Callers {
    /// Takes a lane for a call that ends by `until`.
    #[inline]
    pub(crate) fn take(&self, inner: &Inner, until: Option<Time>) -> Result<Turn<'_>, NoLane<Error>> {
        let lane = self.pool.take(|| self.open(inner), || self.left(&inner.clock, until));
        let lane = lane.or_else(|no| self.take_again(inner, until, no))?;
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
        let Some(lane) = self.lane.take() else { return };
        if lane.is_unsettled {
            return self.callers.set_aside(*lane);
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
        if let Some(lane) = self.lane.take() {
            drop(lane);
            self.callers.pool.closed();
        }
    }
}
