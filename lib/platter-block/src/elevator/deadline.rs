//! `deadline`: batches in sector order, cut short for requests that have waited too long.
//!
//! Each direction has its requests in two orders: by position, and by arrival with their expiry times.
//! Requests leave in batches of rising position. Between batches the elevator chooses a direction (reads,
//! unless writes were passed over too often) and a starting point (the oldest request if it has expired,
//! otherwise the position after the last request).
//!
//! Source: the deadline elevator of Linux 2.5.39 and later, whose three forms of the batch rule are
//! [`BatchRule`]. One difference: requests at the same position all stay queued and leave in the order of
//! their ids, where kernels up to at least 2.6.20 dispatched the earlier one at once.

use super::{Dir, Elevator, ElevatorType, RequestId, RequestInfo, Settings};
use crate::params::{Param, ParamError, Unit};
use crate::time::{Span, Time};
use alloc::boxed::Box;

pub(super) mod lists;
use lists::{Entry, Lists};

/// Rows of [`PARAMS`]; the first two are also the indices of the directions.
const READ_EXPIRE: usize = Dir::Read as usize;
const WRITE_EXPIRE: usize = Dir::Write as usize;
const WRITES_STARVED: usize = 2;
const FIFO_BATCH: usize = 3;
const FRONT_MERGES: usize = 4;
const BATCH_RULE: usize = 5;

const MAX: i64 = i32::MAX as i64;

pub(super) const fn param(
    name: &'static str,
    unit: Unit,
    default: i64,
    max: i64,
    help: &'static str,
) -> Param {
    Param::number(name, unit, default, (0, max), help)
}

static PARAMS: [Param; 6] = {
    let mut all = [param("", Unit::Count, 0, 0, ""); 6];
    all[READ_EXPIRE] = param(
        "read_expire",
        Unit::Millis,
        500,
        MAX,
        "a read that waited longer starts the next batch of reads",
    );
    all[WRITE_EXPIRE] = param(
        "write_expire",
        Unit::Millis,
        5000,
        MAX,
        "a write that waited longer starts the next batch of writes",
    );
    all[WRITES_STARVED] = param(
        "writes_starved",
        Unit::Count,
        2,
        MAX,
        "how many times in a row reads may be chosen over waiting writes; 0: never, so that reads can starve",
    );
    all[FIFO_BATCH] =
        param("fifo_batch", Unit::Requests, 16, MAX, "requests of a batch, which expiry does not interrupt");
    all[FRONT_MERGES] =
        param("front_merges", Unit::Switch, 1, 1, "whether bios may join the front of a queued request");
    all[BATCH_RULE] = Param::word(
        "batch_rule",
        &["contiguous", "any", "contiguous-oldest"],
        BatchRule::Any as usize,
        "what may continue a batch: contiguous as in Linux 2.6.0 to 2.6.23, any as since 2.6.28, \
         contiguous-oldest as in 2.6.24 to 2.6.27",
    );
    all
};

/// The row of the table of elevators.
pub const TYPE: ElevatorType = ElevatorType {
    name: "deadline",
    summary: "batches in sector order, reads first, with a time limit for each request",
    params: &PARAMS,
    make: || Box::new(Deadline::default()),
};

/// What continues a batch, and where a new one starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BatchRule {
    /// Linux 2.6.0 to 2.6.23. A request that does not begin where the last one ended ends the batch, so a
    /// batch consists of contiguous requests. A new choice that continues from there without an expired
    /// request does not reset the count: once a batch is used up, every request is a new choice, until an
    /// expiry or a return to the lowest position.
    Contiguous = 0,
    /// Linux 2.6.28 and later, including multi-queue kernels. A batch is a number of requests in sector
    /// order, contiguous or not. Each choice starts a batch: at the oldest request of the direction if that
    /// has expired or nothing lies beyond the last position, otherwise after the last position.
    #[default]
    Any = 1,
    /// Linux 2.6.24 to 2.6.27: batches as in `Contiguous`, starting points as in `Any`.
    ContiguousOldest = 2,
}

impl BatchRule {
    fn from_value(value: i64) -> BatchRule {
        match value {
            0 => BatchRule::Contiguous,
            2 => BatchRule::ContiguousOldest,
            _ => BatchRule::Any,
        }
    }
}

/// The deadline elevator.
#[derive(Clone, Debug)]
pub struct Deadline {
    settings: Settings<6>,
    /// A pair of lists for each direction.
    lists: Lists<2>,
    /// Where the current direction continues: the request that followed the last one at the time of its
    /// dispatch.
    next: Option<(Dir, RequestId)>,
    /// End of the last request dispatched.
    last_end: u64,
    /// Requests in the current batch.
    batching: u64,
    /// How often in a row reads were chosen over waiting writes.
    starved: u64,
}

