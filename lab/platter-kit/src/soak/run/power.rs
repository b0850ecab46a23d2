//! Power cuts, and closing and opening the device.

use super::judge::least_timeout;
use super::{Finding, Run};
use crate::soak::memory::ask_when_freed;
use crate::soak::stamp::{self, SECTOR};
use platter_block::time::Span;
use platter_sim::SimDisk;
use platter_sim::power::Survivors;
use std::ops::Range;

/// How long a layer that is closed waits for disks that complete nothing, as `docs/promises.md` says.
const PATIENCE: Span = Span::from_secs(30);

impl Run<'_> {
    pub(super) fn plan_cut(&mut self, survivors: u64, after: Result<u64, Span>) {
        let survivors = Survivors::Seeded(survivors);
        match after {
            Ok(commands) => self.supply.cut_after(commands, survivors),
            Err(span) => self.supply.cut_at(self.now() + span, survivors),
        }
    }

    /// If power was cut: completes all I/O with errors, opens the device again, and checks its contents.
    pub(super) fn notice_cut(&mut self) -> Result<(), Finding> {
        if self.supply.is_on() {
            return Ok(());
        }
        self.say(|| "power is cut".to_owned());
        self.neglect_nothing();
        self.settle()?;
        self.close()?;
        self.recover()
    }

    /// Power was cut and the device is closed: turns power on, opens the device and checks its contents.
    fn recover(&mut self) -> Result<(), Finding> {
        self.oracle.cut();
        self.disks.iter().for_each(SimDisk::settle);
        for report in self.supply.take_reports() {
            self.cover.cuts += 1;
            self.cover.cuts_in_flush += u64::from(report.flushes > 0);
            self.cover.cuts_in_write += u64::from(report.writes > 0);
            self.cover.torn_writes += report.torn;
            self.cover.sectors_lost += report.lost.iter().count() as u64;
        }
        self.supply.restore();
        self.judged.cut();
        self.forget_silence();
        self.open()?;
        self.verify()
    }

    /// From now on all channels are polled.
    pub(super) fn neglect_nothing(&mut self) {
        self.open.iter_mut().flat_map(|open| &mut open.lanes).for_each(|lane| lane.neglected = 0);
    }

    /// Closes the device, also with I/O in flight, and opens it again.
    pub(super) fn reopen(&mut self) -> Result<(), Finding> {
        // Commands inside the disks may take effect at any time, and no queue knows them any more.
        self.neglect_nothing();
        self.settle()?;
        self.look_for_silence();
        // A disk that stays failed (`on_return=stay`) takes no more, although it has returned everything.
        let (before, held, since) =
            (self.injected().total(), self.is_held() || self.may_be_failed(), self.now());
        self.close()?;
        // An elevator may idle for long, if it is told to.
        let slow = self.now().since(since) >= self.patience();
        self.end_commands();
        self.cover.reopened += 1;
        self.judged.reopened(self.still_inside());
        self.forget_silence();
        self.oracle.forget_late();
        let failed = held
            || slow
            || self.injected().total() > before
            || self.stack().has("error")
            || self.has_resized();
        if self.stack().holds_unflushed() && failed {
            // The layer has tried once to write back what it had in memory, for a limited time, and cannot report a failure.
            self.oracle.lose_unflushed(self.is_held());
        }
        if let Err(finding) = self.open() {
            // A snapshot reads its store when it is opened, and power may be cut then.
            return if self.supply.is_on() { Err(finding) } else { self.recover() };
        }
        self.leave_behind();
        Ok(())
    }

    /// How long a layer that is closed waits at least for a disk that completes nothing.
    fn patience(&self) -> Span {
        least_timeout(self).map_or(PATIENCE, |least| least.min(PATIENCE))
    }

    /// Waits for what disks still carry out for a closed snapshot. A file stays locked until then, because a late write of the
    /// table could replace a newer one of the device that is opened next.
    fn end_commands(&mut self) {
        while self.stack().has("snapshot") && self.is_held() {
            self.world.clock().advance_to(self.now() + Span::from_secs(1));
            self.disks.iter().for_each(SimDisk::settle);
        }
    }

    /// Tells the oracle which writes of a closed cache are still in the disks. A cache has its own memory, so a bio
    /// may end at its deadline while the disk has its data; and it writes a page from its first dirty block to its
    /// last, so a command may write old contents again. Other layers leave no writes that the program does not know.
    fn leave_behind(&mut self) {
        let Some(open) = &self.open else { return };
        if !self.stack().has("cache") {
            return;
        }
        for (disk, state) in self.disks.iter().enumerate() {
            for inside in state.inside().into_iter().filter(|inside| inside.op.changes() && !inside.landed) {
                let here = |at: u64| {
                    let on = inside.sector + at;
                    open.map.iter().position(|&place| place == (disk, on)).map(|sector| (at, sector as u64))
                };
                for (at, sector) in (0..inside.sectors).filter_map(here) {
                    let data = inside.data.chunks(SECTOR).nth(at as usize);
                    let content = data.map_or(0, |data| stamp::version_of(data, sector));
                    self.oracle.leave_behind(sector, content);
                }
            }
        }
    }

    /// Whether a disk still has commands.
    fn is_held(&self) -> bool {
        self.disks.iter().any(|disk| !disk.inside().is_empty())
    }

    /// Ranges that the disks may still change: disk and sectors.
    fn still_inside(&self) -> Vec<(usize, Range<u64>)> {
        let of = |(at, disk): (usize, &SimDisk)| {
            let changes = disk.inside().into_iter().filter(|inside| inside.op.changes() && !inside.landed);
            changes.map(move |inside| (at, inside.sector..inside.sector + inside.sectors)).collect::<Vec<_>>()
        };
        self.disks.iter().enumerate().flat_map(of).collect()
    }

    /// Drops the device, after reading its counters.
    pub(super) fn close(&mut self) -> Result<(), Finding> {
        self.look_at_elevators()?;
        self.look_for_order()?;
        self.order.clear();
        let Some(open) = self.open.take() else { return Ok(()) };
        let counts = open.device.counters();
        self.cover.merges += counts.back_merges + counts.front_merges + counts.request_merges;
        self.cover.splits += counts.splits;
        self.cover.requeues += counts.requeues;
        self.cover.timeouts += counts.timeouts;
        self.cover.flushes_coalesced += counts.flushes_coalesced;
        self.cover.bytes_bounced += counts.bytes_bounced;
        self.cover.late_closes += u64::from(self.is_slow_now());
        let left: Vec<u64> = self.live.keys().copied().collect();
        left.into_iter().for_each(|token| self.lose(token));
        self.watch_call("closing the device".to_owned());
        // The last owner of a device closes it, and that must not be a destructor inside it.
        ask_when_freed(None);
        drop(open);
        self.world.end_call();
        Ok(())
    }
}
