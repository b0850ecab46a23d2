//! `anticipatory`: batches of reads and of writes, and a short wait for the next read of a process before the disk
//! is moved away from it (the AS elevator, default of Linux 2.6.0 to 2.6.17).
//!
//! A process that reads one piece after the other sends its next request only when the last one has completed. By
//! then an elevator that never waits has moved the disk to another process, for every piece of every process. This
//! elevator waits for some milliseconds (`antic_expire`) if it expects the next request of the process soon. It
//! estimates the think time between a completion and the next request, the seek distance, and, for a new process,
//! how other processes began. The [`Rule`] lists what ends a wait or forbids it.
//!
//! The directions are *sync* (reads, and writes that a thread waits for) and *async*. Each has its requests by
//! position and by arrival. Within a batch the nearest request goes next: distance ahead counts once, distance up
//! to 512 MiB behind counts twice (once in 2.6.0), and farther behind is left for the next sweep. Batches alternate while both
//! directions have requests: a synchronous batch has a time (`read_batch_expire`), counted from its first
//! completion, an asynchronous batch a number of requests, tuned so that it takes `write_batch_expire`. A change
//! of direction waits until the driver has completed all requests of the old one. Once per `read_expire`
//! (`write_expire`) the oldest request of the direction goes first if it has waited for longer than that.
//!
//! `kernel` sets times and rule at once: `2.6.0` (50, 200, 200, 50 ms, rule 2.6.0), `2.6.2` to 2.6.6 (125, 250,
//! 250, 62 ms, rule 2.6.2), `2.6.7` and later (125, 250, 500, 125 ms, rule 2.6.16). Time counts in ticks of a
//! millisecond, and all means and probabilities are integers with truncation, as in a kernel with 1000 ticks a
//! second.
//!
//! # Decisions
//!
//! - A process is a thread of a process ([`Context::task`]). There is a record for each that has requests and
//!   for at least 64 more; the one idle for longest is forgotten. A process that has
//!   [exited](Elevator::exited) and sends again is a new one.
//! - As in the kernels (`nr_dispatched`), requests of the awaited process that the driver has taken are no reason to end the wait.
//! - Kernels restarted the time of a write batch only if the driver was idle at the change of direction. With
//!   several requests at the driver the batch kept the end time of the read batch before it, which is past: it
//!   ended at once, and writes starved under a stream of reads. Here each write batch gets its own time;
//!   `stale_write_batch=1` restores the kernels' behaviour, and is part of every preset of a kernel.
//! - How 2.6.0 counted its successes with new processes is not known in detail. Here each first think time of a
//!   new process counts 512 if it is no longer than the wait, otherwise 0; a wait without a request counts 0.
//!   The result is a decaying mean in which each new sample weighs an eighth, starting at 256.
//! - Requests at one position all stay queued and leave in the order of their ids, where kernels dispatched the
//!   earlier one at once.
//!
//! Source: `as-iosched` of Linux 2.6.0, 2.6.5, 2.6.7, 2.6.12, 2.6.16 and 2.6.20; the idea is Iyer's and Druschel's
//! (SOSP 2001).

use alloc::boxed::Box;
use alloc::vec::Vec;
use batch::Batch;
use estimate::Estimate;
use params::{
    ANTIC_EXPIRE, FIFO_EXPIRE, KERNEL, PARAMS, PRESETS, RULE, STALE_WRITE_BATCH, WRITE_BATCH_EXPIRE,
};
use platter_block::bio::Context;
use platter_block::elevator::{
    Dir, Elevator, ElevatorType, Fifos, ListId, MayQueue, RequestId, RequestInfo, SectorMap, Settings,
};
use platter_block::params::{Param, ParamError};
use platter_block::time::Time;
use process::Processes;
use wait::{Candidate, Status, Wait};

mod batch;
mod estimate;
mod mean;
mod params;
mod process;
mod wait;

/// Indices of the directions.
const SYNC: usize = 0;
const ASYNC: usize = 1;

pub(crate) const TYPE: ElevatorType = ElevatorType {
    name: "anticipatory",
    summary: "batches of reads and writes, with a short wait for the next read of the same process",
    params: &PARAMS,
    make: || Box::new(Anticipatory::default()),
};

