//! Reads: from the buffer, from the medium, or from both.

use super::cache::{Hit, SegmentState};
use super::machine::MechanicalDisk;
use super::mech::{Job, Pass, let_pass};
use super::medium::Medium;
use super::params::{After, Keep, ReadAhead};
use super::sched::Waiting;
use super::transfer::{Delivery, Hold};
use super::zones::{FINE, Run};

impl MechanicalDisk {
    /// Serves a read with the arm available. `at_once`: it has just arrived and still occupies the bus.
    pub(crate) fn read(&mut self, one: &Waiting, now: u64, at_once: bool) {
        self.sync(now);
        let hit = self.cache.find_read(one.sector, one.sectors);
        let cached = match hit {
            Hit::None => one.sector,
            Hit::Whole(segment) | Hit::Partial(segment) => self.cache.get(segment).end.min(one.end()),
        };
        let watermark = self.read_watermark(one.sectors);
        let hold = self.read_hold(one, now, at_once, hit, cached - one.sector >= watermark);
        let segment = match hit {
            Hit::Whole(segment) => {
                self.go_on(segment, one, now);
                segment
            }
            Hit::Partial(segment) => {
                self.complete_hit(segment, one, now);
                segment
            }
            Hit::None => self.read_miss(one, now),
        };
        self.cache.touch(segment);
        let delivery =
            Delivery { range: (one.sector, one.end()), cached, watermark, after_write: one.after_write };
        let data = self.bus.deliver(&self.control, &self.passes, delivery, hold);
        let end = data + self.control.read_complete;
        let through = if cached >= one.end() { now } else { self.passes.time_of(one.end()).unwrap_or(now) };
        self.arm_free = self.release(end, self.control.read_complete, through).max(self.least_ahead(segment));
        self.bus_free = end;
        self.after_write = false;
        self.last = one.end();
        if self.params.keep == Keep::Discard {
            let held = self.cache.get_mut(segment);
            held.start = held.start.max(one.end()).min(held.end);
        }
        self.end_at(end, one.tag);
    }

    /// Serves a read that is entirely in the buffer while the arm works for another command.
    pub(crate) fn read_beside(&mut self, one: &Waiting, segment: usize, now: u64) {
        let hold = self.read_hold(one, now, true, Hit::Whole(segment), true);
        let range = (one.sector, one.end());
        let delivery = Delivery { range, cached: one.end(), watermark: 1, after_write: one.after_write };
        let end = self.bus.deliver(&self.control, &self.passes, delivery, hold) + self.control.read_complete;
        self.cache.touch(segment);
        self.bus_free = end;
        self.after_write = false;
        self.end_at(end, one.tag);
    }

    fn read_watermark(&self, sectors: u32) -> u64 {
        let size = self.cache.size();
        let share = u64::from(self.params.read_watermark);
        if self.params.watermark_by_request {
            (size.min(u64::from(sectors)) * share / 1_000_000).max(1)
        } else {
            (size * share).div_ceil(1_000_000)
        }
    }

    /// How the command holds the bus once its overhead is over.
    fn read_hold(&self, one: &Waiting, now: u64, at_once: bool, hit: Hit, enough: bool) -> Hold {
        let control = &self.control;
        let after = |times: After| if one.after_write { times.write } else { times.read };
        let ready = match hit {
            Hit::None => false,
            Hit::Whole(_) => true,
            Hit::Partial(_) => enough || self.params.partial_hits_at_once,
        };
        let hold = if at_once && (ready || control.never_disconnect) {
            let overhead = if hit == Hit::None { control.read_miss } else { control.read_hit };
            Hold { at: one.arrived + after(overhead) + control.data_preparation, held: true }
        } else {
            let left = one.arrived + after(control.read_miss) + after(control.read_disconnect);
            Hold { at: left.max(now), held: false }
        };
        Hold { at: hold.at.max(self.bus_free), ..hold }
    }

    /// A whole hit: read-ahead into its segment continues or begins again; any other read-ahead ends.
    fn go_on(&mut self, segment: usize, one: &Waiting, now: u64) {
        let limit = self.ahead(segment, one);
        if let Medium::Reading { segment: active, .. } = self.medium
            && active == segment
        {
            self.medium = Medium::Reading { segment, limit };
            return;
        }
        self.stop(now);
        self.passes.clear();
        let from = self.cache.get(segment).end;
        if !self.params.read_ahead_on_hit
            || from >= limit
            || self.cache.get(segment).state != SegmentState::Clean
        {
            return;
        }
        let run = self.layout.run(from);
        let stays = match self.params.read_ahead {
            ReadAhead::TrackEnd => run.cylinder == self.arm.cylinder && run.head == self.arm.head,
            ReadAhead::CylinderEnd => run.cylinder == self.arm.cylinder,
            _ => true,
        };
        if stays {
            let job = Job { arm: self.arm, start: self.leaves(now, one.ready), write: false, least_move: 0 };
            let most = (limit - from).min(u64::from(u32::MAX)) as u32;
            self.passes.push(self.mechanics.pass(job, run, from, most));
            self.cache.get_mut(segment).state = SegmentState::Reading;
            self.medium = Medium::Reading { segment, limit };
        }
    }

