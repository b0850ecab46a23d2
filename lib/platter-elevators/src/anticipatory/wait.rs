//! When to wait for a process, and what ends the wait.

use super::params::ANTIC_EXPIRE;
use super::process::Process;
use super::{Anticipatory, Rule, SYNC};

/// State of a wait (`antic_status`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Status {
    /// Not waiting.
    #[default]
    Off,
    /// Waiting for the process's request to complete; the time counts from then on.
    Completion,
    /// Waiting for its next request.
    Next,
    /// The wait has ended; the next request goes out.
    Finished,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wait {
    pub(super) status: Status,
    /// The process of the last dispatched request; none after an asynchronous request.
    pub(super) process: Option<u32>,
    /// Whether that request has completed.
    pub(super) finished: bool,
    /// When it completed.
    pub(super) start: u64,
    /// When the wait for the next one ends.
    pub(super) until: u64,
}

impl Wait {
    pub(super) fn is_on(&self) -> bool {
        matches!(self.status, Status::Completion | Status::Next)
    }
}

/// A request as the rules see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) sync: bool,
    pub(super) process: u32,
}

impl Anticipatory {
    /// Ends a wait whose time is over.
    #[inline]
    pub(super) fn run_timer(&mut self, now: u64) {
        if self.wait.status == Status::Next && now >= self.wait.until {
            self.stop_waiting();
            if let Some(process) = self.wait.process {
                self.estimate.timed_out(self.processes.get(process));
            }
        }
    }

    pub(super) fn stop_waiting(&mut self) {
        if self.wait.is_on() {
            self.wait.status = Status::Finished;
        }
    }

    /// Starts to wait for the completion of the process's request, or for its next one.
    pub(super) fn start_waiting(&mut self) {
        if self.wait.finished {
            self.wait.status = Status::Next;
            self.wait.until = self.wait.start + self.settings.unsigned(ANTIC_EXPIRE);
        } else {
            self.wait.status = Status::Completion;
        }
    }

    /// Whether waiting may be better than dispatching `candidate` (or, without one, than turning to writes).
    pub(super) fn may_wait(&mut self, now: u64, candidate: Option<Candidate>) -> bool {
        self.wait.process.is_some() && self.wait.status != Status::Finished && !self.ends_wait(now, candidate)
    }

    /// Whether there is a reason to end or not to begin the wait.
    pub(super) fn ends_wait(&mut self, now: u64, candidate: Option<Candidate>) -> bool {
        let Some(process) = self.wait.process else { return true };
        match self.rule() {
            Rule::V2_6_0 => self.ends_in_2_6_0(now, process, candidate),
            Rule::V2_6_2 => self.ends_in_2_6_2(now, process, candidate),
            Rule::V2_6_16 => self.ends_in_2_6_16(now, process, candidate),
        }
    }

    fn ends_in_2_6_0(&mut self, now: u64, process: u32, candidate: Option<Candidate>) -> bool {
        if self.is_close(now, process, candidate) || self.is_over(now) || is_from(process, candidate) {
            return true;
        }
        let awaited = self.processes.get(process);
        let thinks = awaited.think_time;
        if !awaited.running || has_more(awaited) {
            return true;
        }
        if thinks.samples == 0 && self.estimate.new_success < super::mean::ONE {
            return true;
        }
        thinks.mean > self.settings.unsigned(ANTIC_EXPIRE)
            || candidate.is_some_and(|c| awaited.seek.mean > self.distance(&c) / 2)
    }

    fn ends_in_2_6_2(&mut self, now: u64, process: u32, candidate: Option<Candidate>) -> bool {
        if is_from(process, candidate) || self.is_over(now) {
            return true;
        }
        let awaited = *self.processes.get(process);
        if !awaited.running {
            self.estimate.ended(&awaited);
            return true;
        }
        if has_more(&awaited) {
            return true;
        }
        if self.is_close(now, process, candidate) {
            self.processes.get_mut(process).last_end = now;
            return true;
        }
        let hopeless = self.estimate.exit_prob > 128;
        self.thinks_too_long(&awaited, hopeless)
            || candidate.is_some_and(|c| self.distance(&c) < self.usual_seek(&awaited))
    }

    fn ends_in_2_6_16(&mut self, now: u64, process: u32, candidate: Option<Candidate>) -> bool {
        if is_from(process, candidate) || self.is_over(now) {
            return true;
        }
        let awaited = *self.processes.get(process);
        if has_more(&awaited) {
            return true;
        }
        if let Some(c) = candidate
            && self.is_close(now, process, candidate)
        {
            if !awaited.running {
                self.estimate.ended(&awaited);
                self.estimate.saved();
            }
            self.count_request(now, process, (c.start, c.end));
            return true;
        }
        if !awaited.running {
            self.estimate.ended(&awaited);
            if self.estimate.exit_no_coop > 128 {
                return true;
            }
        }
        let hopeless = self.estimate.exit_prob * self.estimate.exit_no_coop > 128 * 256;
        self.thinks_too_long(&awaited, hopeless)
    }

    /// Whether the time of the wait is over, even if the timer has not run yet.
    fn is_over(&self, now: u64) -> bool {
        self.wait.finished && now.abs_diff(self.wait.start) >= self.settings.unsigned(ANTIC_EXPIRE)
    }

    /// Whether the process is expected to think for longer than the elevator waits; `hopeless` is the answer
    /// for a process without a known think time.
    fn thinks_too_long(&self, process: &Process, hopeless: bool) -> bool {
        let longest = self.settings.unsigned(ANTIC_EXPIRE);
        if process.think_time.samples == 0 {
            return self.estimate.new_think_time.mean > longest || hopeless;
        }
        process.think_time.mean > longest
    }

    fn distance(&self, candidate: &Candidate) -> u64 {
        candidate.start.abs_diff(self.last_sector[SYNC])
    }

    fn usual_seek(&self, process: &Process) -> u64 {
        if process.seek.samples == 0 { self.estimate.new_seek.mean } else { process.seek.mean }
    }

    /// Whether the candidate is synchronous and so close to the last request that it need not wait. The
    /// longer the wait has lasted, the larger is the distance that counts as close.
    pub(super) fn is_close(&self, now: u64, process: u32, candidate: Option<Candidate>) -> bool {
        let Some(Candidate { start: next, sync: true, .. }) = candidate else { return false };
        let last = self.last_sector[self.batch.dir];
        let counts = self.wait.status != Status::Off && self.wait.finished;
        let delay = if counts { now.saturating_sub(self.wait.start) } else { 0 };
        let late = self.rule() == Rule::V2_6_16;
        let (nearest, doublings) = if late { (8192, delay) } else { (64, delay.saturating_sub(1)) };
        if doublings > 0 && (delay > 20 || delay > self.settings.unsigned(ANTIC_EXPIRE)) {
            return true;
        }
        let delta: u64 = nearest << doublings;
        if next + delta / 2 >= last && next <= last + delta {
            return true;
        }
        late && next.abs_diff(last) < self.usual_seek(self.processes.get(process))
    }
}

/// Whether the process has requests that the driver has not taken.
fn has_more(process: &Process) -> bool {
    process.queued > 0
}

fn is_from(process: u32, candidate: Option<Candidate>) -> bool {
    candidate.is_some_and(|c| c.process == process)
}
