//! The end of a run: faults have stopped, and everything must work again.

use super::submit::Live;
use super::{Feature, Finding, Run};
use crate::soak::memory::Layout;
use crate::soak::plan::{FAILURES, Io};
use platter_block::bio::{Bio, Context, Flags, IoPrio, Op};
use platter_block::statistics::Gauges;
use platter_block::time::{Span, Time};
use platter_scsi::disk::FaultPlan;
use platter_sim::SimDisk;
use platter_sim::power::Survivors;
use std::sync::atomic::Ordering;

/// Time limit of one I/O without faults.
const HEALTHY: Span = Span::from_secs(60);

/// How long to wait after an I/O that failed late: longer than a cache of the soak keeps a dirty page.
const AGAIN: Span = Span::from_secs(40);

/// Shorter than a target has for a command.
const SOON: Span = Span::from_secs(1);

/// Time limit for a disk to end its commands when none is stuck.
const QUIET: Span = Span::from_secs(600);

/// Turns of the shared queue after which what dropped lanes had left there is gone.
const LEFT: u32 = 64;

impl Run<'_> {
    /// Reads everything, in pieces in some order.
    pub(super) fn verify(&mut self) -> Result<(), Finding> {
        let sectors = self.device()?.size() / 512;
        let block = u64::from(self.device()?.geometry().limits.logical_block) / 512;
        let piece = (sectors / 12).next_multiple_of(block).max(block);
        let pieces = sectors.div_ceil(piece);
        for turn in 0..pieces {
            let at = (turn * 5 + 3) % pieces;
            let at = if pieces.is_multiple_of(5) { turn } else { at } * piece;
            let made = self.reading(at, piece.min(sectors - at))?;
            let polled = self.polled();
            match polled.get(turn as usize % polled.len().max(1)) {
                Some(&lane) => self.send_one(lane, made)?,
                None => return Ok(()),
            }
        }
        self.settle()
    }

    pub(super) fn end(&mut self) -> Result<(), Finding> {
        self.supply.cancel();
        self.neglect_nothing();
        self.settle()?;
        self.notice_cut()?;
        self.restore_sizes()?;
        self.mend()?;
        self.work_again()?;
        self.verify()?;
        self.let_checks_end()?;
        self.look_at_gauges()?;
        self.last_cut()?;
        self.close_for_good()
    }

    /// Ends all misfortune.
    fn mend(&mut self) -> Result<(), Finding> {
        for disk in &self.disks {
            disk.set_faults(None);
            disk.release_stuck();
        }
        let ports = self.open.iter().flat_map(|open| &open.ports);
        ports.for_each(|port| port.set_faults(FaultPlan::default()));
        self.drain(AGAIN)?;
        self.accept_all()?;
        for round in 0..LEFT {
            // What a target does for a request that a dropped lane has left goes on by one step each time that the queue is run:
            // before the target gives it up, in most rounds.
            let patience = if round % 4 == 3 { AGAIN } else { SOON };
            // Runs the shared queue, so that it processes the completions of the disks, and that a disk which was failed goes on.
            let (flush, failed) = (self.healthy(Op::Flush)?, self.cover.failed);
            self.start_one(flush)?;
            self.settle()?;
            // It may also have dispatched requests that a dropped lane had left in that queue, as many as the disk takes at once.
            self.drain(patience)?;
            if self.is_quiet()? && self.cover.failed == failed {
                break;
            }
            self.acknowledge()?;
            if self.may_be_late() {
                // A layer's own write that an elevator holds back is with no disk.
                self.live_on(patience)?;
            }
        }
        if self.plan.features.has(Feature::Paths) {
            // A layer over several paths asks for paths that were away once in a while.
            self.live_on(AGAIN)?;
        }
        self.judged.mended();
        self.oracle.quiesce();
        self.acknowledge()?;
        // An elevator may have been told to wait for minutes.
        self.switch(None)
    }

    /// Advances time until the disks have ended all commands and, for at most `patience`, the queues have none either.
    fn drain(&mut self, patience: Span) -> Result<(), Finding> {
        let (limit, quiet) = (self.now() + QUIET, self.now() + patience);
        loop {
            self.poll()?;
            let empty = self.disks.iter().all(|disk| disk.inside().is_empty());
            if empty && (self.now() >= quiet || self.is_quiet()?) {
                return Ok(());
            }
            let event = self.world.next_event().filter(|&at| at > self.now());
            let soon = self.next().filter(|&at| at > self.now());
            let next = Time::earliest(event, soon).unwrap_or(limit).min(if empty { quiet } else { limit });
            self.world.clock().advance_to(next);
            self.disks.iter().for_each(SimDisk::settle);
            if self.now() >= limit {
                let inside: Vec<_> = self.disks.iter().map(SimDisk::inside).collect();
                return Err(Finding::new(
                    "inside",
                    format!("the disks never end what they have: {inside:?}"),
                ));
            }
        }
    }

    /// The counts of an idle device are zero. A cache writes back by itself.
    /// A path may be checked at any moment. The I/O of a layer's own work is taken in by the next one of the program.
    fn let_checks_end(&mut self) -> Result<(), Finding> {
        let mut left = if self.plan.features.has(Feature::Paths) { LEFT } else { 0 };
        while left > 0 && self.device()?.statistics().gauges != Gauges::default() {
            self.live_on(Span::from_secs(1))?;
            self.works(Op::Read, None)?;
            left -= 1;
        }
        Ok(())
    }

    fn look_at_gauges(&self) -> Result<(), Finding> {
        let gauges = self.device()?.statistics().gauges;
        match gauges == Gauges::default() || self.stack().has("cache") {
            true => Ok(()),
            false => {
                Err(Finding::new("gauges", format!("nothing is under way, and the device counts {gauges:?}")))
            }
        }
    }

    /// Whether no queue still holds requests of dropped channels and futures, and no target commands that are not with its disk, for
    /// example because they are about to be sent again.
    fn is_quiet(&self) -> Result<bool, Finding> {
        let is_seen = self.plan.disks.iter().all(|disk| disk.transport.is_none());
        let sees_all = is_seen && !self.judged.dropped && !self.judged.future_dropped;
        Ok(sees_all || self.device()?.statistics().gauges == Gauges::default())
    }

    /// Checks that I/O through each interface succeeds within its time limit.
    fn work_again(&mut self) -> Result<(), Finding> {
        let lanes = self.open.as_ref().map_or(0, |open| open.lanes.len());
        for lane in 0..lanes {
            for op in [Op::Write, Op::Read, Op::Flush] {
                self.works(op, Some(lane))?;
            }
        }
        for op in [Op::Write, Op::Read, Op::Flush] {
            self.works(op, None)?;
        }
        self.fill_depth()
    }

    /// One I/O on a channel or as a future, retried as often as an earlier error may still be reported.
    fn works(&mut self, op: Op, lane: Option<usize>) -> Result<(), Finding> {
        // Layers `error` fail this often by design, and each handle gets an error of write-back once.
        let tries = 3 + 3 * FAILURES;
        for last in (0..tries).rev() {
            let owes = self.silence.owes();
            let made = self.healthy(op)?;
            let (token, began, failed) = (made.0, self.now(), self.cover.failed);
            match lane {
                Some(at) => self.send_one(at, made)?,
                None => self.start_one(made)?,
            }
            self.settle()?;
            let took = self.now().since(began);
            if took > HEALTHY {
                let what = format!(
                    "{op} {token} took {} ms on a device with which nothing is wrong",
                    took.as_millis()
                );
                return Err(Finding::new("slow", what));
            }
            if self.cover.failed == failed {
                return Ok(());
            }
            if last == 0 || !(self.may_fail_late() || owes) {
                break;
            }
            self.acknowledge()?;
            // A cache retries after its own interval.
            self.live_on(AGAIN)?;
        }
        Err(Finding::new("broken", format!("a {op} fails on a device with which nothing is wrong any more")))
    }

    /// Whether an earlier error may still be reported.
    fn may_fail_late(&self) -> bool {
        self.stack().has("cache") || self.stack().has("error")
    }

    fn healthy(&mut self, op: Op) -> Result<(u64, Bio, Live), Finding> {
        let io = Io {
            op,
            at: 0,
            blocks: 0,
            flags: Flags::NONE,
            deadline: None,
            layout: Layout::Whole,
            context: Context::default(),
            ioprio: IoPrio::NONE,
            handle: None,
            again: false,
            unsound: None,
            lent: false,
        };
        let block = u64::from(self.device()?.geometry().limits.logical_block) / 512;
        let count = block.min(self.device()?.size() / 512);
        let (sector, count) = if op == Op::Flush { (0, 0) } else { (0, count) };
        self.made(&io, sector, count)
    }

    /// Checks that a disk takes as many concurrent commands as before the faults.
    fn fill_depth(&mut self) -> Result<(), Finding> {
        // Layers may let fewer through.
        if self.stack().kind() != "disk" || self.bug.is_some() {
            return Ok(());
        }
        let disk = &self.plan.disks[0].settings.queue;
        let block = u64::from(self.device()?.geometry().limits.logical_block) / 512;
        let blocks = self.device()?.size() / 512 / block;
        let depth = u64::from(disk.depth.min(self.disks[0].depth())).min(blocks);
        let mut most = 0;
        for at in 0..blocks.min(2 * depth + 8) {
            let mut made = self.reading(at * block, block)?;
            made.1.add_flags(Flags::NOMERGE);
            self.send_one(0, made)?;
            most = most.max(self.disks[0].inside().len() as u64);
        }
        self.settle()?;
        match most >= depth {
            true => Ok(()),
            false => {
                Err(Finding::new("depth", format!("{most} requests at once reach a disk of depth {depth}")))
            }
        }
    }

    /// Checks that flushed data survives a power cut that loses everything else.
    fn last_cut(&mut self) -> Result<(), Finding> {
        if !self.plan.features.has(Feature::Cuts) {
            return Ok(());
        }
        self.works(Op::Flush, Some(0))?;
        self.supply.cut(self.now(), Survivors::None);
        self.notice_cut()
    }

    fn close_for_good(&mut self) -> Result<(), Finding> {
        self.look_at_returned()?;
        self.spare.clear();
        self.close()?;
        let left = self.alive.load(Ordering::Relaxed);
        if left > 0 {
            return Err(Finding::new("memory", format!("the memory of {left} I/Os was never freed")));
        }
        self.cover.virtual_ms += self.now().0 / 1_000_000;
        self.cover.faults(&self.injected());
        Ok(())
    }

    fn start_one(&mut self, made: (u64, Bio, Live)) -> Result<(), Finding> {
        self.start(vec![made], false)
    }
}
