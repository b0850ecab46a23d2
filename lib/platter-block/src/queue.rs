//! The request queues: from bios to requests for the driver and back.
//!
//! A [`DirectQueue`] belongs to one lane of a device without an elevator. A [`SchedQueue`] is shared by all lanes of a
//! device: it has the elevator, and it carries out flushes and barriers. Both have the same body, [`Queue`]; they differ in
//! the [`Store`] of their requests.
//!
//! The caller tells a queue what was submitted and completed and what time it is; the queue answers with the next
//! request to start and the time of its next timer. It never blocks: bios that have to wait (for a free request,
//! behind a barrier) wait in a list inside the queue.
//!
//! # One body, two stores
//!
//! The body checks a bio, cuts one that is larger than the device takes into pieces, which complete it together
//! (`Queue::split`, `Queue::child_done`), writes zeroes where the device cannot, retries what failed, at once or after a
//! pause (`Queue::retry`, `Queue::pause`), has one alarm for all timers (`Queue::run_timers`), takes back what has not
//! started (`Queue::withdraw`), watches the time that the driver takes (`silence.rs`), counts and traces. Where requests are
//! and which one is next, only the store knows: a `Backlog` makes them of a list of bios when the driver takes them; a
//! `Scheduler` has a table of them, because elevators refer to requests.
//!
//! - `Store::enqueue` finds or makes a request for a bio, `Store::wake` lets bios go on when a request has ended, and
//!   `Store::withdraw` takes bios out of requests that have not started.
//! - `Store::unstarted` and `Store::tags` say which requests there are; `Store::visit` leads to the bios of one that has
//!   started, and `Store::started_at` says since when the driver has it.
//! - `Store::next`, `Store::request`, `Store::refused` and `Store::complete` are for the loop with the driver (`QueueLane`).
//! - The others are for plug, elevator, flushes and barriers; by default they do nothing.
//!
//! A common bio passes by all this: `DirectQueue::start_common` gives it to the driver and `DirectQueue::complete` takes
//! it back (docs/decisions/2026-11-29-one-queue-body.md).
//!
//! # How bios end
//!
//! - **A bio that has started ends when the driver returns it**, however long that takes: until then the device may use its
//!   memory and change what it covers. A bio that is carried out in parts or steps ends when the driver has none of them.
//! - **A bio that is taken back** (`Queue::cancel`), because it is cancelled or late, ends at once if nothing of it has
//!   started. Of the rest, what has not started is not carried out any more, and for what the driver has the driver is asked
//!   to cancel; it is not retried. What waits for a flush in flight ends with that flush, and a durable write whose data
//!   is with the device ends with the flush behind it, so no flush is ever without bios. Queues know no deadlines: the
//!   handle at which a bio has one takes it back then.
//! - **The time with the driver** is limited by `Settings::timeout` and `Settings::slow_timeout`. The driver is asked once to
//!   abort a request that is overdue; one that it aborts fails with `Kind::TimedOut`, any other result counts. If
//!   the request is not back after `Settings::abort_grace`, the queue is silent (`Queue::is_silent`), until the
//!   driver has returned everything.
//! - **A device fails as a whole** when its owner says so (`Queue::set_failed`), because one of its queues is silent. Then
//!   what has not started ends with `Kind::Gone`, in all its queues, and so does every new bio. When it works again
//!   (`Queue::recovered`), the next flush fails once, because what its cache held may be lost.
//!
//! # Order, flushes and barriers
//!
//! A bio takes its place in the order when its plug is flushed. Without barriers, reads and writes may pass each other;
//! to order a write behind another, wait for the first or use a barrier.
//!
//! - **Flush, FUA, preflush** are sequences of steps that depend on the disk (`SchedQueue::submit_ordered`,
//!   `SchedQueue::steps`): preflush, data (with FUA if the disk supports it), postflush. One flush is in flight at a
//!   time; flushes submitted meanwhile share the next one (`SchedQueue::start_flush`). On a disk without a volatile
//!   cache they cost nothing.
//! - **A failed flush stays failed.** Every later flush fails with `Kind::FlushFailed` until
//!   `Device::acknowledge_flush_failure`, because earlier writes may be lost. The acknowledgement covers all flushes
//!   that have failed by then, including one whose completion a channel has not polled yet.
//! - **A soft barrier** keeps its place in the order in which requests start; it waits for no completion. Earlier
//!   requests leave the elevator before it, later ones enter behind it (`SchedQueue::place_soft`). It orders all lanes
//!   of the device: it goes to the shared queue and waits there until other lanes have started their requests
//!   (`SchedQueue::set_outside`). A soft barrier that itself has more than one step (a flush, a durable write on a
//!   volatile cache, write-zeroes), or that comes while another bio still has steps to do, waits for completions like a
//!   hard one, because the order of starts is not sufficient then. A request that failed and is retried may start behind
//!   the barrier.
//! - **A hard barrier** waits until all earlier bios are complete (`SchedQueue::try_barrier`) and is made durable; only
//!   then do the bios held behind it enter the queue (`SchedQueue::end_barrier`). If it is late before that, they fail,
//!   because it has ordered nothing; if its submitter cancels it, they enter.
//! - **As an ordered tag** (`ordered=tag`, on disks with `Features::ordered_tags`) a hard barrier is sent as soon as
//!   everything before it has been sent, and plain reads and writes behind it follow at once (`SchedQueue::send_tag`);
//!   the disk keeps the order. If any request fails meanwhile, the disk aborts what must follow it, the queue takes
//!   everything behind the barrier back, and the barrier drains (`SchedQueue::break_tag`, `SchedQueue::tag_done`).
//!   ordered-tags.md (docs/ordered-tags.md) has the rules.
//! - **Across lanes** a barrier freezes the device: from then on every lane sends its bios to the shared queue, where they
//!   are held in order behind the barrier, and a hard barrier waits until no lane is busy (`SchedQueue::set_outside`). When
//!   it ends, the lanes are thawed (`lib/platter-disk/src/disk_backend/freeze.rs`).
//!
//! **Invariant:** no bio submitted after a hard barrier starts before the barrier is complete and durable, on any lane
//! of the device. As an ordered tag: it takes no effect before.
//!
//! **Invariant:** one flush of a device at a time, of the shared queue or of a thread (`Flushes`); a failure is known
//! to both before the next. `multipath` does the same for all its paths.
//!
//! Layers that delay bios or distribute them have a gate of their own, see the head of `lib/platter-stack/src/lib.rs`, with another mechanism
//! (docs/decisions/2026-11-23-barriers-of-disks-and-layers.md).
//!
//! Switching the elevator (`Device::set_elevator`) uses the same mechanism: requests of the old elevator go to the
//! dispatch list in its order (`SchedQueue::switch_elevator`), none is lost, and the gate tells lanes which queue to
//! use from then on.

