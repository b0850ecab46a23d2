//! The interface of a queue to a disk: a driver is the disk's side of a channel.

use crate::bio::{Bio, IoPrio, Op};
use crate::command::Command;
pub use crate::features::Features;
use crate::limits::Limits;
use crate::request::Linked;
use crate::segment::{Region, RegionId, Segment};
use crate::time::{Span, Time};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What a queue needs to know about the disk below it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Geometry {
    /// Size in bytes.
    pub size: u64,
    /// Limits of one request.
    pub limits: Limits,
    /// Capabilities of the disk.
    pub features: Features,
}

/// The bios of a request, in order.
pub(crate) enum Chain<'a> {
    /// A single bio.
    One(&'a Bio),
    /// A bio and those that follow it.
    Run(&'a Bio, &'a [Bio]),
    /// A bio and those that are linked to it in a table of requests.
    Linked(Linked<'a>),
}

impl Chain<'_> {
    fn single_segment(&self) -> Option<Segment> {
        match self {
            Chain::One(bio) => bio.single_segment(),
            Chain::Run(..) => None,
            Chain::Linked(linked) => linked.single()?.single_segment(),
        }
    }

    fn for_each_segment(&self, mut each: impl FnMut(Segment)) {
        let mut visit = |bio: &Bio| bio.segments().for_each(&mut each);
        match self {
            Chain::One(bio) => visit(bio),
            Chain::Run(first, more) => core::iter::once(*first).chain(*more).for_each(visit),
            Chain::Linked(linked) => linked.for_each_bio(visit),
        }
    }
}

crate::setters! {
    const Geometry {
        size, with_size: u64;
        limits, with_limits: Limits;
        features, with_features: Features;
    }
}

impl Geometry {
    /// A disk of `size` bytes without further capabilities.
    pub const fn new(size: u64, limits: Limits) -> Geometry {
        Geometry { size, limits, features: Features::NONE }
    }
}

/// A request on its way to the driver: one contiguous range of the device, any number of segments.
pub struct Started<'a> {
    /// Number under which the driver reports the completion. The queue chooses it; it may exceed the depth.
    pub tag: u32,
    /// The operation.
    pub op: Op,
    /// Offset on the device in bytes.
    pub pos: u64,
    /// Length in bytes; 0 for a flush.
    pub len: u64,
    /// The data must be durable on completion. Only set where [`Features::fua`] is.
    pub fua: bool,
    /// A write that must reach the medium as a whole or not at all. If the disk cannot promise that, the write is
    /// refused (`EOPNOTSUPP`, `EINVAL`) and never carried out in part.
    pub atomic: bool,
    /// Priority.
    pub ioprio: IoPrio,
    /// The only segment, if the queue has looked for it already.
    pub(crate) piece: Option<Segment>,
    pub(crate) chain: Chain<'a>,
    pub(crate) limits: &'a Limits,
}

impl Started<'_> {
    /// The only segment, when there is only one.
    #[inline]
    pub fn single_segment(&self) -> Option<Segment> {
        self.piece.or_else(|| self.find_piece())
    }

    fn find_piece(&self) -> Option<Segment> {
        self.chain.single_segment().filter(|segment| self.limits.is_one_piece(segment))
    }

    /// The command; `None` for every other operation. Position and length are then those of the command's data, see
    /// [`Command::reach`] for the range. A driver that completes the request with a result that is not negative has
    /// [stored the outcome](Command::set_outcome) before.
    pub fn command(&self) -> Option<&Arc<Command>> {
        match &self.chain {
            _ if self.op != Op::Command => None,
            Chain::One(bio) | Chain::Run(bio, _) => bio.command(),
            Chain::Linked(linked) => linked.single()?.command(),
        }
    }

    /// Whether the request is an ordered tag. Only set where [`Features::ordered_tags`] is.
    pub fn is_ordered(&self) -> bool {
        let Chain::Linked(linked) = &self.chain else { return false };
        linked.is_tagged()
    }

    /// Visits all segments in order of position. Their lengths add up to `len`. Segments that are adjacent in memory
    /// and lie in the same region are joined, as the kernel joins physically contiguous pages; segments above the
    /// device's limits are cut.
    pub fn for_each_segment(&self, mut each: impl FnMut(Segment)) {
        let mut last: Option<Segment> = None;
        self.chain.for_each_segment(|next| {
            last = Some(match last {
                Some(before) => before.join(&next).unwrap_or_else(|| {
                    self.limits.for_each_piece(before, &mut each);
                    next
                }),
                None => next,
            });
        });
        if let Some(last) = last {
            self.limits.for_each_piece(last, each);
        }
    }
}

/// Counts the requests that a driver's device still holds. Any thread may ask while the driver's owner is busy.
pub trait Outstanding: Send + Sync {
    /// Requests that the driver has taken and the device has not completed. May be too high while a request
    /// completes, but never too low.
    fn outstanding(&self) -> u32;
}

/// A request that the driver is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's tag.
    pub tag: u32,
    /// Bytes transferred (0 for operations without data), or a negative Linux errno.
    pub result: i64,
}

