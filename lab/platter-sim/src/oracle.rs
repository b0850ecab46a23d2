//! An oracle: which contents a device may hold and return, derived only from the I/Os that the program submits and
//! sees complete.
//!
//! It keeps, for each sector, the versions that were written to it and when each was submitted and completed, counted
//! in events. From these it derives which versions a read may return:
//!
//! - Version A is before version B if A had completed when B was submitted, if a barrier was submitted between them,
//!   if a read that began after A completed returned B, or if A was [late](Outcome::Late) when B was submitted and B
//!   succeeded.
//! - A read returns no version that is before one which had completed when the read was submitted, and none from the
//!   other side of a barrier.
//! - After a power cut no sector has a version that is before a durable one. Durable is a completed write with
//!   FUA or a hard barrier, one that completed before a completed flush of its sector was submitted, one before a
//!   completed hard barrier, and, on a device without a write cache, each completed write.
//! - If data that was submitted after a barrier survives a cut, everything before the barrier survives too, unless
//!   the barrier failed. A discard that succeeds after a change before the barrier failed because of the cut needed no
//!   disk, since there was nothing to discard: it proves nothing.
//! - Contents that were read after a cut do not change by themselves.
//! - A write that was [late](Outcome::Late) cannot change the device any more once a later I/O to the same sector or a
//!   later flush has succeeded.
//! - When a device with a page cache is closed and cannot write everything back, writes that no flush has covered may
//!   be lost; durable data is not.
//! - Commands of a closed device that are still in a disk may take effect at any time, because the next device does
//!   not know them.
//! - Sectors that were [lost](Oracle::lose) are zeroes, or hold data that was in flight then.
//! - Where the data of a failed write is [dropped](Oracle::that_drops), a read that was in flight when the write failed
//!   may return it, whatever other reads have returned since.
//! - No part of a write that was [not carried out](Outcome::Untouched) is ever on the device.
//! - After a cut an atomic write is on the device completely or not at all.
//!
//! Contents are numbers of the caller's, one for each sector; 0 are zeroes, which is what the device holds at
//! first, and what discards and write-zeroes leave.

use platter_block::bio::Op;
use sector::{Now, Sector, Version};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

mod sector;

/// An I/O as the program submits it, in sectors.
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a> {
    /// What to do.
    pub op: Op,
    /// First sector.
    pub sector: u64,
    /// Sectors; 0 for a flush of everything.
    pub count: u64,
    /// The data of a write, one number for each sector; empty for other operations.
    pub contents: &'a [u64],
    /// Durable on completion.
    pub fua: bool,
    /// A flush before its data.
    pub preflush: bool,
    /// A hard barrier.
    pub hard: bool,
    /// A barrier that keeps order and makes nothing durable. On a single disk a soft barrier guarantees less.
    pub soft: bool,
    /// All or nothing after a power cut.
    pub atomic: bool,
    /// The [moment](Oracle::moment) at which the program gave it to a channel that it polls later; `None`: now. It does not wait for
    /// what became late in between.
    pub since: Option<u64>,
}

impl Submission<'_> {
    /// An I/O without contents and flags.
    pub fn new(op: Op, sector: u64, count: u64) -> Submission<'static> {
        let (fua, preflush, hard, soft, atomic) = (false, false, false, false, false);
        Submission { op, sector, count, contents: &[], fua, preflush, hard, soft, atomic, since: None }
    }
}

/// How an I/O ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Done,
    /// It failed. A write may have happened in part.
    Failed,
    /// It failed, and was not carried out, not even in part.
    Untouched,
    /// It failed, and may still happen, at any time.
    Abandoned,
    /// It failed because its deadline passed, and may still happen until the driver returns it. The device's handle holds later
    /// I/O to its sectors back until then.
    Late,
    /// It failed because power was cut. A write may have happened in part.
    CutOff,
}

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Where.
    pub sector: u64,
    /// What is there.
    pub found: u64,
    /// What may be there.
    pub permitted: Vec<u64>,
    /// Why.
    pub rule: Rule,
}