/// What ends a wait for a process, or prevents it. Reasons are checked in the order given. A request is *close* if
/// it is near the last request (within 32 KiB, from the second millisecond on doubling every millisecond; in
/// `V2_6_16` 4 MiB, doubling every millisecond) and, in this implementation, if a thread waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Rule {
    /// Linux 2.6.0. The candidate is close; the time is over; the candidate is of the process; the process has
    /// exited; has other requests; is new, and waiting for new processes succeeds less than half the time; thinks
    /// for longer than the wait; seeks farther than half of what the candidate requires.
    V2_6_0 = 0,
    /// Linux 2.6.2 to 2.6.12. The candidate is of the process; the time is over; the process has exited; has other
    /// requests; the candidate is close; the process thinks for longer than the wait, or is new, and new processes
    /// do so or more than half of them send no second request; the candidate is nearer than the process seeks.
    V2_6_2 = 1,
    /// Linux 2.6.16 and later. The candidate is of the process; the time is over; the process has other requests;
    /// the candidate is close, or nearer than the process seeks, and then counts as a request of the process
    /// (processes that take turns cooperate); the process has exited, and other processes seldom continue its
    /// stream; it thinks for longer than the wait, or is new, and new processes do so or seldom send a second
    /// request.
    V2_6_16 = 2,
}

impl Rule {
    /// How much farther the way back to a request counts than the same way forward.
    fn back_penalty(self) -> u64 {
        if self == Rule::V2_6_0 { 1 } else { 2 }
    }
}

/// What the elevator expects of processes without a history (`est_time` in sysfs).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimators {
    /// Probability that a new process sends no second request in time, in 256ths.
    pub exit_prob: u32,
    /// Probability that no other process continues the stream of a process that has exited, in 256ths.
    pub exit_no_coop: u32,
    /// Think time before the second request of a process, in milliseconds.
    pub new_ttime_mean: u64,
    /// Distance to the second request of a process, in sectors.
    pub new_seek_mean: u64,
}

/// A queued request; positions in sectors, times in ticks.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    start: u64,
    end: u64,
    expire: u64,
    process: u32,
}

/// A request with the driver.
#[derive(Clone, Copy, Debug)]
struct Started {
    generation: u32,
    process: u32,
    dir: usize,
}

/// The anticipatory elevator.
#[derive(Clone, Debug)]
pub struct Anticipatory {
    settings: Settings<8>,
    sorted: [SectorMap; 2],
    /// A list for each direction, in order of arrival.
    fifos: Fifos<Entry>,
    /// The nearest request of each direction; set whenever the direction has requests.
    next: [Option<(u64, RequestId)>; 2],
    /// End of the last dispatched request of each direction.
    last_sector: [u64; 2],
    /// Requests with the driver, by slot.
    started: Vec<Option<Started>>,
    /// Number of requests with the driver.
    dispatched: u32,
    processes: Processes,
    batch: Batch,
    wait: Wait,
    estimate: Estimate,
}

impl Default for Anticipatory {
    fn default() -> Self {
        let mut anticipatory = Anticipatory {
            settings: Settings::new(TYPE.name, &PARAMS),
            sorted: [SectorMap::new(), SectorMap::new()],
            fifos: Fifos::new(2),
            next: [None; 2],
            last_sector: [0; 2],
            started: Vec::new(),
            dispatched: 0,
            processes: Processes::default(),
            batch: Batch::new(),
            wait: Wait::default(),
            estimate: Estimate::default(),
        };
        anticipatory.reset_write_batch();
        anticipatory
    }
}

#[inline]
fn list(dir: usize) -> ListId {
    ListId::new(dir as u32)
}

#[inline]
fn ticks(now: Time) -> u64 {
    now.0 / 1_000_000
}

impl Anticipatory {
    /// The rule in use.
    #[inline]
    pub fn rule(&self) -> Rule {
        match self.settings.at(RULE) {
            0 => Rule::V2_6_0,
            1 => Rule::V2_6_2,
            _ => Rule::V2_6_16,
        }
    }

    /// What the elevator has learned so far about new processes and processes that have exited.
    pub fn estimators(&self) -> Estimators {
        let e = &self.estimate;
        Estimators {
            exit_prob: e.exit_prob as u32,
            exit_no_coop: e.exit_no_coop as u32,
            new_ttime_mean: e.new_think_time.mean,
            new_seek_mean: e.new_seek.mean,
        }
    }

    fn keeps_stale_end(&self) -> bool {
        self.settings.at(STALE_WRITE_BATCH) != 0
    }

