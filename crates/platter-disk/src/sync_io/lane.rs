//! The lane of a synchronous call, and the bios that calls use.

use crate::aligned::Window;
use crate::aside::Aside;
use crate::bounce::Bouncer;
use crate::byte_range::ByteRange;
use crate::callers::relieve;
use crate::clock::Clock;
use crate::disk_backend::NO_CHANNEL;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::{Fault, Kind, Stage, Status};
use platter_block::lane::Lane;
use platter_block::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// The fault of a call that did not end in its time.
pub(super) const TIMED_OUT: Fault = Fault::new(Kind::TimedOut, Stage::Handle);

/// A lane and the bios of its calls: one, and another one if a call needs several transfers.
pub(crate) struct SyncLane {
    lane: Box<dyn Lane>,
    clock: Clock,
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

    /// Passes the lane and its clock to another owner.
    pub(crate) fn into_lane(self) -> (Box<dyn Lane>, Clock) {
        (self.lane, self.clock)
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

    /// Carries out `op` at `pos` with memory of the library, on behalf of `like`. The memory is lost if the result is
    /// [`Kind::TimedOut`] and the disk still uses it.
    pub(super) fn run_window(
        &mut self,
        like: &Bio,
        op: Op,
        pos: u64,
        window: Window,
        until: Option<Time>,
    ) -> Result<Window, Fault> {
        let mut bio = self.take_bio();
        match op {
            Op::Read => bio.reset_read(pos, window)?,
            _ => bio.reset_write(pos, window)?,
        }
        let flags = if op == like.op() { like.flags().without(Flags::BORROWED) } else { Flags::NONE };
        bio.add_flags(flags | Flags::SYNC);
        bio.set_ioprio(like.ioprio());
        bio.set_context(like.context());
        bio.set_handle(like.handle());
        bio.set_deadline(until);
        let mut bio = self.wait_for(bio, until).ok_or(TIMED_OUT)?;
        let window = bio.take_buffer::<Window>();
        match (self.settle(bio), window) {
            (Ok(()), Some(window)) => Ok(window),
            (Err(fault), window) => {
                window.into_iter().for_each(|window| self.bouncer.keep(window.memory));
                Err(fault)
            }
            (Ok(()), None) => Err(TIMED_OUT),
        }
    }

    /// Submits a bio and waits until it comes back; other bios that the lane returns are skipped. If the bio owns its
    /// memory, another bio with its token may come back in its place. If `until` has passed and cancelling did not
    /// help, none does: the bio stays in the lane.
    fn wait_for(&mut self, mut bio: Bio, until: Option<Time>) -> Option<Bio> {
        let lent = bio.flags().contains(Flags::BORROWED).then(|| Lent);
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
            self.lane.run(self.now);
            self.lane.take_done(&mut self.done);
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
    fn settle(&mut self, bio: Bio) -> Status {
        let status = bio.status();
        if let Err(fault) = status {
            self.failed = ByteRange { pos: bio.pos(), len: bio.len() };
            self.is_unsettled |= fault.kind == Kind::TimedOut && !self.lane.is_idle();
        }
        self.bios.push(bio);
        status
    }
}
