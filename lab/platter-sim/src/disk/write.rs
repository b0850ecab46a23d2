//! Writes: through the buffer to the medium, completed in either.

use super::cache::{Hit, SegmentState};
use super::machine::MechanicalDisk;
use super::mech::Job;
use super::medium::Medium;
use super::sched::Waiting;
use super::transfer::Arrival;
use platter_block::bio::Op;

/// How the data of a write arrives.
struct Intake {
    /// When the arm may move.
    ready: u64,
    /// The data.
    data: Arrival,
    /// The bus is released once more than usual.
    extra: bool,
}

impl MechanicalDisk {
    /// Serves a write with the arm available. `at_once`: it has just arrived and still occupies the bus.
    pub(crate) fn write(&mut self, one: &Waiting, now: u64, at_once: bool) {
        self.stop(now);
        let range = (one.sector, one.end());
        let victim = self.cache.victim(true, range).unwrap_or(0);
        let intake = self.intake(one, now, at_once, Some(victim));
        let job = Job {
            arm: self.arm,
            start: self.leaves(now, intake.ready),
            write: true,
            least_move: self.control.minimum_seek,
        };
        self.passes.clear();
        if u64::from(one.sectors) > self.cache.size() {
            self.write_large(job, range, &intake.data);
        } else {
            self.write_passes(job, range, &intake.data);
        }
        self.occupy(victim, one, SegmentState::Writing);
        self.medium = Medium::Writing { segment: victim };
        let through = self.passes.last().map_or(now, |pass| pass.done());
        let end = self.end_of_write(one, &intake, through);
        let complete = self.control.write_complete;
        self.arm_free = self.release(end, complete, through);
        self.last = one.end();
        self.end_at(end, one.tag);
    }

    /// When the host gets the completion of a write that the medium finishes at `through`.
    fn end_of_write(&mut self, one: &Waiting, intake: &Intake, through: u64) -> u64 {
        let control = &self.control;
        let data = intake.data.of(one.end() - 1);
        let data = if u64::from(one.sectors) > self.cache.size() { data.max(through) } else { data };
        self.after_write = true;
        let end = if self.completes_early(one.fua) {
            data + control.write_complete
        } else if control.never_disconnect {
            data.max(through) + control.write_complete
        } else {
            let (leave, again) = match (intake.extra, control.extra_disconnect) {
                (true, Some(extra)) => (extra.second_disconnect, control.reselect_other),
                _ => (control.write_disconnect, control.reselect_first),
            };
            through.max(data + leave) + again + self.bus.arbitration + control.write_complete
        };
        self.bus_free = end;
        end
    }

    /// When the data is transferred over the bus, and when the arm may move.
    fn intake(&self, one: &Waiting, now: u64, at_once: bool, segment: Option<usize>) -> Intake {
        let control = &self.control;
        let early = self.completes_early(one.fua);
        let times = if early { control.write_hit } else { control.write_miss };
        let overhead = if one.after_write { times.write } else { times.read };
        let mut extra = false;
        let (ready, begin) = if at_once {
            let ready = one.arrived + overhead;
            match control.extra_disconnect {
                Some(times) if !control.never_disconnect && self.leaves_bus_first(one, segment) => {
                    extra = true;
                    let back = one.arrived + times.command + times.disconnect + times.between;
                    (one.arrived + times.command + times.seek_delay, back + self.bus.take(control, true))
                }
                _ => (ready, ready + control.data_preparation),
            }
        } else {
            let leave = if early { control.write_disconnect } else { 0 };
            let left = one.arrived + overhead + leave;
            (one.arrived + overhead, left.max(now) + self.bus.take(control, true))
        };
        let least = match control.extra_disconnect {
            None => 0,
            Some(_) if one.sectors < 45 => u64::from(one.sectors.min(10)),
            Some(_) => 15,
        };
        let sector_time = if one.op == Op::WriteZeroes { 0 } else { self.bus.write };
        let data = Arrival { sector: one.sector, begin: begin.max(self.bus_free), sector_time, least };
        Intake { ready, data, extra }
    }

    /// Whether the disk releases the bus between command and data, as in a write after a write elsewhere.
    fn leaves_bus_first(&self, one: &Waiting, segment: Option<usize>) -> bool {
        segment.is_some_and(|segment| {
            let held = self.cache.get(segment);
            self.cache.is_latest(segment) && held.written && held.end != one.sector
        })
    }

