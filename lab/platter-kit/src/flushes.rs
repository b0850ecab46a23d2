//! Flushes, and FUA of writes, that disks acknowledge and do not carry out, to test the test.

use super::trial::Cut;
use super::{Failure, Kit, Outcome, Summary};
use platter_block::bio::Op;
use platter_sim::SimDisk;
use platter_sim::fault::{DroppedFlushes, FaultPlan};

/// Which flushes of the engine the disks acknowledge without carrying them out. A write with FUA
/// ([`Flags::FUA`](platter_block::bio::Flags::FUA)) counts as a flush of itself: if it is dropped, the write is one without FUA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flushes {
    /// None: the disks carry out every flush.
    #[default]
    Honest,
    /// One flush, or the FUA of one write, of one disk is dropped.
    DropOne {
        /// The disk, from 0.
        disk: u32,
        /// The flush or write with FUA: both are counted together on this disk, from 0 since the engine began.
        nth: u64,
    },
    /// All of them are dropped, on all disks.
    DropAll,
}

impl Flushes {
    /// Has the disks of a trial behave like this from now on.
    pub(super) fn apply(self, disks: &[SimDisk]) {
        let plan = |dropped_flushes| Some(FaultPlan { dropped_flushes, ..FaultPlan::default() });
        match self {
            Flushes::Honest => {}
            Flushes::DropOne { disk, nth } => {
                if let Some(disk) = disks.get(disk as usize) {
                    disk.set_faults(plan(DroppedFlushes::Nth(nth)));
                }
            }
            Flushes::DropAll => disks.iter().for_each(|disk| disk.set_faults(plan(DroppedFlushes::All))),
        }
    }
}

/// What became of a run in which one flush, or the FUA of one write, was dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DroppedFlush {
    /// The disk of the flush.
    pub disk: u32,
    /// The flush or write with FUA: both are counted together on this disk, from 0.
    pub nth: u64,
    /// It is a write with FUA.
    pub fua: bool,
    /// The I/O of the engine that it is, counted from 0 over all disks.
    pub io: u64,
    /// Writes of this disk since the flush before, which this one would have made durable; 1 for a write with FUA, itself.
    pub writes: u64,
    /// Power cuts that were tried.
    pub cuts: u64,
    /// The failure by which the check noticed. `None`: nothing was found; the flush is not necessary, or the
    /// engine's run or the check does not show that it is.
    pub found: Option<Failure>,
}

impl<D> Kit<D> {
    /// Drops each flush of the engine in turn, and the FUA of each write that has it, and cuts power at each I/O that it would
    /// have protected: those before the next flush of the same disk completes. Shows which of them the check would miss.
    ///
    /// At each of these the kit also loses [each write](Kit::each_write). Power is not cut during recovery, and
    /// failures are reported as found, without making them smaller.
    ///
    /// # Errors
    /// The engine or the check fails without a cut.
    pub fn drop_each_flush<S: Default>(
        &self,
        engine: impl Fn(&D, &mut S) -> Outcome,
        check: impl Fn(&D, &S) -> Outcome,
    ) -> Result<Vec<DroppedFlush>, Failure> {
        if self.is_of_one_trial(&engine, &check) {
            return Ok(Vec::new());
        }
        let honest = self.clone().flushes(Flushes::Honest);
        let mut summary = Summary::default();
        let whole = honest.first(&mut summary, &|cut: &Cut| honest.trial(cut, &engine, &check))?;
        let taken: Vec<_> = whole.trace.iter().copied().collect();
        let is_flush = |disk: u32, io: usize| taken[io].disk == disk && taken[io].op == Op::Flush;
        let mut all = Vec::new();
        for (io, flush) in taken.iter().enumerate().filter(|(_, taken)| taken.is_durable()) {
            let (disk, fua) = (flush.disk, flush.fua);
            let since = (0..io).rev().find(|&io| is_flush(disk, io)).map_or(0, |io| io + 1);
            let since = if fua { io..io + 1 } else { since..io };
            let writes = taken[since].iter().filter(|one| one.disk == disk && one.op.changes()).count();
            let end = (io + 1..taken.len()).find(|&io| is_flush(disk, io)).unwrap_or(taken.len());
            let nth = taken[..io].iter().filter(|one| one.disk == disk && one.is_durable()).count() as u64;
            let kit = Kit { shrink_tries: 0, recovery_tries: 0, ..honest.clone() }
                .each_write()
                .flushes(Flushes::DropOne { disk, nth });
            let trial = |cut: &Cut| kit.trial(cut, &engine, &check);
            let mut places = whole.trace.changes(io as u64 + 1);
            places.push(taken.len() as u64);
            places.retain(|&place| place <= end as u64);
            let mut summary = Summary::default();
            let found =
                places.into_iter().try_for_each(|io| kit.cut_at(io, &whole, &mut summary, &trial)).err();
            let (writes, cuts) = (writes as u64, summary.cuts);
            all.push(DroppedFlush { disk, nth, fua, io: io as u64, writes, cuts, found });
        }
        Ok(all)
    }
}