    /// A partial hit: the rest is read behind the contents of the segment.
    fn complete_hit(&mut self, segment: usize, one: &Waiting, now: u64) {
        let limit = self.ahead(segment, one);
        if let Medium::Reading { segment: active, .. } = self.medium
            && active == segment
        {
            self.read_until(one.end());
        } else {
            self.stop(now);
            let from = self.cache.get(segment).end;
            let job = Job { arm: self.arm, start: self.leaves(now, one.ready), write: false, least_move: 0 };
            self.passes.clear();
            let range = (from, one.end());
            let_pass(&self.mechanics, &self.layout, job, None, range, &mut self.passes);
            self.cache.get_mut(segment).state = SegmentState::Reading;
        }
        self.cache.get_mut(segment).written = false;
        self.medium = Medium::Reading { segment, limit };
    }

    fn read_miss(&mut self, one: &Waiting, now: u64) -> usize {
        self.stop(now);
        let victim = self.cache.victim(false, (one.sector, one.end()));
        let segment = victim.unwrap_or(usize::from(self.params.dedicated_write_segment));
        let run = one.run.unwrap_or_else(|| self.layout.run(one.sector));
        let job = Job { arm: self.arm, start: self.leaves(now, one.ready), write: false, least_move: 0 };
        self.passes.clear();
        self.first_passes(job, run, one);
        let start = self.free_blocks(&run, one);
        let held = self.cache.get_mut(segment);
        (held.state, held.start, held.end) = (SegmentState::Reading, start, one.sector);
        held.ahead = (0, 0);
        held.written = false;
        let limit = self.ahead(segment, one);
        self.medium = Medium::Reading { segment, limit };
        segment
    }

    /// The passes of a read from the medium.
    fn first_passes(&mut self, job: Job, run: Run, one: &Waiting) {
        let range = (one.sector, one.end());
        if u64::from(one.sectors) > self.cache.size() {
            return self.read_large(job, range);
        }
        if !self.params.zero_latency_read {
            return let_pass(&self.mechanics, &self.layout, job, Some(run), range, &mut self.passes);
        }
        let (mut at, mut job, mut run) = (one.sector, job, run);
        loop {
            let most = (one.end() - at).min(u64::from(u32::MAX)) as u32;
            let whole = self.mechanics.pass(job, run, at, most);
            self.push_on_arrival(whole);
            at = whole.end();
            if at >= one.end() {
                return;
            }
            let start = self.passes.last().map_or(job.start, |pass| pass.done());
            job = Job { arm: whole.arm, start, ..job };
            run = self.layout.run(at);
        }
    }

    /// Zero-latency access: if the head arrives within the pass, the end of the pass is accessed first and
    /// its front in the rest of the revolution.
    pub(crate) fn push_on_arrival(&mut self, whole: Pass) {
        let period = self.mechanics.period();
        let missed = (whole.settled + period).saturating_sub(whole.begin);
        let gone = (missed << FINE).div_ceil(whole.sector_time);
        if gone == 0 || gone >= u64::from(whole.len) {
            return self.passes.push(whole);
        }
        let front = Pass { len: gone as u32, ..whole };
        let begin = front.done();
        self.passes.push(front);
        let (sector, len) = (whole.sector + gone, whole.len - gone as u32);
        self.passes.push(Pass { sector, len, begin, sector_time: 0, ..whole });
    }

    /// With free blocks, the sectors of the track before the wanted one that pass while the head waits for it.
    fn free_blocks(&self, run: &Run, one: &Waiting) -> u64 {
        let Some(first) = self.passes.list().first() else { return one.sector };
        if !self.params.read_free_blocks || run.sector == 0 {
            return one.sector;
        }
        let wait = first.begin - first.settled;
        if (u64::from(run.sector) * run.sector_time) >> FINE >= wait {
            return one.sector;
        }
        self.layout.track(one.sector).0.max(one.end().saturating_sub(self.cache.size())).min(one.sector)
    }

    /// Sets how far read-ahead goes after this read. Returns the limit.
    fn ahead(&mut self, segment: usize, one: &Waiting) -> u64 {
        let end = one.end();
        let most = match self.params.read_ahead {
            ReadAhead::Off => end,
            ReadAhead::NextTrack => self.next_track(self.cache.get(segment).start, one),
            _ if self.params.read_ahead_maximum > 0 => end + u64::from(self.params.read_ahead_maximum),
            _ if self.params.keep == Keep::Request => {
                let least = u64::from(self.params.read_ahead_minimum);
                (one.sector + self.cache.size()).max(end + least)
            }
            _ => end + self.cache.size(),
        };
        let sectors = self.layout.sectors();
        let least = end + u64::from(self.params.read_ahead_minimum);
        let held = self.cache.get_mut(segment);
        held.ahead = (held.ahead.0.max(least.min(sectors)), held.ahead.1.max(most.min(sectors)));
        held.ahead.1
    }

    /// End of the track of the sector after the read, and of the next where the segment reaches back before it.
    fn next_track(&self, start: u64, one: &Waiting) -> u64 {
        if one.end() >= self.layout.sectors() {
            return self.layout.sectors();
        }
        let (first, end) = self.layout.track(one.end());
        if start < first { end + u64::from(self.layout.per_track(one.sector)) } else { end }
    }

    /// When the minimum read-ahead, which must not be interrupted, is complete.
    fn least_ahead(&mut self, segment: usize) -> u64 {
        let (least, most) = self.cache.get(segment).ahead;
        if self.params.read_ahead_minimum == 0 || !matches!(self.medium, Medium::Reading { .. }) {
            return 0;
        }
        let to = least.min(most);
        self.read_until(to);
        self.passes.time_of(to).unwrap_or(0)
    }
}