impl Completion {
    /// The result of a request that the device did not carry out, not even in part, because a request that it had to
    /// follow failed (`-ERESTART`). It may be sent again.
    pub const ABORTED: i64 = -85;
}

/// One channel to one disk.
///
/// The queue calls [`queue`](Driver::queue) for each request, [`submit`](Driver::submit) at the end of a batch (a
/// driver may have started part of the batch before), and [`reap`](Driver::reap) to collect completions. A driver may
/// touch a request's memory from `queue` until it has reported the completion, and never after. It reports each tag
/// exactly once, never from inside `queue`, and in any order. Dropping a driver waits until the device uses no memory
/// of any request. A driver that passes requests on to another one reports a tag only after that one has: the memory may be freed
/// then. One that uses memory after `queue` has returned leaves its disk only in a [`DiskChannel`](crate::disk::DiskChannel).
pub trait Driver: Send {
    /// Takes a request. `false`: no room now; offer it again after the next completion.
    fn queue(&mut self, now: Time, request: &Started<'_>) -> bool;

    /// Rings the doorbell for everything queued since the last call.
    fn submit(&mut self, now: Time);

    /// Appends completions. Does not block.
    fn reap(&mut self, now: Time, done: &mut Vec<Completion>);

    /// Whether requests can be reaped as soon as they have been submitted, because the driver carries them out itself.
    /// The caller then reaps once more in the round in which it has submitted.
    fn is_prompt(&self) -> bool {
        false
    }

    /// The time at which [`reap`](Driver::reap) must be called even if nothing completes; `None`: no such time. For a
    /// driver in virtual time: its next completion. For a real driver: when it retries what the system had no
    /// resources for; a thread that sleeps for the driver must wake by then.
    fn next_event(&self) -> Option<Time> {
        None
    }

    /// Rings the doorbell and blocks until a completion can be reaped, `timeout` has passed or a signal arrives. May
    /// return early. Drivers whose requests complete at the next [`reap`](Driver::reap) return at once.
    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        let _ = timeout;
        self.submit(now);
    }

    /// A descriptor that becomes readable when a completion can be reaped; `None` for drivers that never need
    /// waiting. From the first call on, the driver keeps the descriptor up to date, which costs system calls: ask
    /// only if you will poll it.
    fn wait_handle(&self) -> Option<i32> {
        None
    }

    /// Asks the device to cancel a request. Best effort: the request completes as usual, with `ECANCELED` if the
    /// device cancelled it. Returns whether the driver can pass on such requests at all. A caller still waits for the
    /// completion, which may also be that of other bios of the request.
    fn cancel(&mut self, now: Time, tag: u32) -> bool {
        let _ = (now, tag);
        false
    }

    /// A request is overdue: the driver has had it for longer than its time. Called once for each such request. Best effort:
    /// the request completes as usual when the device is done with it, with `ECANCELED` or [`Completion::ABORTED`] if that was
    /// because of this call. So a driver that no longer knows what the device does with it does not report it, however long
    /// that lasts. By default the device is asked to [cancel](Driver::cancel) it.
    fn given_up(&mut self, now: Time, tag: u32) {
        self.cancel(now, tag);
    }

    /// Whether the driver has met an error that it cannot recover from. It then completes every request with an
    /// error; its owner should drop it and open another channel.
    fn is_dead(&self) -> bool {
        false
    }

    /// A counter that tells other threads how many requests the device still holds. `None`: only the owner can tell.
    fn outstanding(&self) -> Option<Arc<dyn Outstanding>> {
        None
    }

    /// Offers a region of memory for registration. `false`: its segments are used as plain memory.
    fn register(&mut self, region: &Region) -> bool {
        let _ = region;
        false
    }

    /// Withdraws a region; afterwards its memory may be freed.
    fn unregister(&mut self, region: RegionId) {
        let _ = region;
    }
}

impl<D: Driver + ?Sized> Driver for alloc::boxed::Box<D> {
    #[inline]
    fn queue(&mut self, now: Time, request: &Started<'_>) -> bool {
        (**self).queue(now, request)
    }
    #[inline]
    fn submit(&mut self, now: Time) {
        (**self).submit(now);
    }
    #[inline]
    fn reap(&mut self, now: Time, done: &mut Vec<Completion>) {
        (**self).reap(now, done);
    }
    fn is_prompt(&self) -> bool {
        (**self).is_prompt()
    }
    fn next_event(&self) -> Option<Time> {
        (**self).next_event()
    }
    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        (**self).wait(now, timeout);
    }
    fn wait_handle(&self) -> Option<i32> {
        (**self).wait_handle()
    }
    fn cancel(&mut self, now: Time, tag: u32) -> bool {
        (**self).cancel(now, tag)
    }
    fn given_up(&mut self, now: Time, tag: u32) {
        (**self).given_up(now, tag);
    }
    fn is_dead(&self) -> bool {
        (**self).is_dead()
    }
    fn outstanding(&self) -> Option<Arc<dyn Outstanding>> {
        (**self).outstanding()
    }
    fn register(&mut self, region: &Region) -> bool {
        (**self).register(region)
    }
    fn unregister(&mut self, region: RegionId) {
        (**self).unregister(region);
    }
}
