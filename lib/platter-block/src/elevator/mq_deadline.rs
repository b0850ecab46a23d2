//! `mq-deadline`: the deadline elevator, applied per priority class.
//!
//! Each of the three classes (real time, best effort, idle) has the sorted lists and FIFOs of `deadline`; levels
//! within a class are ignored. Classes are strict: a lower class is not considered while a higher one has any
//! request queued or with the driver. The only exception is a request that has waited for `prio_aging_expire`.
//! All classes share one batch and its size, and the count of how often writes were passed over.
//!
//! Source: `mq-deadline` of Linux 5.14 and later (priorities), as of 6.1. As in later kernels, a direction
//! continues from the position of its last request, so that requests that arrive in between take part in the
//! sweep. Checking for an aged request changes nothing unless that request is taken. `async_depth` is the number
//! of writes that may hold requests, by [`Elevator::may_queue`]: reads are always synchronous, and have a pool
//! of their own here. Zones are not supported.

use super::deadline::lists::{Entry, Lists};
use super::deadline::param;
use super::{Dir, Elevator, ElevatorType, MayQueue, RequestId, RequestInfo, Settings};
use crate::bio::{Class, Context, IoPrio};
use crate::params::{Param, ParamError, Unit};
use crate::time::{Span, Time};
use alloc::boxed::Box;

/// Rows of [`PARAMS`]; the first two are also the indices of the directions.
const READ_EXPIRE: usize = Dir::Read as usize;
const WRITE_EXPIRE: usize = Dir::Write as usize;
const WRITES_STARVED: usize = 2;
const FIFO_BATCH: usize = 3;
const FRONT_MERGES: usize = 4;
const PRIO_AGING_EXPIRE: usize = 5;
const ASYNC_DEPTH: usize = 6;

const MAX: i64 = i32::MAX as i64;

