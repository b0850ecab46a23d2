//! Batches: which direction has its turn (synchronous or asynchronous), and for how long.

use super::params::{ANTIC_EXPIRE, BATCH_EXPIRE, FIFO_EXPIRE, WRITE_BATCH_EXPIRE};
use super::wait::Candidate;
use super::{ASYNC, Anticipatory, SYNC};
use platter_block::elevator::RequestId;

#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    /// The direction that has its turn.
    pub(super) dir: usize,
    /// When the turn ends if the other direction has requests.
    pub(super) expires: u64,
    /// The direction has changed, and the driver still has requests of the old one.
    pub(super) changed: bool,
    /// No request of a new synchronous batch has completed yet, so its time has not started.
    pub(super) fresh: bool,
    /// Writes that this batch may still have.
    pub(super) writes_left: u64,
    /// Number of writes in a batch.
    pub(super) writes: u64,
    /// The write batch ran out of requests, or no other direction waited: its duration is meaningless for
    /// tuning.
    pub(super) idled: bool,
    /// When the oldest request of each direction was last checked.
    pub(super) checked: [u64; 2],
}

impl Batch {
    pub(super) fn new() -> Batch {
        Batch {
            dir: SYNC,
            expires: 0,
            changed: false,
            fresh: false,
            writes_left: 0,
            writes: 0,
            idled: false,
            checked: [0; 2],
        }
    }
}

impl Anticipatory {
    pub(super) fn batch_time(&self, dir: usize) -> u64 {
        self.settings.unsigned(BATCH_EXPIRE[dir])
    }

    fn batch_is_over(&self, now: u64) -> bool {
        let batch = &self.batch;
        let used_up = batch.dir == ASYNC && batch.writes_left == 0;
        !batch.changed && !batch.fresh && (now > batch.expires || used_up)
    }

    /// Whether the oldest request of a direction has expired. Checks no more often than requests expire, so
    /// that there is at most one jump to the oldest request in that time.
    fn oldest_is_late(&mut self, now: u64, dir: usize) -> bool {
        if now.abs_diff(self.batch.checked[dir]) < self.settings.unsigned(FIFO_EXPIRE[dir]) {
            return false;
        }
        self.batch.checked[dir] = now;
        self.fifos.front(super::list(dir)).is_some_and(|(_, entry)| now > entry.expire)
    }

    fn oldest(&self, dir: usize) -> Option<RequestId> {
        self.fifos.front(super::list(dir)).map(|(id, _)| id)
    }

    fn candidate(&self, dir: usize) -> Option<Candidate> {
        let (_, id) = self.next[dir]?;
        let entry = self.fifos.get(id)?;
        Some(Candidate { start: entry.start, end: entry.end, sync: dir == SYNC, process: entry.process })
    }

    /// The next request, or none while waiting for a process or for the driver.
    pub(super) fn choose_next(&mut self, now: u64) -> Option<RequestId> {
        let (reads, writes) = (self.waiting_in(SYNC), self.waiting_in(ASYNC));
        if self.batch.dir == ASYNC && !reads && (self.batch.writes_left == 0 || !writes) {
            self.batch.idled = true;
        }
        if !(reads || writes) || self.wait.is_on() || self.batch.changed {
            return None;
        }
        if !(reads && writes && self.batch_is_over(now)) {
            if self.batch.dir == SYNC && self.settings.at(ANTIC_EXPIRE) > 0 {
                if self.oldest_is_late(now, SYNC) {
                    let oldest = self.oldest(SYNC)?;
                    return self.send(now, SYNC, oldest);
                }
                let candidate = self.candidate(SYNC);
                if self.may_wait(now, candidate) {
                    self.start_waiting();
                    return None;
                }
            }
            if let Some((_, id)) = self.next[self.batch.dir] {
                if reads && !writes {
                    self.batch.expires = now + self.batch_time(SYNC);
                }
                return self.send_or_oldest(now, id);
            }
        }
        let id = self.start_batch(now, reads, writes)?;
        self.send_or_oldest(now, id)
    }

    /// Gives the turn to a direction and returns the first request of its batch. Writes follow reads, and
    /// reads follow any batch.
    fn start_batch(&mut self, now: u64, reads: bool, writes: bool) -> Option<RequestId> {
        let batch = &mut self.batch;
        if reads && !(writes && batch.dir == SYNC) {
            batch.changed |= batch.dir == ASYNC;
            batch.dir = SYNC;
            batch.checked[SYNC] = now;
            return self.oldest(SYNC);
        }
        if batch.dir == SYNC {
            batch.changed = true;
            batch.fresh = false;
        }
        batch.dir = ASYNC;
        batch.writes_left = batch.writes;
        batch.idled = false;
        self.next[ASYNC].map(|(_, id)| id)
    }

    /// Sends `id`, or the oldest request of its direction if that is late, as soon as the driver has
    /// completed all requests of the other direction.
    fn send_or_oldest(&mut self, now: u64, id: RequestId) -> Option<RequestId> {
        let dir = self.batch.dir;
        let id = if self.oldest_is_late(now, dir) { self.oldest(dir)? } else { id };
        if self.batch.changed {
            if self.dispatched > 0 {
                return None;
            }
            self.enter_batch(now, true);
        }
        self.send(now, dir, id)
    }

    /// The driver has completed the other direction's requests: the batch begins.
    fn enter_batch(&mut self, now: u64, at_once: bool) {
        self.batch.changed = false;
        if self.batch.dir == SYNC {
            self.batch.fresh = true;
        } else if at_once || !self.keeps_stale_end() {
            self.batch.expires = now + self.batch_time(ASYNC);
        }
    }

    /// A request of this direction has completed; `dispatched` still counts it.
    pub(super) fn batch_completion(&mut self, now: u64, dir: usize) {
        if self.batch.changed && self.dispatched == 1 {
            self.enter_batch(now, false);
        }
        if self.batch.fresh && self.batch.dir == dir {
            self.tune_writes(now);
            self.batch.expires = now + self.batch_time(SYNC);
            self.batch.fresh = false;
        }
    }

    /// Adapts the number of writes in a batch to the duration of the last batch.
    fn tune_writes(&mut self, now: u64) {
        let aim = self.settings.unsigned(WRITE_BATCH_EXPIRE);
        let took = (now + aim).saturating_sub(self.batch.expires);
        let batch = &mut self.batch;
        if took > aim && !batch.idled {
            batch.writes = if took > 3 * aim { batch.writes / 2 } else { batch.writes.saturating_sub(1) };
        } else if took < aim && batch.writes_left == 0 {
            let more = if aim > 3 * took { batch.writes } else { 1 };
            // More than a queue can ever hold.
            batch.writes = (batch.writes + more).min(1 << 32);
        }
        batch.writes = batch.writes.max(1);
    }

    /// Forced choice: the nearest request, reads first, without waiting; no batch is timed by it.
    pub(super) fn choose_by_force(&mut self, now: u64) -> Option<RequestId> {
        self.batch.dir = SYNC;
        self.batch.changed = false;
        self.batch.fresh = false;
        let dir = if self.next[SYNC].is_some() { SYNC } else { ASYNC };
        self.batch.checked[dir] = now;
        let (_, id) = self.next[dir]?;
        self.send(now, dir, id)
    }
}
