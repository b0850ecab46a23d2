//! The medium between commands: reading ahead, writing back, and interrupting either.

use super::cache::SegmentState;
use super::machine::MechanicalDisk;
use super::mech::{Arm, Job, let_pass};
use super::params::ReadAhead;
use super::transfer::{Arrival, write_whole};

/// The activity of the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// Nothing.
    Idle,
    /// Reads into a segment, up to a sector (exclusive), and may be interrupted when the arm is free.
    Reading { segment: usize, limit: u64 },
    /// Writes a segment out.
    Writing { segment: usize },
}

impl MechanicalDisk {
    /// Brings the medium up to `now`.
    pub(crate) fn sync(&mut self, now: u64) {
        match self.medium {
            Medium::Idle => {}
            Medium::Reading { segment, limit } => self.sync_reading(now, segment, limit),
            Medium::Writing { segment } => {
                if self.passes.last().is_none_or(|pass| pass.done() <= now) {
                    self.finish_writing(segment);
                }
            }
        }
    }

    fn sync_reading(&mut self, now: u64, segment: usize, limit: u64) {
        let limit = self.read_on(now, limit);
        let reached = self.passes.reached(now, self.cache.get(segment).end);
        self.cache.set_end(segment, reached.max(self.cache.get(segment).end));
        if let Some(last) = self.passes.last()
            && last.end() >= limit
            && last.done() <= now
        {
            self.arm = last.arm;
            self.medium = Medium::Idle;
            self.cache.get_mut(segment).state = self.kept();
        }
    }

    /// Continues read-ahead until `now` or its limit. Returns the limit, which is lower when read-ahead may
    /// not leave the track or cylinder.
    fn read_on(&mut self, now: u64, limit: u64) -> u64 {
        while let Some(&last) = self.passes.last() {
            if last.end() >= limit || last.done() > now {
                break;
            }
            let run = self.layout.run(last.end());
            let stays = match self.params.read_ahead {
                ReadAhead::TrackEnd => run.cylinder == last.arm.cylinder && run.head == last.arm.head,
                ReadAhead::CylinderEnd => run.cylinder == last.arm.cylinder,
                _ => true,
            };
            if !stays {
                return last.end();
            }
            let most = (limit - last.end()).min(u64::from(u32::MAX)) as u32;
            let job = Job { arm: last.arm, start: last.done(), write: false, least_move: 0 };
            let pass = self.mechanics.pass(job, run, last.end(), most);
            self.passes.keep_last();
            self.passes.push(pass);
        }
        limit
    }

    /// The state of a segment once its data is on the medium.
    fn kept(&self) -> SegmentState {
        if self.params.enabled { SegmentState::Clean } else { SegmentState::Empty }
    }

    fn finish_writing(&mut self, segment: usize) {
        if let Some(last) = self.passes.last() {
            self.arm = last.arm;
        }
        self.medium = Medium::Idle;
        let keep = self.params.enabled && self.params.read_hits_on_writes;
        self.cache.get_mut(segment).state = if keep { SegmentState::Clean } else { SegmentState::Empty };
    }

    /// Where the arm would start if it were taken at `now`.
    pub(crate) fn arm_at(&self, now: u64) -> Arm {
        match self.medium {
            Medium::Idle => self.arm,
            _ => self
                .passes
                .list()
                .iter()
                .find(|pass| pass.done() > now)
                .or(self.passes.last())
                .map_or(self.arm, |pass| pass.arm),
        }
    }

    /// Stops the current use of the arm. [`MechanicalDisk::stopped`] is then the time at which it can leave.
    pub(crate) fn stop(&mut self, now: u64) {
        self.sync(now);
        let Medium::Reading { segment, .. } = self.medium else { return };
        self.arm = self.arm_at(now);
        if let Some(pass) = self.passes.list().iter().find(|pass| pass.done() > now) {
            if now < pass.settled {
                self.stopped = pass.settled;
            } else if !self.params.stop_in_sector {
                let passed = u64::from(pass.passed(now));
                self.stopped = if now < pass.begin { pass.begin } else { pass.after(passed + 1) };
            }
        }
        self.medium = Medium::Idle;
        self.cache.get_mut(segment).state = self.kept();
    }

    /// When an arm that is taken at `now`, for a command whose overhead lasts until `ready`, begins to move.
    pub(crate) fn leaves(&self, now: u64, ready: u64) -> u64 {
        now + ready.saturating_sub(now) + self.stopped.saturating_sub(now)
    }

    /// Extends the passes of a read up to `to`.
    pub(crate) fn read_until(&mut self, to: u64) {
        let Some(&last) = self.passes.last() else { return };
        if last.end() >= to {
            return;
        }
        let job = Job { arm: last.arm, start: last.done(), write: false, least_move: 0 };
        let range = (last.end(), to);
        let_pass(&self.mechanics, &self.layout, job, None, range, &mut self.passes);
    }

    /// Writes sectors from a job on, as their data arrives.
    pub(crate) fn write_passes(&mut self, mut job: Job, range: (u64, u64), data: &Arrival) {
        let (mut at, end) = range;
        while at < end {
            let run = self.layout.run(at);
            let most = (end - at).min(u64::from(u32::MAX)) as u32;
            let whole = self.mechanics.pass(job, run, at, most);
            if self.params.zero_latency_write && data.of(whole.end() - 1) <= whole.settled {
                self.push_on_arrival(whole);
                at = whole.end();
            } else {
                at = write_whole(&self.mechanics, whole, data, &mut self.passes);
            }
            if let Some(last) = self.passes.last() {
                job = Job { arm: last.arm, start: last.done(), write: true, least_move: 0 };
            }
        }
    }

    /// Begins to write a dirty segment out.
    pub(crate) fn destage(&mut self, segment: usize, now: u64) {
        self.stop(now);
        let held = *self.cache.get(segment);
        let job = Job {
            arm: self.arm,
            start: self.leaves(now, now),
            write: true,
            least_move: self.control.minimum_seek,
        };
        self.passes.clear();
        let data = Arrival { sector: held.start, begin: 0, sector_time: 0, least: 0 };
        self.write_passes(job, (held.start, held.end), &data);
        self.cache.get_mut(segment).state = SegmentState::Writing;
        self.medium = Medium::Writing { segment };
        self.arm_free = self.passes.last().map_or(now, |pass| pass.done());
        self.last = held.end;
    }
}
