//! Failures: which are expected, and what they mean for the data; and successes while a command on its way may still change their result.

use super::submit::{By, Live};
use super::{Finding, Run};
use crate::soak::plan::Unsound;
use crate::soak::stamp::{self, SECTOR};
use platter_block::bio::{Flags, Op};
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::time::{Span, Time};
use platter_sim::Inside;
use platter_sim::fault::{Injected, TRANSIENT};
use platter_sim::oracle::Outcome;
use std::collections::BTreeMap;
use std::ops::Range;

/// What earlier failures mean for later ones.
#[derive(Default)]
pub(super) struct Judged {
    /// Failures that the program saw, to be compared with what was injected.
    reads: u64,
    writes: u64,
    flushes: u64,
    /// Changes that are late, with the event at which the program learned that.
    pub(super) late: BTreeMap<u64, Late>,
    /// The first event at which a flush had failed without being acknowledged.
    sticky: Option<u64>,
    /// The last acknowledgement: its event, and the number of flushes that had failed on the disks by then.
    acknowledged: Option<(u64, u64)>,
    /// The last failure of a barrier; bios that it held back may fail with it.
    barrier_failed: Option<Time>,
    /// Whether an I/O has timed out since the disks were last idle.
    timed_out: bool,
    /// When a lane was last polled that had not been polled for long.
    neglected: Option<Time>,
    /// When a synchronous call last ended.
    pub(super) called: Option<Time>,
    /// The event at which the last barrier got its place in the order.
    pub(super) last_barrier: u64,
    /// I/Os that were held back by a barrier and failed with it, with the candidate barriers, whose failure the
    /// program sees later.
    owed: Vec<(u64, Vec<u64>)>,
    /// Whether an I/O was dropped while in flight.
    pub(super) dropped: bool,
    /// Whether a future was dropped. Its I/O continues, and may be about to be tried again when no disk has any command.
    pub(super) future_dropped: bool,
    /// When the first dropped future may have timed out; the program does not see that.
    lost: Option<Time>,
    /// Whether an I/O that may flush timed out.
    flush_timed_out: bool,
    /// Whether a transient error may not have been followed by another try: an I/O was taken back or dropped.
    gives_up: bool,
    /// Whether the device was opened again after a power cut.
    cut: bool,
    /// Ranges (disk and sectors) that commands may still change that were in disks when the device was closed. The
    /// device that was opened afterwards does not know them.
    left_behind: Vec<(usize, Range<u64>)>,
}

/// A change that may still reach a disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Late {
    pub(super) event: u64,
    pub(super) op: Op,
    pub(super) sector: u64,
    pub(super) count: u64,
}

impl Judged {
    /// The program acknowledges at `event` that flushes have failed; on the disks `failed` have so far.
    pub(super) fn acknowledge(&mut self, event: u64, failed: u64) {
        self.sticky = None;
        self.acknowledged = Some((event, failed));
    }

    /// Whether the failure of a flush, of which the program learns now, may be older than the last acknowledgement: that ends
    /// what had failed by then, also what a channel reports later. A flush that was submitted before it is older if a flush failed
    /// on a disk in between.
    fn is_acknowledged(&self, live: &Live) -> bool {
        self.acknowledged
            .is_some_and(|(event, failed)| live.event < event && live.before.flush_errors < failed)
    }

    /// The program does not see the end of an I/O.
    pub(super) fn lose_sight(&mut self) {
        self.gives_up = true;
    }

    pub(super) fn cut(&mut self) {
        self.late.clear();
        self.lost = None;
        (self.sticky, self.cut) = (None, true);
        self.owed.clear();
        self.left_behind.clear();
    }

    /// `left_behind`: ranges that the disks may still change although the device that issued the commands is closed.
    pub(super) fn reopened(&mut self, left_behind: Vec<(usize, Range<u64>)>) {
        self.left_behind = left_behind;
        (self.sticky, self.lost) = (None, None);
        self.owed.clear();
        self.late.clear();
    }

    /// No command is on its way to a disk any more.
    pub(super) fn mended(&mut self) {
        (self.barrier_failed, self.timed_out, self.lost) = (None, false, None);
        if !self.dropped {
            self.late.clear();
        }
    }
}

