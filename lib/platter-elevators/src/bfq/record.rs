//! The record of a queue: a process and class, or a priority of asynchronous writes.

use super::service::CLASSES;
use platter_block::bio::{Class, IoPrio};
use platter_block::elevator::{RequestId, RequestInfo};
use platter_block::time::{Span, Time};

/// Index of the class that is served only in gaps.
pub(super) const IDLE: usize = CLASSES - 1;

/// Level of requests without a priority.
const DEFAULT_LEVEL: u8 = 4;
/// Weight of that level. Only queues with this weight are raised: another one was chosen by the user.
pub(super) const DEFAULT_WEIGHT: u64 = 40;

/// A jump of more sectors than this counts as a seek.
const SEEK_SECTORS: u64 = 800;
/// Without seek times only requests shorter than this many sectors can count as seeks.
pub(super) const SHORT_SECTORS: u64 = 64;
/// More seeks than this of the last 32 requests make a queue seeky.
const SEEKY: u32 = 19;

/// How long the time is observed of which a queue has to be busy for 4/5 to count as bound by I/O.
const INTENSITY: Span = Span::from_millis(200);

/// Why the weight of a queue is raised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Why {
    /// It is not raised.
    #[default]
    Not,
    /// It was idle for long: a user may be waiting for a program to start or answer. Or it is asynchronous, and no
    /// request had come for a while.
    Interactive,
    /// Its requests come at a steady, moderate rate.
    SoftRealTime,
}

/// Weight raising of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Raise {
    pub(super) why: Why,
    /// When the raising began. Of a queue that is not raised: when its last request arrived, its last service ended
    /// or its raising ended.
    pub(super) since: Time,
    /// Longest duration.
    pub(super) limit: Span,
    /// Sectors received while raised.
    pub(super) service: u64,
    /// When the interactive raising began from which it changed to soft real time.
    pub(super) interactive_since: Option<Time>,
}

/// Mean think time: 7/8 of the old mean and 1/8 of the new sample, in units of 1/256.
#[derive(Clone, Copy, Debug, Default)]
struct Think {
    samples: u64,
    total: u64,
}

impl Think {
    fn add(&mut self, time: Span) {
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * time.0) / 8;
    }

    /// The mean, once it is based on a few samples.
    fn mean(&self) -> Option<Span> {
        (self.samples > 80).then(|| Span((self.total + 128) / self.samples))
    }
}

/// How many requests of other queues the device may have while this one is waited for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inject {
    pub(super) limit: u32,
    /// How long a request takes, from its arrival, if nothing is injected before it.
    pub(super) alone: Option<Span>,
    /// When the limit was last lowered or begun anew.
    pub(super) since: Time,
}

/// A queue, as long as its record is not used for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) record: u32,
    pub(super) key: u64,
}

/// Another queue that has to be served before this one sends its next request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waker {
    pub(super) known: Option<Link>,
    /// A queue that may be it, how often that was seen and since when.
    pub(super) candidate: Option<Link>,
    pub(super) seen: u32,
    pub(super) since: Time,
    /// The queue that this one wakes.
    pub(super) wakes: Option<Link>,
}

/// A queue: a process, or a priority of asynchronous writes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Proc {
    pub(super) key: u64,
    pub(super) next_in_bucket: u32,
    pub(super) class: usize,
    pub(super) sync: bool,
    pub(super) weight: u64,
    pub(super) queued: u32,
    pub(super) dispatched: u32,
    /// The request to dispatch next.
    pub(super) next: Option<RequestId>,
    /// Whether that one has waited too long: no nearer one takes its place.
    pub(super) next_is_late: bool,
    /// Whether it is in service or waits for service. Without requests it does so only if a higher queue came in
    /// between while it was waited for.
    pub(super) busy: bool,
    /// Budget for new services, in sectors.
    pub(super) max_budget: u64,
    /// Budget of the current or next service, and the part used.
    pub(super) budget: u64,
    pub(super) service: u64,
    /// When its service must end; of a queue at rest: since when it has nothing queued and nothing in the device.
    pub(super) budget_end: Option<Time>,
    /// Whether its service ended only because the next request had not come.
    pub(super) expected: bool,
    /// Whether this service has checked the oldest request.
    pub(super) fifo_checked: bool,
    /// How it is counted among the busy queues.
    pub(super) counted: Counted,
    pub(super) raise: Raise,
    /// Earliest arrival time of a next request that counts as soft real time.
    pub(super) soft_rt_from: Time,
    /// Whether that time follows when its last request completes.
    pub(super) soft_rt_due: bool,
    /// When it last became backlogged, and the sectors received since.
    pub(super) backlogged_since: Time,
    pub(super) backlogged_service: u64,
    /// Whether no request of it has been queued yet.
    pub(super) new: bool,
    /// Whether it belongs to the current burst.
    pub(super) in_burst: bool,
    pub(super) in_large_burst: bool,
    pub(super) exited: bool,
    /// Whether its next request can be expected within half of `slice_idle`.
    pub(super) short_think: bool,
    /// Whether it is busy most of the time.
    pub(super) io_bound: bool,
    pub(super) inject: Inject,
    pub(super) waker: Waker,
    /// One bit for each of the last 32 requests: whether it was a seek.
    pub(super) seeks: u32,
    last_end: u64,
    pub(super) last_done: Time,
    think: Think,
    /// Start of the time observed for `io_bound`, and the part of it without requests.
    io_since: Time,
    io_idle: Span,
}

