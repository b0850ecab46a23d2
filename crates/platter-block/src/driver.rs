//! What a queue asks of a disk: the driver's side of a channel.

use crate::bio::{IoPrio, Op};
use crate::limits::Limits;
use crate::request::Chain;
use crate::segment::{Region, RegionId, Segment};
use crate::time::{Span, Time};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What a disk can do beside reading and writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Completed writes may be lost at a power cut until a flush (a write-back cache).
    pub write_cache: bool,
    /// Single writes can be made durable (FUA).
    pub fua: bool,
    /// Writes are refused.
    pub read_only: bool,
}

/// What a queue needs to know about the disk below it.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    /// Size in bytes.
    pub size: u64,
    /// What one request may be.
    pub limits: Limits,
    /// What the disk can do.
    pub features: Features,
}

/// A request on its way to the driver: one contiguous range of the device, any number of segments.
pub struct Started<'a> {
    /// Number under which the driver reports the completion. The queue's own: it may exceed the depth.
    pub tag: u32,
    /// What to do.
    pub op: Op,
    /// Offset on the device in bytes.
    pub pos: u64,
    /// Length in bytes; 0 for a flush.
    pub len: u64,
    /// The data must be durable on completion. Only set where [`Features::fua`] is.
    pub fua: bool,
    /// A write that must reach the medium as a whole or not at all. It is refused (`EOPNOTSUPP`, `EINVAL`) where the disk
    /// cannot promise that, and never carried out in part.
    pub atomic: bool,
    /// Priority.
    pub ioprio: IoPrio,
    pub(crate) chain: Chain<'a>,
    pub(crate) limits: &'a Limits,
}

impl Started<'_> {
    /// The only segment, when there is only one.
    #[inline]
    pub fn single_segment(&self) -> Option<Segment> {
        self.chain.single_segment().filter(|segment| self.limits.is_one_piece(segment))
    }

    /// All segments in order of position. Their lengths add up to `len`. Pieces that touch in memory and
    /// lie in the same region are joined, as the kernel joins physically contiguous pages, and what is then
    /// larger than the device's limits allow is cut.
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

/// How many requests a driver's device still has, as any thread may ask while the driver's owner does something else.
pub trait Outstanding: Send + Sync {
    /// Requests that the driver has taken and the device has not completed. May be too high, for a request that
    /// completes just now, never too low.
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

/// One channel to one disk.
///
/// The queue calls [`queue`](Driver::queue) for each request, [`submit`](Driver::submit) at the end of a batch
/// (of which a driver may have started a part before), and [`reap`](Driver::reap) when it looks for completions. A driver may touch a request's memory from `queue`
/// until it has reported the completion, and never after; it reports each tag exactly once, never from inside
/// `queue`, and in any order. Dropping a driver waits until the device holds no memory any more.
pub trait Driver: Send {
    /// Takes a request. `false`: no room now, offer it again after the next completion.
    fn queue(&mut self, now: Time, request: &Started<'_>) -> bool;

    /// Rings the doorbell for everything queued since the last time.
    fn submit(&mut self, now: Time);

    /// Appends what has completed. Does not block.
    fn reap(&mut self, now: Time, done: &mut Vec<Completion>);

    /// When [`reap`](Driver::reap) is needed although nothing completes. Of a driver in virtual time: when it has its next
    /// completion. Of a real one: when it will offer the system again what that had no resources for; a thread that sleeps
    /// for the driver must wake by then. `None`: there is no such time.
    fn next_event(&self) -> Option<Time> {
        None
    }

    /// Rings the doorbell and blocks until something can be reaped, `timeout` has passed or a signal came.
    /// May return early. Drivers that always complete at the next [`reap`](Driver::reap) return at once.
    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        let _ = timeout;
        self.submit(now);
    }

    /// A descriptor that becomes readable when something can be reaped; `None` for drivers that need no
    /// waiting. From the first call on the driver keeps it up to date, which costs system calls: only to be
    /// asked by those who will poll it.
    fn wait_handle(&self) -> Option<i32> {
        None
    }

    /// Asks the device to give up a request. Best effort: the request completes as usual, with `ECANCELED` if the device
    /// gave it up. Returns whether the device could be asked at all.
    fn cancel(&mut self, now: Time, tag: u32) -> bool {
        let _ = (now, tag);
        false
    }

    /// Whether the driver has met an error that it cannot recover from. It completes each request with an error from then
    /// on; its owner should drop it and open another channel.
    fn is_dead(&self) -> bool {
        false
    }

    /// What tells other threads how many requests the device still has. `None`: only the owner can know.
    fn outstanding(&self) -> Option<Arc<dyn Outstanding>> {
        None
    }

    /// Offers a region of memory to register. `false`: its segments are used as plain memory.
    fn register(&mut self, region: &Region) -> bool {
        let _ = region;
        false
    }

    /// Withdraws a region; after this its memory may be freed.
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
