//! Disks that are failed as a whole because they do not answer, and what a program may see of that.
//!
//! A queue fails its disk when the driver has had a request for longer than its time and its grace. From then on what has not
//! started fails with `Gone`, until the disk has returned everything and the lanes have been run, so that they know; the first flush
//! after that fails once. The program is not told when a disk is failed. It may be so only while a disk has had a command for that
//! long, and as long as it has anything from that time.

use super::judge::least_timeout;
use super::submit::Live;
use super::{Finding, Run};
use platter_block::fault::{Fault, Stage};
use platter_block::time::{Span, Time};
use platter_disk::disk_backend::OnReturn;
use platter_sim::SimDisk;

/// What is known of the disks of a run.
#[derive(Default)]
pub(super) struct Silence {
    /// Of each disk: when it was last seen that it may be failed, if it has not returned everything since.
    failed: Vec<Option<Time>>,
    /// The last time at which any may have been failed.
    last: Option<Time>,
    /// When a flush last failed because a disk had been failed.
    paid: Option<Time>,
}

impl Silence {
    /// Whether a flush may still fail because a disk was failed.
    pub(super) fn owes(&self) -> bool {
        self.last.is_some_and(|last| self.paid.is_none_or(|paid| paid <= last))
    }
}

impl Run<'_> {
    /// How long a driver may have a request of a disk at least until the disk is failed.
    fn patience_of(&self, disk: usize) -> Option<Span> {
        let queue = &self.plan.disks[disk].settings.queue;
        let limits = queue.timeout.into_iter().chain(queue.slow_timeout);
        limits.map(|limit| Span(limit.0 + queue.abort_grace.unwrap_or(limit).0)).min()
    }

    /// Whether the queue of a disk is in front of a transport, whose commands cannot be seen.
    fn is_away(&self, disk: usize) -> bool {
        self.plan.disks[disk].transport.is_some()
    }

    /// Looks for disks that may be failed now.
    pub(super) fn look_for_silence(&mut self) {
        let now = self.now();
        self.silence.failed.resize(self.disks.len(), None);
        for disk in 0..self.disks.len() {
            let Some(patience) = self.patience_of(disk).filter(|_| self.stack().uses(disk)) else { continue };
            let before = self.silence.failed[disk];
            let stays = self.plan.disks[disk].settings.on_return == OnReturn::Stay;
            let inside = self.disks[disk].inside();
            let is_over = inside.iter().any(|one| now.since(one.taken) >= patience);
            // What it got until it was failed; nothing is sent to it afterwards.
            let is_left = before.is_some_and(|last| stays || inside.iter().any(|one| one.taken <= last));
            let is_away = self.is_away(disk) && now.since(Time(0)) >= patience;
            self.cover.failed_disks += u64::from(is_over && before.is_none());
            self.silence.failed[disk] = (is_over || is_left || is_away).then_some(now);
            // It was failed until some time between the last look and this one.
            if before.is_some() || self.silence.failed[disk].is_some() {
                self.silence.last = Some(now);
            }
        }
    }

    /// Whether a disk may be failed now.
    pub(super) fn may_be_failed(&self) -> bool {
        self.silence.failed.iter().any(Option::is_some)
    }

    /// The program has accepted the disks as they are.
    pub(super) fn accept_disks(&mut self) {
        self.look_for_silence();
        let has_left = |disk: &SimDisk| !disk.inside().is_empty();
        for (failed, disk) in self.silence.failed.iter_mut().zip(&self.disks) {
            *failed = failed.filter(|_| has_left(disk));
        }
    }

    /// The device was opened again: it knows nothing of what the one before it had waited for.
    pub(super) fn forget_silence(&mut self) {
        self.silence = Silence::default();
    }

    /// Whether an I/O may have failed because a disk was failed.
    pub(super) fn may_be_refused(&self, live: &Live) -> bool {
        let Some(last) = self.silence.last else { return false };
        // A lane that had requests with the disk knows only when it is run that they are back. A cache tells of its own late.
        let lanes = || self.open.iter().flat_map(|open| &open.lanes).map(|lane| lane.polled);
        let futures = || self.open.iter().map(|open| open.futures_polled);
        let known = lanes().chain(futures()).chain([live.submitted]).min();
        let dropped = self.judged.dropped || self.judged.future_dropped;
        dropped || self.stack().has("cache") || Some(last) >= known
    }

    /// The last look at the disks before a call, in which time passes: when each of them took the oldest command that it has.
    pub(super) fn oldest_commands(&mut self) -> Vec<Time> {
        self.look_for_silence();
        let oldest = |disk: &SimDisk| disk.inside().iter().map(|one| one.taken).min();
        self.disks.iter().map(|disk| oldest(disk).unwrap_or(self.now())).collect()
    }

    /// A call has ended: a disk that may have had one command for its whole time may have been failed.
    pub(super) fn look_back(&mut self, oldest: &[Time]) {
        let now = self.now();
        for (disk, &since) in oldest.iter().enumerate() {
            if self.is_slow() && self.patience_of(disk).is_some_and(|patience| now.since(since) >= patience) {
                self.cover.failed_disks += u64::from(self.silence.failed[disk].is_none());
                self.silence.failed[disk] = Some(now);
                self.silence.last = Some(now);
            }
        }
    }

    /// Whether a disk may have been slow enough to be failed.
    fn is_slow(&self) -> bool {
        let injected = self.injected();
        injected.stuck + injected.spikes > 0
            && (0..self.disks.len()).any(|disk| self.patience_of(disk).is_some())
    }

    /// Whether a request of an I/O may have been aborted because it was overdue.
    pub(super) fn may_be_aborted(&self, live: &Live) -> bool {
        let Some(least) = least_timeout(self) else { return false };
        // A cache issues I/Os itself, and reports errors of write-back late.
        self.aborts() > 0 && (self.now().since(live.submitted) >= least || self.stack().has("cache"))
    }

    /// Whether a flush may fail because a disk had been failed: the first one does, and those that share it.
    pub(super) fn may_pay(&mut self, live: &Live, fault: Fault) -> bool {
        let Some(last) = self.silence.last else { return false };
        // Each disk fails a flush of its own, and a cache or a layer flushes by itself.
        let used = (0..self.disks.len()).filter(|&disk| self.stack().uses(disk)).count();
        let plain = matches!(self.stack().kind(), "disk" | "partition") && !self.stack().has("cache");
        let single = plain && used == 1;
        let paid = self.silence.paid.filter(|&paid| paid < live.submitted && paid > last);
        if fault.stage == Stage::Handle || (single && paid.is_some()) {
            return false;
        }
        self.silence.paid = Some(self.now());
        true
    }

    /// Whether any disk waits to be accepted by the program.
    pub(super) fn accept_all(&mut self) -> Result<(), Finding> {
        let stays = |disk: &super::super::plan::DiskPlan| disk.settings.on_return == OnReturn::Stay;
        match self.plan.disks.iter().any(stays) {
            true => self.refresh(),
            false => Ok(()),
        }
    }
}