/// How a queue is counted in [`Busy`](super::busy::Busy).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) busy: bool,
    pub(super) raised: bool,
    /// Its weight, in steps of ten.
    pub(super) weight: Option<u8>,
}

impl Proc {
    /// The record of a new queue.
    pub(super) fn new(now: Time, info: &RequestInfo) -> Proc {
        let class = class_of(info.ioprio);
        Proc {
            key: key_of(info),
            class,
            sync: info.sync,
            new: info.sync,
            short_think: info.sync && class != IDLE,
            io_bound: true,
            // The first request is almost certainly a seek.
            seeks: 1,
            raise: Raise { since: now, ..Raise::default() },
            inject: Inject { since: now, ..Inject::default() },
            soft_rt_from: now,
            last_done: now,
            io_since: now,
            ..Proc::default()
        }
    }

    /// Records how long the process has thought, unless other requests of it were queued or in the device; times above
    /// `longest` are not told apart.
    pub(super) fn note_think(&mut self, now: Time, longest: Span) {
        if self.dispatched == 0 && !self.busy {
            self.think.add(Span(now.since(self.last_done).0.min(longest.0)));
        }
    }

    /// Whether the mean think time is not known to exceed `limit`.
    pub(super) fn thinks_within(&self, limit: Span) -> bool {
        self.think.mean().is_none_or(|mean| mean <= limit)
    }

    /// Records whether a request is a seek.
    pub(super) fn note_seek(&mut self, info: &RequestInfo, rotational: bool) {
        let jump = is_seek(self.last_end, info.pos, info.len / 512, rotational);
        self.seeks = self.seeks << 1 | u32::from(jump);
        self.last_end = info.end();
    }

    /// Records for how much of the time it has requests.
    pub(super) fn note_intensity(&mut self, now: Time) {
        let time = now.since(self.io_since).0;
        if self.is_lone() {
            self.io_idle.0 += now.since(self.last_done).0;
        }
        if self.new {
            return;
        }
        self.io_bound = 5 * self.io_idle.0 <= time;
        if time > INTENSITY.0 {
            self.io_since = Time(now.0 - time / 2);
            self.io_idle.0 /= 2;
        }
    }

    /// Whether its requests are scattered.
    pub(super) fn is_seeky(&self) -> bool {
        self.seeks.count_ones() > SEEKY
    }

    #[inline]
    pub(super) fn is_raised(&self) -> bool {
        self.raise.why != Why::Not
    }

    /// Whether it has nothing queued and nothing in the device.
    #[inline]
    pub(super) fn is_lone(&self) -> bool {
        self.queued == 0 && self.dispatched == 0
    }

    /// What is left of the budget.
    #[inline]
    pub(super) fn left(&self) -> u64 {
        self.budget.saturating_sub(self.service)
    }

    /// Whether its service has lasted too long.
    #[inline]
    pub(super) fn is_over(&self, now: Time) -> bool {
        self.budget_end.is_some_and(|end| now >= end)
    }

    pub(super) fn link(&self, record: u32) -> Link {
        Link { record, key: self.key }
    }

    /// The key of the asynchronous queue of this process.
    pub(super) fn async_key(&self) -> u64 {
        key(self.class, None, 8 - self.weight / 10)
    }

    /// The process and thread of a synchronous queue.
    pub(super) fn task(&self) -> u64 {
        self.key & ((1 << 60) - 1)
    }
}

/// Whether a request at `pos` is a seek after one that ended at `last` (0: there was none).
pub(super) fn is_seek(last: u64, pos: u64, sectors: u64, rotational: bool) -> bool {
    let far = last > 0 && pos.abs_diff(last) > SEEK_SECTORS * 512;
    far && (rotational || sectors < SHORT_SECTORS)
}

/// Index of the priority class, highest first; part of the key of a queue.
fn class_of(ioprio: IoPrio) -> usize {
    match ioprio.class() {
        Class::RealTime => 0,
        Class::None | Class::BestEffort => 1,
        Class::Idle => IDLE,
    }
}

fn level_of(ioprio: IoPrio) -> u8 {
    match ioprio.class() {
        Class::None => DEFAULT_LEVEL,
        Class::Idle => 7,
        Class::RealTime | Class::BestEffort => ioprio.level(),
    }
}

/// Weight of a priority: 80 for level 0 to 10 for level 7.
pub(super) fn weight_of(ioprio: IoPrio) -> u64 {
    (8 - u64::from(level_of(ioprio))) * 10
}

#[inline]
fn key(class: usize, task: Option<u64>, level: u64) -> u64 {
    let class = (class as u64) << 60;
    task.map_or(class | 1 << 63 | level, |task| class | task)
}

/// The key of a queue: the process, or for asynchronous writes the level; and the class.
#[inline]
pub(super) fn key_of(info: &RequestInfo) -> u64 {
    let task = info.sync.then(|| info.context.task());
    key(class_of(info.ioprio), task, level_of(info.ioprio).into())
}