/// The rule that was violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// No write wrote these contents.
    NeverWritten,
    /// The contents are those of a write that failed and reported that it was not carried out.
    Untouched,
    /// The contents are still on their way to the device, which acknowledged newer ones.
    Late,
    /// After a power cut a part of an atomic write is on the device, and another part is not.
    Torn,
    /// A read returned contents that had been overwritten, or not yet written.
    Stale,
    /// After a power cut durable data is missing.
    Lost,
    /// After a power cut data from after a hard barrier is on the device, and data from before it is not.
    Order,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = match self.rule {
            Rule::NeverWritten => "was never written there",
            Rule::Untouched => "is of a write that failed as not carried out",
            Rule::Late => "can still reach the device, which has acknowledged what is newer",
            Rule::Torn => "is there after the power cut without the rest of its atomic write",
            Rule::Stale => "was overwritten before the read, or not written yet",
            Rule::Lost => "should not be there after the power cut: something durable is lost",
            Rule::Order => "is older than what a hard barrier promises, of which something later survived",
        };
        write!(f, "sector {}: {:#x} {rule}; permitted:", self.sector, self.found)?;
        self.permitted.iter().try_for_each(|content| write!(f, " {content:#x}"))
    }
}

impl std::error::Error for Violation {}

struct Pending {
    op: Op,
    sector: u64,
    count: u64,
    start: u64,
    /// When the program gave it to a channel.
    since: u64,
    place: u64,
    fua: bool,
    preflush: bool,
    hard: bool,
    barrier: bool,
}

impl Pending {
    /// The sectors of a write, a read or a flush of a range; for a flush of everything all there are.
    fn range(&self) -> Range<u64> {
        if self.op == Op::Flush && self.count == 0 {
            0..u64::MAX
        } else {
            self.sector..self.sector + self.count
        }
    }

    /// What it makes durable when it succeeds; a preflush covers everything.
    fn flushes(&self) -> Range<u64> {
        if self.op == Op::Flush && !self.hard { self.range() } else { 0..u64::MAX }
    }
}

/// See the [module](self).
pub struct Oracle {
    /// Completed writes may be lost until a flush.
    cache: bool,
    /// Reads may be answered from memory, independently of the disk.
    remembers: bool,
    /// The data of a write is readable until the write fails, and not afterwards.
    drops: bool,
    now: u64,
    /// Power cuts.
    session: u32,
    /// Place in the order of barriers: odd between barriers, even at a barrier.
    place: u64,
    /// Barriers that failed for other reasons than a cut, by place.
    void: Vec<u64>,
    /// After a cut: everything with a place below this one is proved to have survived.
    proved: u64,
    /// The first place of a change that failed because of a cut, since the last one.
    cut_off: u64,
    sectors: BTreeMap<u64, Sector>,
    pending: BTreeMap<u64, Pending>,
    /// By atomic write: whether a part of it survived a cut, and whether a part was lost.
    atoms: BTreeMap<u64, (bool, bool)>,
}

impl Oracle {
    /// The oracle of a device of zeroes, with or without a write cache.
    pub fn new(write_cache: bool) -> Oracle {
        Oracle {
            cache: write_cache,
            remembers: false,
            drops: false,
            now: 0,
            session: 0,
            place: 1,
            void: Vec::new(),
            proved: 0,
            cut_off: u64::MAX,
            sectors: BTreeMap::new(),
            pending: BTreeMap::new(),
            atoms: BTreeMap::new(),
        }
    }

    /// The device has a page cache: the result of a read says nothing about a late write below the cache.
    #[must_use]
    pub fn that_remembers(self, remembers: bool) -> Oracle {
        Oracle { remembers, ..self }
    }

    /// The device has a page cache that writes through: reads see the data of a write before the disk has it, and it is
    /// dropped if the disk fails the write.
    #[must_use]
    pub fn that_drops(self, drops: bool) -> Oracle {
        Oracle { drops, ..self }
    }