use crate::bio::{Bio, Flags, Op};
use crate::time::Span;
use alloc::vec::Vec;

mod body;
mod direct;
mod ends;
mod family;
mod lane;
mod order;
mod pause;
mod prebuilt;
mod sched;
mod split;
mod watch;
mod zeroes;

pub use body::{Queue, Store};
pub use direct::DirectQueue;
pub use lane::{DirectLane, QueueLane, Reopen, SchedLane};
pub use pause::{FIRST_PAUSE, RETRIES};
pub use prebuilt::{Examiner, Prebuilt};
pub use sched::{CONGESTION_BATCH, PlugSettings, PoolRules, PoolStats, SchedQueue};
pub use watch::Watch;

/// Settings of a queue. `Default` has the settings of a device opened without arguments.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Most requests with the driver at once (at least one).
    pub depth: u32,
    /// Number of requests: per direction with an elevator (Linux 2.6: 128), in total without one (at least one).
    pub nr_requests: u32,
    /// How bios that wait for a request get one; only used with an elevator.
    pub pool: PoolRules,
    /// Merge bios into requests.
    pub merges: bool,
    /// Plugging of the device; only used with an elevator.
    pub plug: Option<PlugSettings>,
    /// How long the driver may have a read or a write before it is asked to abort it; `None`: no limit.
    pub timeout: Option<Span>,
    /// The same for flushes, discards, write-zeroes and commands.
    pub slow_timeout: Option<Span>,
    /// How long after that the driver may have the request before the queue is [silent](Queue::is_silent); `None`: as long as
    /// before that.
    pub abort_grace: Option<Span>,
    /// Longest time that a hard barrier waits for requests of other queues of the device, and that I/O waits for a queue that
    /// is not run: what the device does not begin before that queue knows of a failed barrier.
    pub barrier_timeout: Span,
    /// How hard barriers keep their order.
    pub ordered: Ordered,
}

