//! A lane: the path of one submitter to a device. A queue and a driver make one; layers combine lanes.

use crate::bio::Bio;
use crate::fault::Kind;
use crate::segment::{Region, RegionId};
use crate::time::{Span, Time};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

/// Which bios to take back, and as what those end that no driver has.
#[derive(Clone, Copy, Debug)]
pub struct Cancel {
    which: Which,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Which {
    Token(u64),
    Identity(usize),
}

impl Cancel {
    /// All bios with this token. They end with [`Kind::Cancelled`].
    pub const fn token(token: u64) -> Cancel {
        Cancel { which: Which::Token(token), kind: Kind::Cancelled }
    }

    /// The bio of this [identity](Bio::identity), whose submitter does not wait for it any longer. It ends with
    /// [`Kind::TimedOut`].
    pub const fn late(identity: usize) -> Cancel {
        Cancel { which: Which::Identity(identity), kind: Kind::TimedOut }
    }

    /// The same for the bios with this token, which a layer has sent below for those that are to be taken back.
    #[must_use]
    pub const fn with_token(self, token: u64) -> Cancel {
        Cancel { which: Which::Token(token), kind: self.kind }
    }

    /// Whether this bio is to be taken back.
    #[inline]
    pub fn matches(&self, bio: &Bio) -> bool {
        self.is_of(bio.token(), bio.identity())
    }

    /// The same for a bio of which a layer remembers the token, because it has replaced that, and the
    /// [identity](Bio::identity).
    #[inline]
    pub fn is_of(&self, token: u64, identity: usize) -> bool {
        match self.which {
            Which::Token(other) => token == other,
            Which::Identity(other) => identity == other,
        }
    }

    /// How a bio ends that no driver has: [`Kind::Cancelled`] or [`Kind::TimedOut`].
    pub const fn kind(&self) -> Kind {
        self.kind
    }
}

/// The path of one submitter to a device: a queue and its driver, a layer over other lanes, or a share of a queue
/// that several submitters use.
///
/// A lane implements [`submit`](Lane::submit), [`take_done`](Lane::take_done) and [`has_done`](Lane::has_done). All
/// other methods pass the call on to the lane that [`below`](Lane::below) and [`below_mut`](Lane::below_mut) return; a
/// lane with none below has no timers and no descriptors, and completes each bio in `submit`. A lane that holds bios
/// of its own also implements [`is_idle`](Lane::is_idle) and [`cancel`](Lane::cancel), and, if time ends that,
/// [`next_wakeup`](Lane::next_wakeup); one whose bios may outlive it below, [`closing`](Lane::closing). A layer over one
/// device needs none of this if it is a filter of `platter-stack`.
///
/// All methods but [`wait`](Lane::wait) and [`sleep`](Lane::sleep) return at once. A lane makes progress only inside
/// [`run`](Lane::run) and `wait`.
pub trait Lane: Send {
    /// The lane to which calls are passed on that this lane does not implement.
    fn below(&self) -> Option<&dyn Lane> {
        None
    }

    /// The same lane as [`below`](Lane::below). A lane implements both of them or neither.
    fn below_mut(&mut self) -> Option<&mut dyn Lane> {
        None
    }

    /// Takes a bio. Its place in the order is fixed by this call.
    fn submit(&mut self, now: Time, bio: Bio);

    /// Starts what can start, rings the doorbell once, collects completions and runs timers that are due.
    #[inline]
    fn run(&mut self, now: Time) {
        if let Some(below) = self.below_mut() {
            below.run(now);
        }
    }

    /// Appends completed bios.
    fn take_done(&mut self, out: &mut Vec<Bio>);

    /// One turn of a caller that polls: [`run`](Lane::run) and [`take_done`](Lane::take_done) in one call.
    fn turn(&mut self, now: Time, out: &mut Vec<Bio>) {
        self.run(now);
        self.take_done(out);
    }

    /// [`turn`](Lane::turn) for a program that has nothing else to do: if the device is idle, it holds no requests back for
    /// merging, as after [`unplug`](Lane::unplug).
    #[inline]
    fn poll(&mut self, now: Time, out: &mut Vec<Bio>) {
        self.turn(now, out);
    }

    /// Whether [`take_done`](Lane::take_done) would return any bio.
    fn has_done(&self) -> bool;

    /// When [`run`](Lane::run) should be called even if nothing completes.
    #[inline]
    fn next_wakeup(&self) -> Option<Time> {
        self.below()?.next_wakeup()
    }

    /// A thread waits for this lane's bios: plugged requests are no longer held back for merging.
    fn unplug(&mut self, now: Time) {
        if let Some(below) = self.below_mut() {
            below.unplug(now);
        }
    }