    /// Resets the number of writes in a batch to its initial value.
    fn reset_write_batch(&mut self) {
        self.batch.writes = (self.settings.unsigned(WRITE_BATCH_EXPIRE) / 10).max(2);
    }

    #[inline]
    fn waiting_in(&self, dir: usize) -> bool {
        self.fifos.len_of(list(dir)) > 0
    }

    #[inline]
    fn dir_of(&self, id: RequestId) -> Option<usize> {
        let sync = self.fifos.list_of(id)? == list(SYNC);
        Some(if sync { SYNC } else { ASYNC })
    }

    /// Adds a request to the history of a process.
    fn count_request(&mut self, now: u64, process: u32, range: (u64, u64)) {
        let wait = self.settings.unsigned(ANTIC_EXPIRE);
        self.estimate.arrives(self.processes.get_mut(process), now, range, wait);
    }

    /// The cost of continuing at `start`; smaller is better.
    #[inline]
    fn cost(&self, dir: usize, start: u64) -> (bool, u64, u64) {
        const MAX_BACK: u64 = 1 << 20;
        let last = self.last_sector[dir];
        if start >= last {
            (false, start - last, !start)
        } else if start + MAX_BACK >= last {
            (false, self.rule().back_penalty() * (last - start), !start)
        } else {
            (true, 0, start)
        }
    }

    #[inline]
    fn nearer(
        &self,
        dir: usize,
        a: Option<(u64, RequestId)>,
        b: Option<(u64, RequestId)>,
    ) -> Option<(u64, RequestId)> {
        match (a, b) {
            (Some(a), Some(b)) => Some(if self.cost(dir, a.0) <= self.cost(dir, b.0) { a } else { b }),
            (a, b) => a.or(b),
        }
    }

    /// Removes a request from the order by position; if it was the nearest, another one is chosen.
    #[inline]
    fn unsort(&mut self, dir: usize, start: u64, id: RequestId) {
        let sorted = &mut self.sorted[dir];
        let (_, behind) = sorted.remove_then_next(start, id);
        if self.next[dir].is_some_and(|(_, next)| next == id) {
            let after = behind.or_else(|| sorted.first());
            let before = sorted.predecessor(start, id);
            self.next[dir] = self.nearer(dir, after, before);
        }
    }

    /// Sends a request to the driver.
    fn send(&mut self, now: u64, dir: usize, id: RequestId) -> Option<RequestId> {
        let entry = self.fifos.remove(id)?;
        let place = id.index as usize;
        if place >= self.started.len() {
            self.started.resize(place + 1, None);
        }
        let started = Started { generation: id.generation, process: entry.process, dir };
        if let Some(lost) = self.started[place].replace(started) {
            self.finish(now, lost);
        }
        self.wait.status = Status::Off;
        self.wait.finished = false;
        self.wait.process = (dir == SYNC).then_some(entry.process);
        if dir == ASYNC {
            self.batch.writes_left = self.batch.writes_left.saturating_sub(1);
        }
        // The next request is the nearest to this one, even if this one was not the nearest.
        self.last_sector[dir] = entry.end;
        self.next[dir] = Some((entry.start, id));
        self.unsort(dir, entry.start, id);
        self.processes.unqueue(entry.process, true);
        self.dispatched += 1;
        Some(id)
    }

    /// A request has left the driver.
    fn finish(&mut self, now: u64, Started { process, dir, .. }: Started) {
        self.batch_completion(now, dir);
        self.dispatched -= 1;
        if self.wait.process == Some(process) {
            self.wait.start = now;
            self.wait.finished = true;
            if self.wait.status == Status::Completion {
                self.start_waiting();
            }
        }
        if dir == SYNC {
            let process = self.processes.get_mut(process);
            process.served = true;
            process.last_end = now;
        }
        self.processes.complete(process);
    }
}