/// Least time that a disk gives a request, and a disk as the device an I/O without a deadline.
pub(super) fn least_timeout(run: &Run<'_>) -> Option<Span> {
    let queues = run.plan.disks.iter().map(|disk| &disk.settings.queue);
    queues.flat_map(|queue| queue.timeout.into_iter().chain(queue.slow_timeout)).min()
}

/// Whether an I/O promises something about what was before it.
fn is_ordered(live: &Live) -> bool {
    live.op == Op::Flush || live.is_barrier() || live.has(Flags::PREFLUSH)
}

/// Whether a queue may flush the disk for an I/O. A soft barrier of several requests has the steps of a hard one.
fn may_flush(live: &Live) -> bool {
    let flushes = Flags::FUA | Flags::PREFLUSH | Flags::HARD_BARRIER | Flags::SOFT_BARRIER;
    live.op == Op::Flush || live.has(flushes)
}

impl Run<'_> {
    /// Checks the result of an I/O that must be refused.
    pub(super) fn refused(
        &mut self,
        token: u64,
        live: &Live,
        status: Result<(), Fault>,
    ) -> Result<(), Finding> {
        let right = match live.unsound {
            Some(Unsound::Misplaced) if self.is_at_the_end(live) => Kind::OutOfRange,
            Some(Unsound::Misplaced) => Kind::Misaligned,
            Some(Unsound::OutOfRange) => Kind::OutOfRange,
            Some(Unsound::Empty) | None => Kind::ZeroLength,
        };
        let kind = status.err().map(|fault| fault.kind);
        let early = matches!(kind, Some(Kind::Cancelled | Kind::TimedOut | Kind::Gone | Kind::Unsettled));
        // A call of zero bytes does nothing.
        let idle = live.by == By::Call && live.unsound == Some(Unsound::Empty) && kind.is_none();
        match kind == Some(right) || early || idle {
            true => Ok(()),
            false => Err(Finding::new(
                "refusal",
                format!("{token} should fail as {right:?}, not {kind:?}: {live:?}"),
            )),
        }
    }

    /// Whether a range that begins shortly after this one ends beyond the device.
    fn is_at_the_end(&self, live: &Live) -> bool {
        let size = self.open.as_ref().map_or(0, |open| open.map.len() as u64 * 512);
        (live.sector + live.count) * 512 + 7 > size
    }

    /// Records the consequences of a failure.
    pub(super) fn fails(&mut self, token: u64, live: &Live, fault: Fault, outcome: Outcome) {
        let event = self.event();
        self.judged.timed_out |= fault.kind == Kind::TimedOut;
        if outcome == Outcome::Late && live.op.changes() {
            let Live { op, sector, count, .. } = *live;
            self.judged.late.insert(token, Late { event, op, sector, count });
        }
        self.judged.flush_timed_out |= may_flush(live) && fault.kind == Kind::TimedOut;
        self.judged.gives_up |= live.cancelled;
        let by_disk = fault.kind == Kind::Io && fault.stage == Stage::Disk;
        let keeps = !self.stack().has("cache") && !self.stack().has("error");
        let sticks = live.op == Op::Flush && by_disk && keeps && live.unsound.is_none();
        if sticks && !self.judged.is_acknowledged(live) {
            self.judged.sticky.get_or_insert(event);
        }
        self.order.forget(token);
        if live.is_barrier() && fault.kind == Kind::TimedOut && fault.stage == Stage::Handle {
            // It is late: what is behind it waits for it, and fails with it.
            self.lose_barrier(token);
        }
        // A barrier that other lanes have abandoned may fail later; I/O behind it has not waited for that.
        let gone = fault.kind == Kind::Gone && fault.stage == Stage::Disk;
        let in_turn = gone || matches!(fault.kind, Kind::Io | Kind::FlushFailed);
        if !in_turn || self.may_lane_have_stalled(live) {
            // A failed barrier had no effect on the order.
            self.oracle.unorder(token);
        }
        self.oracle.complete(token, outcome);
    }

    /// After a failed flush, no flush may succeed until the failure is acknowledged.
    pub(super) fn look_for_sticky(&self, token: u64, live: &Live) -> Result<(), Finding> {
        match self.judged.sticky {
            Some(event) if live.op == Op::Flush && event < live.event => {
                let what = format!(
                    "flush {token} ended well, and an earlier one had failed without being acknowledged"
                );
                Err(Finding::new("sticky", what))
            }
            _ => Ok(()),
        }
    }

    /// Whether an I/O may fail with this error, and what that means for the data. `memory`: its memory was returned.
    pub(super) fn judge(
        &mut self,
        token: u64,
        live: &Live,
        fault: Fault,
        memory: bool,
    ) -> Result<Outcome, Finding> {
        self.look_for_silence();
        let injected = self.injected();
        if fault.kind == Kind::Gone && !self.supply.is_on() && !self.may_be_gone(live) {
            return Ok(Outcome::CutOff);
        }
        let passing = TRANSIENT.contains(&i32::from(fault.errno));
        let passing = passing && fault.stage == Stage::Disk;
        let excused = match fault.kind {
            _ if passing && self.may_not_be_tried_again(live) => true,
            Kind::Gone if self.may_be_gone(live) => {
                self.cover.gone += 1;
                true
            }
            Kind::Gone => injected.deaths > 0 || self.may_be_refused(live),
            Kind::TimedOut if fault.stage == Stage::Disk => {
                // A port has a time for each command, too.
                let by_target = self.plan.disks.iter().any(|disk| disk.transport.is_some());
                self.may_be_aborted(live) || (by_target && self.may_time_out(live))
            }
            // Nothing ends what is lent before the disk has returned it.
            Kind::TimedOut if live.lent && fault.stage == Stage::Handle => false,
            // A layer abandons a barrier because a channel is not polled.
            Kind::TimedOut => {
                self.may_time_out(live) || (fault.stage == Stage::Layer && self.may_lane_have_stalled(live))
            }
            Kind::Unsettled if fault.stage == Stage::Handle => self.may_be_unsettled(live),
            Kind::Unsettled => self.may_lane_have_stalled(live) || self.may_wait_for_owner(live),
            Kind::Cancelled => live.cancelled || self.may_barrier_have_failed(token, live),
            Kind::WouldBlock => live.has(Flags::READAHEAD),
            Kind::FlushFailed => self.may_flush_have_failed(live, &injected) || self.may_pay(live, fault),
            Kind::Unsupported => self.may_be_unsupported(live),
            Kind::Misaligned => live.has(Flags::ATOMIC) || matches!(live.op, Op::Discard | Op::WriteZeroes),
            // An atomic write is always one request.
            Kind::BadSegments => live.shredded || live.has(Flags::ATOMIC),
            Kind::Io => self.may_be_io(live, &injected),
            Kind::Corrupt => self.may_be_corrupt(live),
            _ => false,
        };
        // What the disk has behind a barrier sent as an ordered tag is not retried if that fails by its deadline.
        let excused = excused || (passing && self.may_barrier_have_failed(token, live));
        if !excused {
            let (op, count, sector, flags) = (live.op, live.count, live.sector, live.flags);
            let what =
                format!("a {op} of {count} sectors at {sector} with {flags:?} failed for no reason: {fault}");
            return Err(Finding::new(
                class(fault.kind),
                format!("{what} ({:?}, {:?})", fault.kind, fault.stage),
            ));
        }
        Ok(self.outcome(live, fault, memory))
    }

    /// Whether an I/O is not one range of one disk: a partition of an array may begin inside a chunk, so that even a single
    /// block lies on two members.
    fn is_scattered(&self, live: &Live) -> bool {
        let map = self.map();
        let range = live.sector as usize..(live.sector + live.count) as usize;
        let places = map.get(range).unwrap_or_default();
        places.windows(2).any(|pair| pair[1] != (pair[0].0, pair[0].1 + 1))
    }

    /// What a failure means for the data.
    fn outcome(&self, live: &Live, fault: Fault, memory: bool) -> Outcome {
        // One block in one request is written completely or not at all. But a member of an array whose blocks are
        // smaller than the array's splits a block whose memory has too many pieces, or that lies across a boundary of its
        // chunks; then only some parts may have been written.
        let steps = Flags::FUA | Flags::PREFLUSH | Flags::HARD_BARRIER;
        let cut = self.may_be_split(live) || self.is_scattered(live);
        let plain = live.single && !cut && !live.has(steps) && !self.stack().has("cache");
        // A layer that splits an I/O returns its memory even if the disk has carried out some parts.
        let whole = !self.stack().spreads();
        let never = if plain || live.op == Op::Flush { Outcome::Untouched } else { Outcome::Failed };
        match fault.kind {
            // The memory was returned, but parts may have been carried out.
            Kind::TimedOut if memory && live.op == Op::Write && live.by != By::Call => {
                if fault.stage == Stage::Queue && whole { never } else { Outcome::Failed }
            }
            // All of it was returned.
            Kind::TimedOut if fault.stage == Stage::Disk => Outcome::Failed,
            Kind::TimedOut => Outcome::Late,
            Kind::Cancelled if fault.stage != Stage::Disk => never,
            // One that is ordered may have been carried out when a change became late.
            Kind::Unsettled if live.op == Op::Flush || !is_ordered(live) => never,
            Kind::Unsupported | Kind::Misaligned | Kind::BadSegments if !self.stack().spreads() => never,
            _ => Outcome::Failed,
        }
    }

    /// Whether a disk with smaller blocks than the device may get a block in parts.
    fn may_be_split(&self, live: &Live) -> bool {
        let block = self.open.as_ref().map_or(0, |open| open.device.geometry().limits.logical_block);
        let limits = || self.disks.iter().map(|disk| disk.geometry().limits);
        limits().any(|disk| disk.logical_block < block && (live.shredded || disk.chunk > 0))
    }

    /// Whether an I/O is not retried, whatever the error: it was cancelled, or a barrier of another channel did not
    /// wait for its completion.
    fn may_not_be_tried_again(&self, live: &Live) -> bool {
        live.cancelled || self.judged.last_barrier > live.event
    }

    /// Whether an I/O was held back by a barrier that failed, or by one that is about to.
    fn may_barrier_have_failed(&mut self, token: u64, live: &Live) -> bool {
        if self.judged.barrier_failed >= Some(live.submitted) {
            return true;
        }
        let barrier = |other: &Live| other.placed && other.is_barrier() && other.event < live.event;
        let before: Vec<u64> =
            self.live.iter().filter(|(_, other)| barrier(other)).map(|(&token, _)| token).collect();
        let some = !before.is_empty();
        self.judged.owed.push((token, before));
        some
    }

    /// A barrier ended: I/O that failed because of a barrier must belong to a failed one.
    pub(super) fn settle_owed(&mut self, barrier: u64, well: bool) -> Result<(), Finding> {
        if !well {
            self.forgive_owed(barrier);
            self.judged.barrier_failed = self.judged.barrier_failed.max(Some(self.now()));
            return Ok(());
        }
        for (token, before) in &mut self.judged.owed {
            before.retain(|&other| other != barrier);
            if before.is_empty() {
                let what = format!("{token} was cancelled, and no barrier before it failed");
                return Err(Finding::new(class(Kind::Cancelled), what));
            }
        }
        Ok(())
    }

    /// Barriers that must have failed by now have no effect on the order, even if the program does not know yet;
    /// neither have those that may have failed because they were cancelled, since a barrier that has not started
    /// fails at once, nor those that were held behind such a barrier, which fail with it. While a change may be late, or a
    /// disk failed, all barriers fail.
    pub(super) fn void_barriers(&mut self) {
        let now = self.now();
        let queues = || self.plan.disks.iter().map(|disk| &disk.settings.queue);
        let least = queues().map(|queue| queue.barrier_timeout).chain(least_timeout(self)).min();
        let mut barriers: Vec<(u64, &Live)> = (self.live.iter())
            .filter(|(_, live)| live.placed && live.is_barrier())
            .map(|(&token, live)| (token, live))
            .collect();
        barriers.sort_by_key(|(_, live)| live.event);
        // When the last of those before may have failed.
        let mut failed =
            self.judged.barrier_failed.max((self.has_late() || self.may_be_failed()).then_some(now));
        let mut void = Vec::new();
        for (token, live) in barriers {
            let given = least.map(|least| live.submitted + least);
            let own = Time::earliest(live.deadline, given).filter(|&at| at <= now);
            if own.is_some() || live.cancelled || failed >= Some(live.submitted) {
                void.push(token);
                failed = failed.max(own);
            }
        }
        void.into_iter().for_each(|token| self.oracle.unorder(token));
    }

    /// The program has dropped the future of an I/O; the I/O continues.
    pub(super) fn lose_future(&mut self, live: &Live) {
        let given = least_timeout(self).map(|timeout| live.submitted + timeout);
        self.judged.lost = Time::earliest(self.judged.lost, Time::earliest(live.deadline, given));
    }

    /// The program no longer sees the result of a barrier, which may fail at any time.
    pub(super) fn lose_barrier(&mut self, barrier: u64) {
        self.forgive_owed(barrier);
        self.judged.barrier_failed = Some(Time(u64::MAX));
    }

    fn forgive_owed(&mut self, barrier: u64) {
        self.judged.owed.retain(|(_, before)| !before.contains(&barrier));
    }

    /// Whether a barrier may have been abandoned because a channel is not polled.
    fn may_lane_have_stalled(&self, live: &Live) -> bool {
        let least = self.plan.disks.iter().map(|disk| disk.settings.queue.barrier_timeout).min();
        live.is_barrier() && least.is_some_and(|least| self.now().since(live.submitted) >= least)
    }

    /// A lane is polled that was last polled at `before`. `left`: the program polled others and not this one.
    pub(super) fn note_poll(&mut self, before: Time, left: bool) {
        if self.is_long_ago(before) && (left || !self.is_plain()) {
            self.judged.neglected = Some(self.now());
        }
    }

    /// Whether something may have waited too long for a lane that was last polled then.
    fn is_long_ago(&self, polled: Time) -> bool {
        let least = self.plan.disks.iter().map(|disk| disk.settings.queue.barrier_timeout).min();
        least.is_some_and(|least| self.now().since(polled) >= least)
    }

    /// Whether a target does not begin an I/O before a lane that was not run for long knows that an ordered command has failed.
    fn may_wait_for_owner(&self, live: &Live) -> bool {
        let by_target = self.plan.disks.iter().any(|disk| disk.transport.is_some());
        by_target && self.is_long_ago(live.submitted) && self.is_any_neglected(live)
    }

    /// Whether an I/O may have failed because a change is late: one that promises something about it, or one that overlaps it and has
    /// waited for a lane that was not run for long.
    fn may_be_unsettled(&self, live: &Live) -> bool {
        self.may_be_late() && (is_ordered(live) || self.is_any_neglected(live))
    }

    /// Whether a lane was not run for long while an I/O was under way.
    fn is_any_neglected(&self, live: &Live) -> bool {
        let Some(open) = &self.open else { return false };
        let strict = self.is_plain();
        let left = open.lanes.iter().filter(|lane| lane.left || !strict).map(|lane| lane.polled);
        let mut left = left.chain((!strict).then_some(open.futures_polled));
        // Nothing is polled during a call.
        let called = live.by == By::Call || self.judged.called >= Some(live.submitted);
        let neglected = called || self.judged.neglected >= Some(live.submitted);
        neglected || left.any(|at| self.is_long_ago(at))
    }

    /// Whether the program's lanes are those of a disk, so that polling one runs it.
    fn is_plain(&self) -> bool {
        matches!(self.stack().kind(), "disk")
    }

    fn may_time_out(&self, live: &Live) -> bool {
        let now = self.now();
        if live.deadline.is_some_and(|at| now >= at) {
            return true;
        }
        let Some(timeout) = least_timeout(self) else { return false };
        // A cache issues I/Os itself, which may have begun earlier, and reports errors of write-back late.
        now.since(live.submitted) >= timeout || self.stack().has("cache")
    }

    /// Whether a change may be late, or a closed channel may have left one.
    pub(super) fn may_be_late(&self) -> bool {
        self.has_late() || self.judged.timed_out || self.judged.dropped
    }

    /// Whether an I/O of the program may be late.
    fn has_late(&self) -> bool {
        let known = !self.judged.late.is_empty();
        // Results that the program has not seen yet.
        let given = least_timeout(self);
        let late = |live: &Live| {
            let own = live.deadline.is_some_and(|at| at <= self.now());
            own || given.is_some_and(|given| live.submitted + given <= self.now())
        };
        let lost = self.judged.lost.is_some_and(|at| at <= self.now());
        known || lost || self.live.values().any(late)
    }

    fn may_flush_have_failed(&self, live: &Live, injected: &Injected) -> bool {
        let by_disk = injected.flush_errors + injected.deaths + injected.aborted_flushes > 0;
        let failed = by_disk || self.supply.cuts() > 0 || self.has_resized();
        // A write through a cache shares its pages with other ones: what is dropped because the flush of one failed fails all.
        let shares = live.op == Op::Write && self.stack().writes_through();
        (may_flush(live) || shares)
            && (failed || self.may_flush_be_given_up(injected) || self.may_port_abort())
    }

    /// Whether a flush may have failed by a transient error after which it was not tried again: it was taken back, overdue, or on the
    /// other side of a barrier by then.
    fn may_flush_be_given_up(&self, injected: &Injected) -> bool {
        let cancelled = || self.live.values().any(|live| live.cancelled);
        let given_up = self.judged.gives_up || self.judged.last_barrier > 0 || self.aborts() > 0;
        injected.transient_flushes > 0 && (given_up || cancelled())
    }

    /// Requests that a queue wanted to be aborted because they were overdue.
    pub(super) fn aborts(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.device.counters().aborts)
    }

    /// Whether a port may have aborted a flush, of which the disk behind it sees nothing.
    fn may_port_abort(&self) -> bool {
        let by_target = self.plan.disks.iter().any(|disk| disk.transport.is_some());
        by_target && (self.judged.flush_timed_out || self.aborts() > 0)
    }

    fn may_be_unsupported(&self, live: &Live) -> bool {
        let device = self.open.as_ref().map(|open| open.device.geometry().limits);
        let lacks = match live.op {
            Op::Discard => device.is_some_and(|limits| limits.discard_granularity == 0),
            Op::WriteZeroes => device.is_some_and(|limits| !limits.write_zeroes),
            _ => live.has(Flags::ATOMIC),
        };
        // Members of an array may have different features.
        lacks || (self.stack().spreads() && matches!(live.op, Op::Discard | Op::WriteZeroes))
    }

    /// Whether `verify` may find other contents than it saw written: it is as new as the device, and a change from before
    /// the device was opened may land over what was written since.
    fn may_be_corrupt(&self, live: &Live) -> bool {
        let sectors = live.sector as usize..(live.sector + live.count) as usize;
        let places = self.open.as_ref().and_then(|open| open.map.get(sectors)).unwrap_or_default();
        let lands = |&(disk, sector): &(usize, u64)| {
            self.was_cut_off(disk, sector)
                || self.judged.left_behind.iter().any(|(on, range)| *on == disk && range.contains(&sector))
        };
        live.op == Op::Read && self.stack().has("verify") && places.iter().any(lands)
    }

    fn may_be_io(&mut self, live: &Live, injected: &Injected) -> bool {
        // They are reset each time the device is opened.
        let by_layer = self.stack().failures() * self.opens;
        let disk_flushes = injected.flush_errors > 0;
        if self.stack().has("cache") {
            // One error may fail several I/Os, and an error of write-back is reported later, to each handle.
            return injected.read_errors + injected.write_errors + injected.flush_errors + by_layer > 0;
        }
        if disk_flushes && may_flush(live) {
            return true;
        }
        // A write that begins or ends inside a block reads that block first, and fails if that fails.
        if live.reads_first && injected.read_errors > live.before.read_errors {
            self.judged.reads += 1;
            if self.judged.reads <= injected.read_errors + by_layer {
                return true;
            }
        }
        let (seen, most) = match live.op {
            Op::Read => (&mut self.judged.reads, injected.read_errors),
            Op::Flush => (&mut self.judged.flushes, 0),
            _ => (&mut self.judged.writes, injected.write_errors),
        };
        *seen += 1;
        *seen <= most + by_layer
    }
}