    /// Starts what can start and blocks until [`run`](Lane::run) has something to do or `timeout` has passed.
    /// Starting and waiting are one system call if the driver can combine them. May return early; does not block while
    /// the lane [has completed bios](Lane::has_done).
    #[inline]
    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        if self.has_done() {
            return self.run(now);
        }
        if let Some(below) = self.below_mut() {
            below.wait(now, timeout);
        }
    }

    /// Blocks like [`wait`](Lane::wait), even if nothing is in flight in this lane. Also returns when a descriptor in
    /// `others` is readable or the lane's [`bell`](Lane::bell) is rung. For layers over several lanes or with timers
    /// of their own: they have started what can start but have no means to sleep.
    fn sleep(&mut self, now: Time, timeout: Option<Span>, others: &[i32]) {
        if self.below().is_none() {
            return self.wait(now, timeout);
        }
        if !self.has_done()
            && let Some(below) = self.below_mut()
        {
            below.sleep(now, timeout, others);
        }
    }

    /// The bell that wakes a thread in [`sleep`](Lane::sleep), now or the next time; `None`: there is no such bell.
    fn bell(&self) -> Option<Arc<dyn Bell>> {
        self.below()?.bell()
    }

    /// Appends the descriptors that become readable when [`run`](Lane::run) has something to do. `false`: readiness
    /// cannot be seen that way because everything completes at the next `run`.
    fn wait_handles(&self, out: &mut Vec<i32>) -> bool {
        self.below().is_some_and(|below| below.wait_handles(out))
    }

    /// Requests with the drivers below.
    #[inline]
    fn in_flight(&self) -> u32 {
        self.below().map_or(0, |below| below.in_flight())
    }

    /// Takes the bios that match back as far as that is still possible. A bio of which no device or driver below has any
    /// part completes with the [kind](Cancel::kind) of `which` at the next [`run`](Lane::run). For the others the driver is
    /// asked to cancel (best effort), and they complete with the driver's result; a durable change whose data is on the disk
    /// completes with its flush.
    ///
    /// A layer that has made several bios of one asks below for its own parts, with a `Cancel` for each, and ends the bio when
    /// all parts are back: a bio must not end while a part of it may still change the device.
    fn cancel(&mut self, now: Time, which: &Cancel) {
        if let Some(below) = self.below_mut() {
            below.cancel(now, which);
        }
    }

    /// The lane is dropped next. What still has changes of it after that keeps a share of `left` until devices have returned them.
    fn closing(&mut self, left: &Arc<dyn Left>) {
        if let Some(below) = self.below_mut() {
            below.closing(left);
        }
    }

    /// Whether the lane holds no bio (except completed ones). Nothing of it is left below then.
    #[inline]
    fn is_idle(&self) -> bool {
        self.below().is_none_or(|below| below.is_idle())
    }

    /// Offers a region of memory to all drivers below.
    fn register(&mut self, region: &Region) {
        if let Some(below) = self.below_mut() {
            below.register(region);
        }
    }

    /// Withdraws a region from all drivers below.
    fn unregister(&mut self, region: RegionId) {
        if let Some(below) = self.below_mut() {
            below.unregister(region);
        }
    }
}

/// Wakes a thread that sleeps in a lane. May be rung from any thread.
pub trait Bell: Send + Sync {
    /// Ends the lane's current sleep, or prevents the next one.
    fn ring(&self);
}

/// What a handle knows of changes that it leaves with devices when it drops a lane. It keeps out what must not pass them, until the last
/// share of this is dropped.
///
/// Example: a channel over a snapshot has a write that is late, and is dropped while a disk below has it. The channel drops its own
/// share with its lane. The snapshot, which keeps the bio, keeps a share, and drops it when the disk has returned the write.
pub trait Left: Send + Sync {
    /// A share for a queue or layer that carries out in their turn what it has of the lane, as it would without the drop: only what is
    /// late matters. `None`: nothing is.
    fn keep_late(self: Arc<Self>, holder: Weak<dyn Holder>) -> Option<Arc<dyn Left>>;

    /// A share for what has given up waiting for changes with a device, whose ranges the handle does not know: nothing may pass them.
    /// `holder`: what sees them come back, if no thread waits for that.
    fn keep_all(self: Arc<Self>, holder: Option<Weak<dyn Holder>>) -> Arc<dyn Left>;
}

/// A queue or layer with bios of a lane that is gone.
pub trait Holder: Send + Sync {
    /// Takes what has come back. Called by those that wait for it.
    fn run(&self, now: Time);
}