impl Default for Deadline {
    fn default() -> Self {
        Deadline {
            settings: Settings::new(TYPE.name, &PARAMS),
            lists: Lists::new(),
            next: None,
            last_end: 0,
            batching: 0,
            starved: 0,
        }
    }
}

impl Deadline {
    /// A deadline elevator with another batch rule.
    pub fn with_rule(rule: BatchRule) -> Deadline {
        let mut deadline = Deadline::default();
        deadline.settings.put(BATCH_RULE, rule as i64);
        deadline
    }

    /// The batch rule in use.
    #[inline]
    pub fn rule(&self) -> BatchRule {
        BatchRule::from_value(self.settings.at(BATCH_RULE))
    }

    /// The number of comparisons that the sorted list of a request's direction makes to find its place, whether to insert
    /// it or to remove it.
    pub fn comparisons(&self, id: RequestId, info: &RequestInfo) -> usize {
        self.lists.comparisons(info.dir as usize, info.pos, id)
    }

    /// The request that continues the batch, if one may.
    #[inline]
    fn within_batch(&mut self) -> Option<(Dir, RequestId)> {
        let (dir, id) = self.next?;
        let batch = self.settings.unsigned(FIFO_BATCH);
        if self.rule() != BatchRule::Any && self.lists.get(id)?.pos != self.last_end {
            self.batching = self.batching.saturating_add(batch);
        }
        (self.batching < batch).then_some((dir, id))
    }

    /// Reads, unless there are none or writes were passed over too often. Counts choices, not requests.
    #[inline]
    fn choose_direction(&mut self) -> Option<Dir> {
        let reads = self.lists.has(Dir::Read as usize);
        let writes = self.lists.has(Dir::Write as usize);
        if reads && writes && self.starved < self.settings.unsigned(WRITES_STARVED) {
            self.starved += 1;
            return Some(Dir::Read);
        }
        if writes {
            self.starved = 0;
            return Some(Dir::Write);
        }
        reads.then_some(Dir::Read)
    }

    /// The request at which a new choice of this direction starts.
    #[inline]
    fn choose_start(&mut self, now: Time, dir: Dir) -> Option<RequestId> {
        let (oldest, entry) = self.lists.oldest(dir as usize)?;
        let expired = now > entry.expire;
        let onward = self.next.filter(|&(d, _)| d == dir && !expired).map(|(_, id)| id);
        if self.rule() == BatchRule::Contiguous {
            if onward.is_some() {
                return onward;
            }
            self.batching = 0;
            return if expired { Some(oldest) } else { self.lists.lowest(dir as usize) };
        }
        self.batching = 0;
        Some(onward.unwrap_or(oldest))
    }
}

impl Elevator for Deadline {
    fn name(&self) -> &'static str {
        TYPE.name
    }

    fn reserve(&mut self, requests: usize) {
        self.lists.reserve(requests);
    }

    fn insert(&mut self, now: Time, id: RequestId, info: &RequestInfo) {
        let expire = now + Span::from_millis(self.settings.unsigned(info.dir as usize));
        self.lists.insert(info.dir as usize, id, Entry::new(info, now, expire));
    }

    fn front_merges(&self) -> bool {
        self.settings.at(FRONT_MERGES) != 0
    }

    fn merged(&mut self, id: RequestId, _old: &RequestInfo, new: &RequestInfo) {
        self.lists.grow(id, new);
    }

    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, _info: &RequestInfo) {
        if let Some((_, follower)) = self.lists.absorb(survivor, absorbed)
            && let Some((dir, next)) = self.next
            && next == absorbed
        {
            self.next = follower.map(|(_, id)| (dir, id));
        }
    }

    fn dispatch(&mut self, now: Time, _force: bool) -> Option<RequestId> {
        let (dir, id) = match self.within_batch() {
            Some(found) => found,
            None => {
                let dir = self.choose_direction()?;
                (dir, self.choose_start(now, dir)?)
            }
        };
        let (entry, follower) = self.lists.remove(dir as usize, id)?;
        self.next = follower.map(|(_, id)| (dir, id));
        self.batching += 1;
        self.last_end = entry.end;
        Some(id)
    }

    fn hears_completions(&self) -> bool {
        false
    }

    fn len(&self) -> usize {
        self.lists.len()
    }

    fn params(&self) -> &'static [Param] {
        &PARAMS
    }

    fn get(&self, name: &str) -> Option<i64> {
        self.settings.get(name)
    }

    fn set(&mut self, name: &str, value: i64) -> Result<(), ParamError> {
        self.settings.set(name, value)
    }
}

#[cfg(test)]
mod tests;