static PARAMS: [Param; 7] = {
    let mut all = [param("", Unit::Count, 0, 0, ""); 7];
    all[READ_EXPIRE] = param(
        "read_expire",
        Unit::Millis,
        500,
        MAX,
        "a read that waited longer starts the next batch of reads of its class",
    );
    all[WRITE_EXPIRE] = param(
        "write_expire",
        Unit::Millis,
        5000,
        MAX,
        "a write that waited longer starts the next batch of writes of its class",
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
    all[PRIO_AGING_EXPIRE] = param(
        "prio_aging_expire",
        Unit::Millis,
        10_000,
        MAX,
        "a request that has waited this long goes before those of higher classes",
    );
    all[ASYNC_DEPTH] = param(
        "async_depth",
        Unit::Requests,
        0,
        MAX,
        "most writes that may have requests, queued or with the driver; 0: nr_requests, as in recent kernels",
    );
    all
};

/// The row of the table of elevators.
pub const TYPE: ElevatorType = ElevatorType {
    name: "mq-deadline",
    summary: "deadline for each priority class; a lower class waits until the higher ones have nothing left",
    params: &PARAMS,
    make: || Box::new(MqDeadline::default()),
};

/// Priority classes, highest first.
const CLASSES: usize = 3;

fn class_of(ioprio: IoPrio) -> usize {
    match ioprio.class() {
        Class::RealTime => 0,
        Class::None | Class::BestEffort => 1,
        Class::Idle => 2,
    }
}

/// Index of the list of a class and direction.
#[inline]
const fn list(class: usize, dir: Dir) -> usize {
    2 * class + dir as usize
}

/// The request that would be dispatched, and the state after its dispatch.
#[derive(Clone, Copy)]
struct Choice {
    list: usize,
    dir: Dir,
    id: RequestId,
    /// Requests in the batch before this one.
    batching: u64,
    starved: u64,
}

/// The mq-deadline elevator.
#[derive(Clone, Debug)]
pub struct MqDeadline {
    settings: Settings<7>,
    /// A pair of lists for each class and direction.
    lists: Lists<{ 2 * CLASSES }>,
    /// Position of the last request dispatched from each list.
    last: [Option<u64>; 2 * CLASSES],
    /// The first request of each list after that position.
    next: [Option<(u64, RequestId)>; 2 * CLASSES],
    last_dir: Dir,
    /// Requests in the current batch.
    batching: u64,
    /// How often in a row reads were chosen over waiting writes.
    starved: u64,
    /// Requests of each class that are queued or with the driver.
    unfinished: [u64; CLASSES],
    /// Writes that are queued or with the driver.
    writes: u64,
}

impl Default for MqDeadline {
    fn default() -> Self {
        MqDeadline {
            settings: Settings::new(TYPE.name, &PARAMS),
            lists: Lists::new(),
            last: [None; 2 * CLASSES],
            next: [None; 2 * CLASSES],
            last_dir: Dir::Read,
            batching: 0,
            starved: 0,
            unfinished: [0; CLASSES],
            writes: 0,
        }
    }
}

impl MqDeadline {
    /// The request that the class would dispatch.
    #[inline]
    fn choose(&self, now: Time, class: usize) -> Option<Choice> {
        let dir = self.last_dir;
        if self.batching < self.settings.unsigned(FIFO_BATCH)
            && let Some((_, id)) = self.next[list(class, dir)]
        {
            let (batching, starved) = (self.batching, self.starved);
            return Some(Choice { list: list(class, dir), dir, id, batching, starved });
        }
        let (dir, starved) = self.choose_direction(class)?;
        let list = list(class, dir);
        let (oldest, entry) = self.lists.oldest(list)?;
        let onward = self.next[list].filter(|_| now < entry.expire);
        let id = onward.map_or(oldest, |(_, id)| id);
        Some(Choice { list, dir, id, batching: 0, starved })
    }

    /// Reads, unless there are none or writes were passed over too often.
    #[inline]
    fn choose_direction(&self, class: usize) -> Option<(Dir, u64)> {
        let reads = self.lists.has(list(class, Dir::Read));
        let writes = self.lists.has(list(class, Dir::Write));
        match (reads, writes) {
            (true, true) if self.starved < self.settings.unsigned(WRITES_STARVED) => {
                Some((Dir::Read, self.starved + 1))
            }
            (_, true) => Some((Dir::Write, 0)),
            (true, false) => Some((Dir::Read, self.starved)),
            (false, false) => None,
        }
    }

    /// A request of a lower class that has waited too long behind other classes.
    fn aged(&self, now: Time) -> Option<Choice> {
        if self.unfinished.iter().filter(|&&n| n > 0).count() < 2 {
            return None;
        }
        let limit = Span::from_millis(self.settings.unsigned(PRIO_AGING_EXPIRE));
        (1..CLASSES).find_map(|class| {
            let choice = self.choose(now, class)?;
            let waited = now.since(self.lists.get(choice.id)?.arrived);
            (waited >= limit).then_some(choice)
        })
    }

    /// The next request of the highest class that has any; none while a higher class has requests with the
    /// driver.
    #[inline]
    fn highest(&self, now: Time, force: bool) -> Option<Choice> {
        for class in 0..CLASSES {
            if let Some(choice) = self.choose(now, class) {
                return Some(choice);
            }
            if self.unfinished[class] > 0 && !force {
                return None;
            }
        }
        None
    }

    /// Finds the follower of the last request again, after a change other than an insertion.
    fn find_next(&mut self, list: usize) {
        self.next[list] = self.last[list].and_then(|pos| self.lists.from(list, pos));
    }

    fn finish(&mut self, class: usize, dir: Dir) {
        self.unfinished[class] = self.unfinished[class].saturating_sub(1);
        self.writes = self.writes.saturating_sub(u64::from(dir == Dir::Write));
    }
}

impl Elevator for MqDeadline {
    fn name(&self) -> &'static str {
        TYPE.name
    }

    fn reserve(&mut self, requests: usize) {
        self.lists.reserve(requests);
    }

    fn insert(&mut self, now: Time, id: RequestId, info: &RequestInfo) {
        let (class, dir) = (class_of(info.ioprio), info.dir);
        let list = list(class, dir);
        let expire = now + Span::from_millis(self.settings.unsigned(dir as usize));
        if !self.lists.insert(list, id, Entry::new(info, now, expire)) {
            return;
        }
        let key = (info.pos, id);
        if self.last[list].is_some_and(|last| info.pos >= last)
            && self.next[list].is_none_or(|next| key < next)
        {
            self.next[list] = Some(key);
        }
        self.unfinished[class] += 1;
        self.writes += u64::from(dir == Dir::Write);
    }

    fn front_merges(&self) -> bool {
        self.settings.at(FRONT_MERGES) != 0
    }

    fn merged(&mut self, id: RequestId, old: &RequestInfo, new: &RequestInfo) {
        if let Some(list) = self.lists.grow(id, new)
            && old.pos != new.pos
        {
            self.find_next(list);
        }
    }

    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, info: &RequestInfo) {
        if let Some((list, _)) = self.lists.absorb(survivor, absorbed) {
            self.finish(list / 2, info.dir);
            self.find_next(list);
        }
    }

    fn may_queue(&self, _context: Context, dir: Dir) -> MayQueue {
        let limit = self.settings.unsigned(ASYNC_DEPTH);
        let full = dir == Dir::Write && limit > 0 && self.writes >= limit;
        if full { MayQueue::No } else { MayQueue::May }
    }

    fn dispatch(&mut self, now: Time, force: bool) -> Option<RequestId> {
        let choice = self.aged(now).or_else(|| self.highest(now, force))?;
        let Choice { list, dir, id, batching, starved } = choice;
        let (entry, follower) = self.lists.remove(list, id)?;
        self.last[list] = Some(entry.pos);
        self.next[list] = follower;
        self.last_dir = dir;
        self.batching = batching + 1;
        self.starved = starved;
        Some(id)
    }

    fn completed(&mut self, _now: Time, _id: RequestId, info: &RequestInfo) {
        self.finish(class_of(info.ioprio), info.dir);
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
