//! I/O schedulers: the order in which requests leave the queue.
//!
//! An elevator is a pure state machine that holds request ids, not requests: the queue tells it what was
//! inserted, merged and completed, and asks which request to dispatch next. The queue checks each answer against
//! the id's generation, so a faulty elevator causes an error and never undefined behaviour.

use crate::bio::{Context, IoPrio, Op};
use crate::params::{Param, ParamError};
use crate::time::Time;
use alloc::boxed::Box;

mod deadline;
mod fifo;
mod mq_deadline;
mod noop;
mod sectors;
mod settings;

pub use deadline::{BatchRule, Deadline, TYPE as DEADLINE};
pub use fifo::{Fifos, ListId};
pub use mq_deadline::{MqDeadline, TYPE as MQ_DEADLINE};
pub use noop::{Noop, TYPE as NOOP};
pub use sectors::SectorMap;
pub use settings::Settings;

/// A request as elevators know it: a slot in the request table and the slot's generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// Slot in the table; below the capacity given to [`Elevator::reserve`].
    pub index: u32,
    /// Generation of the slot: how often it was reused.
    pub generation: u32,
}

/// Read or write, as elevators sort them (discards and write-zeroes count as writes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Dir {
    /// Device to memory.
    Read = 0,
    /// Memory to device.
    Write = 1,
}

impl Op {
    /// The direction under which elevators and the request pool count this operation.
    #[inline]
    pub const fn dir(self) -> Dir {
        match self {
            Op::Read => Dir::Read,
            _ => Dir::Write,
        }
    }
}

/// What an elevator knows about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// First byte on the device.
    pub pos: u64,
    /// Length in bytes.
    pub len: u64,
    /// Read or write.
    pub dir: Dir,
    /// The operation.
    pub op: Op,
    /// A read, or a write that a thread waits for.
    pub sync: bool,
    /// Priority.
    pub ioprio: IoPrio,
    /// The process on whose behalf it runs.
    pub context: Context,
}

impl RequestInfo {
    /// Offset just past the last byte.
    #[inline]
    pub const fn end(&self) -> u64 {
        self.pos + self.len
    }
}

/// An elevator's answer to whether a context may take another request from the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MayQueue {
    /// Not now, even if requests are free.
    No,
    /// If the pool's rules allow.
    May,
    /// Yes, even beyond the pool's limit.
    Must,
}

/// An I/O scheduler. All methods are called with the queue locked; none may block.
///
/// Contract: every inserted request is dispatched exactly once, unless a neighbour absorbed it; `dispatch(now,
/// true)` returns a request as long as [`len`](Elevator::len) is not zero.
pub trait Elevator: Send {
    /// The name in the table of elevators.
    fn name(&self) -> &'static str;

    /// Makes room for `requests` queued requests, so that no other call allocates.
    fn reserve(&mut self, requests: usize);

    /// A new request was queued.
    fn insert(&mut self, now: Time, id: RequestId, info: &RequestInfo);

    /// Whether bios may join the front of a queued request. (For all kinds of merges the queue itself finds the
    /// candidates, by hashes of the start and end of requests.)
    fn front_merges(&self) -> bool {
        false
    }

    /// Whether a bio may join a queued request; fair elevators keep contexts apart.
    fn allow_merge(&self, id: RequestId, request: &RequestInfo, bio: &RequestInfo) -> bool {
        let _ = (id, request, bio);
        true
    }

    /// Whether two queued requests that have grown together become one; `back` starts where `front` ends.
    fn allow_join(&self, front: RequestId, back: RequestId) -> bool {
        let _ = (front, back);
        true
    }

    /// A queued request has grown by a merge, from `old` to `new`.
    fn merged(&mut self, id: RequestId, old: &RequestInfo, new: &RequestInfo) {
        let _ = (id, old, new);
    }

    /// `survivor` has absorbed `absorbed`, which is no longer queued. Called before [`merged`](Self::merged).
    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, info: &RequestInfo);

    /// Whether `context` may take another request.
    fn may_queue(&self, context: Context, dir: Dir) -> MayQueue {
        let _ = (context, dir);
        MayQueue::May
    }

    /// Whether `context` may take another request for I/O that no thread waits for (asynchronous writes).
    fn may_queue_async(&self, context: Context, dir: Dir) -> MayQueue {
        self.may_queue(context, dir)
    }

    /// The pool has `nr_requests` requests for each direction. Called before the first request is queued.
    fn depth_updated(&mut self, nr_requests: u32) {
        let _ = nr_requests;
    }

    /// The next request to start. `None`: there is none, or the elevator wants to wait until
    /// [`next_wakeup`](Self::next_wakeup). `force`: do not wait, because the queue is being drained, or because the
    /// last request has failed.
    fn dispatch(&mut self, now: Time, force: bool) -> Option<RequestId>;

    /// A dispatched request has completed, or has been with the driver for longer than the queue's timeout.
    fn completed(&mut self, now: Time, id: RequestId, info: &RequestInfo) {
        let _ = (now, id, info);
    }

    /// Whether [`completed`](Self::completed) has to be called.
    fn hears_completions(&self) -> bool {
        true
    }

    /// A process has exited: `context` (its thread; with thread 0, the whole process) submits nothing more.
    fn exited(&mut self, now: Time, context: Context) {
        let _ = (now, context);
    }

    /// When to ask again even if nothing was inserted or completed.
    fn next_wakeup(&self) -> Option<Time> {
        None
    }

    /// Number of queued requests.
    fn len(&self) -> usize;

    /// Whether nothing is queued.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Parameters that can be read and set.
    fn params(&self) -> &'static [Param] {
        &[]
    }

    /// The value of a parameter, in the unit of its [`Param`].
    fn get(&self, name: &str) -> Option<i64> {
        let _ = name;
        None
    }

    /// Sets a parameter at run time.
    ///
    /// # Errors
    /// The name is unknown or the value out of range. The old value stays.
    fn set(&mut self, name: &str, value: i64) -> Result<(), ParamError> {
        crate::params::check(self.name(), self.params(), name, value).map(|_| ())
    }
}

/// A row of the table of elevators.
#[derive(Clone, Copy)]
pub struct ElevatorType {
    /// Name in device specs (`elevator=NAME`).
    pub name: &'static str,
    /// Summary of one line.
    pub summary: &'static str,
    /// Parameters.
    pub params: &'static [Param],
    /// Makes an elevator with default parameters.
    pub make: fn() -> Box<dyn Elevator>,
}

/// The elevators of the core. `platter-elevators` has a table of all. `none` (no elevator at all) is a mode of the queue
/// and has no row.
pub static TABLE: &[ElevatorType] = &[noop::TYPE, deadline::TYPE, mq_deadline::TYPE];

/// Looks an elevator of the core up by name.
pub fn by_name(name: &str) -> Option<&'static ElevatorType> {
    TABLE.iter().find(|row| row.name == name)
}