    fn occupy(&mut self, segment: usize, one: &Waiting, state: SegmentState) {
        let held = self.cache.get_mut(segment);
        (held.start, held.end, held.state) = (one.sector, one.sector, state);
        held.ahead = (0, 0);
        held.written = true;
        self.cache.set_end(segment, one.end());
        self.cache.touch(segment);
        self.cache.invalidate(one.sector, one.end(), Some(segment));
    }

    /// Serves commands that need no arm: a write that extends the one in progress or finds room in the
    /// buffer, and a read that is entirely in the buffer. `false`: the command must wait.
    pub(crate) fn serve_without_arm(&mut self, one: &Waiting, now: u64, at_once: bool) -> bool {
        match one.op {
            Op::Read if self.params.sneaky_full_hits => match self.cache.find_read(one.sector, one.sectors) {
                Hit::Whole(segment) => {
                    self.read_beside(one, segment, now);
                    true
                }
                _ => false,
            },
            Op::Write | Op::WriteZeroes
                if self.completes_early(one.fua) && u64::from(one.sectors) <= self.cache.size() =>
            {
                self.append(one, now, at_once)
                    || (self.params.write_prebuffering && self.prebuffer(one, now, at_once))
            }
            _ => false,
        }
    }

    /// Appends a write to the segment that ends where it begins.
    fn append(&mut self, one: &Waiting, now: u64, at_once: bool) -> bool {
        if !self.params.combine_writes {
            return false;
        }
        let Some(segment) = self.cache.appendable(one.sector) else { return false };
        let mut intake = self.intake(one, now, at_once, None);
        let size = self.cache.size();
        if self.cache.get(segment).state == SegmentState::Dirty {
            let start = self.cache.get(segment).start;
            if !self.params.write_prebuffering || one.end() - start > size {
                return false;
            }
        } else {
            // There is room once the medium has taken the data one segment size before.
            if let Some(room) = one.end().checked_sub(size).and_then(|from| self.passes.time_of(from)) {
                intake.data.begin = intake.data.begin.max(room);
            }
            let Some(&last) = self.passes.last() else { return false };
            let job = Job { arm: last.arm, start: last.done(), write: true, least_move: 0 };
            self.write_passes(job, (one.sector, one.end()), &intake.data);
            let through = self.passes.last().map_or(now, |pass| pass.done());
            self.arm_free = self.arm_free.max(through);
            self.last = one.end();
        }
        self.cache.set_end(segment, one.end());
        self.cache.touch(segment);
        self.cache.invalidate(one.sector, one.end(), Some(segment));
        self.take_early(one, &intake);
        true
    }

    /// Takes the data of a write into a segment of its own, to be written when the arm is free.
    fn prebuffer(&mut self, one: &Waiting, now: u64, at_once: bool) -> bool {
        let range = (one.sector, one.end());
        let usable = |segment: &usize| self.cache.get(*segment).state != SegmentState::Reading;
        if self.cache.dirty_overlap(one.sector, one.end()).is_some() {
            return false;
        }
        let Some(segment) = self.cache.victim(true, range).filter(usable) else { return false };
        let intake = self.intake(one, now, at_once, Some(segment));
        self.occupy(segment, one, SegmentState::Dirty);
        self.take_early(one, &intake);
        true
    }

    fn take_early(&mut self, one: &Waiting, intake: &Intake) {
        let end = intake.data.of(one.end() - 1) + self.control.write_complete;
        self.bus_free = end;
        self.after_write = true;
        self.end_at(end, one.tag);
    }

    /// Takes waiting writes into the buffer, in order of arrival, as far as there is room.
    pub(crate) fn take_in_writes(&mut self, now: u64) {
        if !self.params.write_prebuffering || !self.completes_early(false) {
            return;
        }
        let mut at = 0;
        while let Some(&one) = self.waiting.get(at) {
            // What is before an ordered tag has been served when the tag comes first.
            match self.waiting.first() {
                Some(first) if first.order < one.order => return,
                _ => self.in_order.begin(one.order),
            }
            let taken = one.is_write() && one.op != Op::Flush && self.serve_without_arm(&one, now, false);
            if taken {
                self.waiting.remove(at);
            } else {
                at += 1;
            }
        }
    }
}