    /// This moment, for [`Submission::since`].
    pub fn moment(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// The program submits an I/O under a number that it has not used before. Several that it submits as one
    /// batch come in their order.
    pub fn submit(&mut self, id: u64, io: &Submission<'_>) {
        self.now += 1;
        let barrier = io.hard || io.soft;
        self.place += u64::from(barrier);
        let pending = Pending {
            op: io.op,
            sector: io.sector,
            count: io.count,
            start: self.now,
            since: io.since.unwrap_or(self.now),
            place: self.place,
            fua: io.fua || io.hard,
            preflush: io.preflush || io.hard || io.op == Op::Flush,
            hard: io.hard,
            barrier,
        };
        if io.op.changes() {
            let oldest = self.oldest_read();
            for index in 0..io.count {
                let content = io.contents.get(index as usize).copied().unwrap_or(0);
                let mut version = Version::new(id, content, self.now, self.place, self.session, io.atomic);
                version.submitted = pending.since;
                self.sectors.entry(io.sector + index).or_default().add(version, oldest);
            }
        }
        self.place += u64::from(barrier);
        self.pending.insert(id, pending);
    }

    /// When the oldest read in flight was submitted.
    fn oldest_read(&self) -> u64 {
        let reads = self.pending.values().filter(|pending| pending.op == Op::Read);
        reads.map(|pending| pending.start).min().unwrap_or(u64::MAX)
    }

    /// Records the end of an I/O that returned no data. An unknown I/O is ignored.
    pub fn complete(&mut self, id: u64, outcome: Outcome) {
        self.now += 1;
        let Some(pending) = self.pending.remove(&id) else { return };
        if pending.op.changes() {
            let durable = outcome == Outcome::Done && (pending.fua || !self.cache);
            // The power was off, so it reached no disk.
            let idle = pending.op == Op::Discard && outcome == Outcome::Done && pending.place > self.cut_off;
            for sector in pending.sector..pending.sector + pending.count {
                if let Some(sector) = self.sectors.get_mut(&sector) {
                    sector.end(id, self.now, outcome, durable);
                    if idle {
                        sector.prove_nothing(id);
                    }
                }
            }
            if outcome == Outcome::CutOff {
                self.cut_off = self.cut_off.min(pending.place);
            }
        }
        match outcome {
            Outcome::Done if pending.preflush => self.flushed(&pending),
            Outcome::Failed | Outcome::Abandoned | Outcome::Late if pending.preflush => {
                self.sectors.values_mut().for_each(Sector::flush_failed);
            }
            _ => {}
        }
        if pending.barrier && !matches!(outcome, Outcome::Done | Outcome::CutOff) {
            self.void.push(pending.place);
        }
    }

    /// A barrier that is about to complete failed without any effect: I/O before it and after it has no order.
    pub fn unorder(&mut self, id: u64) {
        let Some(barrier) = self.pending.get(&id).filter(|pending| pending.barrier).map(|p| p.place) else {
            return;
        };
        let collapse = |place: &mut u64| {
            if *place >= barrier {
                *place -= if *place == barrier { 1 } else { 2 };
            }
        };
        self.pending.values_mut().for_each(|pending| collapse(&mut pending.place));
        self.sectors.values_mut().for_each(|sector| sector.places(collapse));
        self.void.iter_mut().for_each(collapse);
        collapse(&mut self.place);
        collapse(&mut self.proved);
        if self.cut_off != u64::MAX {
            collapse(&mut self.cut_off);
        }
        if let Some(pending) = self.pending.get_mut(&id) {
            (pending.barrier, pending.hard) = (false, false);
        }
    }

    fn flushed(&mut self, flush: &Pending) {
        let place = if flush.hard { flush.place } else { 0 };
        let (now, session) = (self.now, self.session);
        for (_, sector) in self.sectors.range_mut(flush.flushes()) {
            sector.flushed(flush.start, place, session);
            sector.returned(flush.start, now);
        }
    }

    /// Records a successful read with these contents.
    ///
    /// # Errors The first sector with contents that are not allowed.
    pub fn complete_read(&mut self, id: u64, contents: &[u64]) -> Result<(), Violation> {
        self.now += 1;
        let Some(pending) = self.pending.remove(&id) else { return Ok(()) };
        if pending.preflush {
            self.flushed(&pending);
        }
        let mut proved = self.proved;
        for (at, &content) in (pending.sector..pending.sector + pending.count).zip(contents) {
            let now = self.at(&pending);
            let sector = self.sectors.entry(at).or_default();
            let place = sector.read(at, content, &now, &mut self.atoms)?;
            proved = proved.max(place.map_or(0, |place| barrier_below(place, &self.void)));
            if self.atoms.values().any(|&atom| atom == (true, true)) {
                return Err(Violation {
                    sector: at,
                    found: content,
                    permitted: Vec::new(),
                    rule: Rule::Torn,
                });
            }
        }
        self.prove(proved)
    }

    fn at(&self, pending: &Pending) -> Now {
        Now { since: pending.since, ..self.reading(pending.start, pending.place, self.now) }
    }

    /// A read that was submitted at `start` with this place in the order, and completes at `at`.
    fn reading(&self, start: u64, place: u64, at: u64) -> Now {
        let (session, proved, drops) = (self.session, self.proved, self.drops);
        Now { start, since: start, place, session, proved, at, settles: !self.remembers, drops }
    }

    /// Everything with a place below `proved` has survived, so no read may have returned older contents.
    fn prove(&mut self, proved: u64) -> Result<(), Violation> {
        if proved <= self.proved {
            return Ok(());
        }
        self.proved = proved;
        let session = self.session;
        self.sectors.iter().try_for_each(|(&at, sector)| sector.check_pinned(at, session, proved))
    }

    /// Power was cut. All I/O in flight must have been completed before, as [`Outcome::CutOff`] where the cut was the
    /// reason.
    pub fn cut(&mut self) {
        self.now += 1;
        let (now, session, proved) = (self.now, self.session, self.proved);
        let left: Vec<u64> = std::mem::take(&mut self.pending).into_keys().collect();
        for sector in self.sectors.values_mut() {
            left.iter().for_each(|&id| sector.end(id, now, Outcome::CutOff, false));
            sector.cut(now, session, proved);
        }
        self.session += 1;
        (self.proved, self.cut_off) = (0, u64::MAX);
        self.atoms.clear();
    }

    /// A part of a write is still on its way to the device at `sector`. `cached`: the device has a cache that may
    /// write back old versions as long as no newer one is durable.
    ///
    /// # Errors
    /// [`Rule::Late`]: it would overwrite what was acknowledged.
    pub fn may_land(&self, sector: u64, content: u64, cached: bool) -> Result<(), Violation> {
        let now = (self.session, self.proved);
        self.sectors.get(&sector).map_or(Ok(()), |versions| versions.may_land(sector, content, cached, now))
    }

    /// The device was opened again: its handle does not know any more which I/O is [late](Outcome::Late), so later I/O does
    /// not wait for it.
    pub fn forget_late(&mut self) {
        self.sectors.values_mut().for_each(Sector::forget_late);
    }

    /// The device was closed, and its page cache may have failed to write back what no flush had covered: each of
    /// those writes may have reached the disk or not. `may_land`: the disks still have commands, so that it may also
    /// reach the disk later.
    pub fn lose_unflushed(&mut self, may_land: bool) {
        let session = self.session;
        self.sectors.values_mut().for_each(|sector| sector.lose_unflushed(session, may_land));
    }

    /// The device was closed while a disk still had a command that brings `content` to `sector`. The device that is
    /// opened next does not know it, so `content` may appear at any time, whatever else is written.
    pub fn leave_behind(&mut self, sector: u64, content: u64) {
        self.now += 1;
        let (now, session) = (self.now, self.session);
        self.sectors.entry(sector).or_default().leave_behind(content, now, session);
    }

    /// The contents of these sectors are lost, as where a disk shrank: they hold zeroes, unless a command in flight
    /// writes there. `id` is a number that was not used before. Where reads are [remembered](Oracle::that_remembers)
    /// they may also return the lost contents.
    pub fn lose(&mut self, id: u64, sectors: &[u64]) {
        self.now += 2;
        let lost = Version::lost(id, self.now, self.session, !self.remembers);
        let oldest = self.oldest_read();
        for sector in sectors {
            self.sectors.entry(*sector).or_default().add(lost.clone(), oldest);
        }
    }

    /// No I/O is in flight any more, including what was [abandoned](Outcome::Abandoned).
    pub fn quiesce(&mut self) {
        self.now += 1;
        let now = self.now;
        self.sectors.values_mut().for_each(|sector| sector.quiesce(now));
    }

    /// The contents that a read of `sector`, submitted and completed now, may return.
    pub fn permitted(&self, sector: u64) -> Vec<u64> {
        let now = self.reading(self.now + 1, self.place, self.now + 1);
        self.sectors.get(&sector).map_or_else(|| vec![0], |sector| sector.permitted(&now))
    }

    /// Sectors that were written to.
    pub fn sectors(&self) -> impl Iterator<Item = u64> + '_ {
        self.sectors.keys().copied()
    }
}

/// The place below which everything has survived if data with `place` has: that of the last barrier that the data had
/// to wait for, including the barrier unless it is itself the data found.
fn barrier_below(place: u64, void: &[u64]) -> u64 {
    let mut barrier = place - place % 2;
    while void.contains(&barrier) {
        barrier -= 2;
    }
    match barrier {
        0 => 0,
        _ if barrier == place => barrier,
        _ => barrier + 1,
    }
}

#[cfg(test)]
mod tests;