impl Elevator for Anticipatory {
    fn name(&self) -> &'static str {
        TYPE.name
    }

    fn reserve(&mut self, requests: usize) {
        self.fifos.reserve(requests);
        self.sorted.iter_mut().for_each(|sorted| sorted.reserve(requests));
        self.processes.reserve(requests);
        if requests > self.started.len() {
            self.started.resize(requests, None);
        }
    }

    fn insert(&mut self, now: Time, id: RequestId, info: &RequestInfo) {
        let now = ticks(now);
        self.run_timer(now);
        if self.batch.expires == 0 {
            self.batch.expires = now + self.batch_time(SYNC);
        }
        let sync = info.sync || info.dir == Dir::Read;
        let dir = if sync { SYNC } else { ASYNC };
        let process = self.processes.enter(info.context.task(), self.wait.process);
        let (start, end) = (info.pos / 512, info.end().div_ceil(512));
        let expire = now + self.settings.unsigned(FIFO_EXPIRE[dir]);
        if !self.fifos.push_back(list(dir), id, Entry { start, end, expire, process }) {
            return;
        }
        if sync {
            self.count_request(now, process, (start, end));
        }
        self.processes.queue(process);
        self.sorted[dir].insert(start, id);
        self.next[dir] = self.nearer(dir, self.next[dir], Some((start, id)));
        if self.wait.is_on() && self.ends_wait(now, Some(Candidate { start, end, sync, process })) {
            self.stop_waiting();
        }
    }

    fn front_merges(&self) -> bool {
        true
    }

    fn merged(&mut self, id: RequestId, _old: &RequestInfo, new: &RequestInfo) {
        let Some(dir) = self.dir_of(id) else { return };
        let Some(entry) = self.fifos.get_mut(id) else { return };
        entry.end = new.end().div_ceil(512);
        let start = new.pos / 512;
        let old = core::mem::replace(&mut entry.start, start);
        if old != start {
            self.sorted[dir].remove(old, id);
            self.sorted[dir].insert(start, id);
            if let Some(next) = self.next[dir].as_mut().filter(|next| next.1 == id) {
                next.0 = start;
            }
        }
    }

    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, _info: &RequestInfo) {
        let Some(dir) = self.dir_of(absorbed) else { return };
        if survivor == absorbed {
            return;
        }
        let Some(&gone) = self.fifos.get(absorbed) else { return };
        let mut process = gone.process;
        let inherits = self.dir_of(survivor) == Some(dir)
            && self.fifos.get(survivor).is_some_and(|entry| gone.expire < entry.expire);
        // The survivor gets the age of the older request, and its process.
        if inherits && let Some(entry) = self.fifos.get_mut(survivor) {
            entry.expire = gone.expire;
            process = core::mem::replace(&mut entry.process, gone.process);
        }
        if inherits {
            self.fifos.take_place(survivor, absorbed);
        } else {
            self.fifos.remove(absorbed);
        }
        self.unsort(dir, gone.start, absorbed);
        self.processes.unqueue(process, false);
    }

    fn may_queue(&self, context: Context, _dir: Dir) -> MayQueue {
        let awaited = self.wait.process.filter(|_| self.wait.is_on());
        match awaited {
            Some(process) if self.processes.is(process, context.task()) => MayQueue::Must,
            _ => MayQueue::May,
        }
    }

    fn dispatch(&mut self, now: Time, force: bool) -> Option<RequestId> {
        let now = ticks(now);
        self.run_timer(now);
        if force { self.choose_by_force(now) } else { self.choose_next(now) }
    }

    fn completed(&mut self, now: Time, id: RequestId, _info: &RequestInfo) {
        let now = ticks(now);
        self.run_timer(now);
        let Some(place) = self.started.get_mut(id.index as usize) else { return };
        if let Some(started) = place.take_if(|started| started.generation == id.generation) {
            self.finish(now, started);
        }
    }

    fn exited(&mut self, now: Time, context: Context) {
        let now = ticks(now);
        self.run_timer(now);
        let whole = context.task() & 0xffff == 0;
        let process = u64::from(context.process());
        self.processes.exit(|task| task == context.task() || whole && task >> 16 == process);
        if self.wait.is_on() && self.ends_wait(now, None) {
            self.stop_waiting();
        }
    }

    fn next_wakeup(&self) -> Option<Time> {
        (self.wait.status == Status::Next).then(|| Time(self.wait.until.saturating_mul(1_000_000)))
    }

    fn len(&self) -> usize {
        self.fifos.len()
    }

    fn params(&self) -> &'static [Param] {
        &PARAMS
    }

    fn get(&self, name: &str) -> Option<i64> {
        self.settings.get(name)
    }

    fn set(&mut self, name: &str, value: i64) -> Result<(), ParamError> {
        self.settings.set(name, value)?;
        if name == PARAMS[KERNEL].name {
            let preset = usize::try_from(value).ok().and_then(|kernel| PRESETS.get(kernel));
            for (row, &value) in (RULE..).zip(preset.into_iter().flatten()) {
                self.settings.put(row, value);
            }
            self.reset_write_batch();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