/// The class of findings of failures of a kind.
fn class(kind: Kind) -> &'static str {
    match kind {
        Kind::Cancelled => "reason-cancelled",
        Kind::Unsettled => "reason-unsettled",
        Kind::TimedOut => "reason-timed-out",
        Kind::FlushFailed => "reason-flush",
        Kind::Io => "reason-io",
        Kind::Gone => "reason-gone",
        Kind::Unsupported => "reason-unsupported",
        _ => "reason",
    }
}

impl Run<'_> {
    /// An I/O succeeded: no command on its way to a disk may still change its result.
    pub(super) fn look_for_late(&mut self, live: &Live) -> Result<(), Finding> {
        let flushes = live.op == Op::Flush || live.has(Flags::PREFLUSH | Flags::HARD_BARRIER);
        let before = &live.before;
        let slow = self.injected();
        if !(live.op.changes() || flushes) || slow.stuck + slow.spikes == 0 || before.total() > slow.total() {
            return Ok(());
        }
        self.void_barriers();
        let cached = self.stack().writes_back();
        for disk in 0..self.disks.len() {
            for inside in self.disks[disk].inside() {
                if inside.op.changes() && !inside.landed {
                    self.look_inside(disk, &inside, live, flushes, cached)?;
                }
            }
        }
        Ok(())
    }

    fn look_inside(
        &self,
        disk: usize,
        inside: &Inside,
        live: &Live,
        flushes: bool,
        cached: bool,
    ) -> Result<(), Finding> {
        for token in self.tokens(disk, inside) {
            let Some((id, sector)) = token else { continue };
            let lands = self.oracle.may_land(sector, id, cached);
            lands.map_err(|wrong| Finding::violation(&wrong, format!("after {live:?}: {wrong}")))?;
            let told = |late: &&Late| flushes && late.event < live.event && self.covers(live, sector);
            let late = self.judged.late.get(&id).filter(told).filter(|_| !self.is_again(id, sector));
            if let Some(late) = late {
                let what =
                    format!("{live:?} ended well, and {late:?} of I/O {id} can still reach disk {disk}");
                return Err(Finding::new("late", what));
            }
        }
        Ok(())
    }

    /// Whether a command with this version changes nothing, because the disk has it: a cache reads what is between the dirty
    /// blocks of a page from the disk, and writes it again with them.
    fn is_again(&self, id: u64, sector: u64) -> bool {
        let place = self.open.as_ref().and_then(|open| open.map.get(sector as usize));
        let Some(&(disk, on)) = place.filter(|_| self.stack().has("cache")) else { return false };
        let mut data = [0; SECTOR];
        self.disks[disk].contents(on, &mut data);
        stamp::version_of(&data, sector) == id
    }

    /// Whether an I/O that flushes promises something about a sector. A cache flushes a range by itself: pages outside it
    /// may be on their way to the disk. Below it a flush is one of the whole disk.
    fn covers(&self, live: &Live, sector: u64) -> bool {
        let of_range = live.op == Op::Flush && live.count > 0 && self.stack().has("cache");
        let whole = live.has(Flags::PREFLUSH | Flags::HARD_BARRIER);
        !of_range || whole || (live.sector..live.sector + live.count).contains(&sector)
    }

    /// The writes that a command is made of, with their sectors of the device; of a discard those that are late and
    /// that it may be.
    fn tokens(&self, disk: usize, inside: &Inside) -> Vec<Option<(u64, u64)>> {
        let Some(open) = &self.open else { return Vec::new() };
        if inside.op == Op::Write {
            let tokens = (inside.sector..).zip(inside.data.chunks(SECTOR).map(stamp::parse));
            // A write that timed out leaves a slot of a snapshot's store that shows nothing, or by now other sectors.
            let moves = self.stack().has("snapshot");
            let shows = |&(on, token): &(u64, Option<(u64, u64)>)| {
                !moves || token.is_some_and(|(_, sector)| open.is_at(sector, disk, on))
            };
            return tokens.filter(shows).map(|(_, token)| token).collect();
        }
        let end = inside.sector + inside.sectors;
        // It may as well be one that is under way.
        if self.judged.dropped || self.live.values().any(|live| live.op == inside.op) {
            return Vec::new();
        }
        let here = |sector: u64| {
            open.map
                .get(sector as usize)
                .is_some_and(|&(at, on)| at == disk && inside.sector <= on && on < end)
        };
        // Of several that it may be, the last: it has waited for those before it.
        let may_be = |late: &&Late| late.op == inside.op && (late.sector..late.sector + late.count).any(here);
        let late = self.judged.late.iter().filter(|(_, late)| may_be(late));
        let last = late.max_by_key(|(_, late)| late.event);
        let sectors = last.map(|(&id, late)| (late.sector..late.sector + late.count).map(move |at| (id, at)));
        sectors.into_iter().flatten().filter(|&(_, sector)| here(sector)).map(Some).collect()
    }
}