/// How hard barriers keep their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ordered {
    /// The queue waits until everything before the barrier has completed, and holds back everything behind it.
    #[default]
    Drain,
    /// Where the disk [declares](crate::driver::Features::ordered_tags) ordered tags, the barrier is sent as one as soon
    /// as everything before it has been sent, and what is behind it follows at once. Only one barrier is on its way at a
    /// time. A barrier that cannot be sent so, or that the disk aborts, drains.
    Tag,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            depth: 128,
            nr_requests: 128,
            pool: PoolRules::Batching,
            merges: true,
            plug: Some(PlugSettings::default()),
            timeout: None,
            slow_timeout: None,
            abort_grace: None,
            barrier_timeout: Span::from_secs(30),
            ordered: Ordered::Drain,
        }
    }
}

impl Settings {
    /// The settings with the least values that a queue needs.
    fn at_least_one(self) -> Settings {
        Settings { depth: self.depth.max(1), nr_requests: self.nr_requests.max(1), ..self }
    }
}

/// What a queue still holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rest {
    /// Nothing.
    #[default]
    Settled,
    /// Only requests that the driver has.
    Started,
    /// Also bios or requests that have not started.
    Waits,
}

/// Parent of bios that are not children.
const NO_PARENT: u32 = u32::MAX;

/// Parent of a queue's own flush.
const FLUSH: u32 = u32::MAX - 1;

/// Flags that only a queue sets and clears.
const MARKS: Flags = Flags::ALONE.union(Flags::LAST).union(Flags::BEFORE_TAG);

/// Bios that a queue keeps for splits and flushes.
const SPARE_BIOS: usize = 256;

/// Whether a request of `len` bytes has been carried out. A command is, however much of its data it has transferred.
#[inline]
fn is_full(op: Op, len: u64, result: i64) -> bool {
    match op {
        Op::Read | Op::Write => result == len as i64,
        Op::Command => result >= 0 && result <= len as i64,
        Op::Flush | Op::Discard | Op::WriteZeroes => result >= 0,
    }
}

/// Whether a bio is a command that goes before everything that has not started.
#[inline]
fn is_at_head(bio: &Bio) -> bool {
    bio.op() == Op::Command && bio.command().is_some_and(|command| command.is_at_head())
}

/// Completes the bio of a request that has been carried out.
#[inline]
fn finish_full(bio: &mut Bio, result: i64) {
    match bio.op() {
        Op::Command => bio.finish_command(result as u64),
        _ => bio.finish(),
    }
}

/// Moves all of `from` to the end of `out`; if `out` is empty, by swapping the vectors.
#[inline]
pub fn append(out: &mut Vec<Bio>, from: &mut Vec<Bio>) {
    if from.is_empty() {
        return;
    }
    if out.is_empty() {
        core::mem::swap(out, from);
    } else {
        out.append(from);
    }
}
