//! Flushes: through every path that has carried writes, one at a time, and what is known of those that failed.

use super::Multipath;
use super::identity::{is_of_path, was_not_delivered};
use platter_block::defect::{self, Defect};
use platter_block::fault::{Fault, Kind, Stage, Status};
use std::sync::Arc;

/// What is known of flushes.
#[derive(Default)]
pub(super) struct Flushes {
    /// What later flushes repeat, through whatever path, until it is acknowledged: the disk may have lost writes of any path.
    failed: Option<Fault>,
    /// How many have begun, and which of them was the last one to succeed.
    begun: u64,
    succeeded: u64,
}

impl Flushes {
    /// The program accepts that what was written before a failed flush may be lost.
    pub(super) fn acknowledge(&mut self) {
        self.failed = None;
    }
}

/// Whether a flush that failed so may have lost what was written before. The fault of a path has not, since another path, or the
/// next flush, covers that; nor has a refusal because of a range in doubt.
fn may_have_lost(fault: Fault) -> bool {
    !is_of_path(fault) && !was_not_delivered(fault) && fault.kind != Kind::InDoubt
}

impl Multipath {
    /// Flushes the disk when the flushes before have ended. If two were on the way, one could report as durable what the
    /// failure of the other has lost: a disk tells such a failure once, through one path.
    pub(super) async fn flush_in_turn(self: &Arc<Self>) -> Status {
        if !self.state().doubts.is_empty() {
            return Err(Fault::new(Kind::InDoubt, Stage::Layer));
        }
        // Whatever has completed by now is covered by any flush that begins later.
        let first = self.state().flushes.begun + 1;
        let _turn = self.turn.take().await;
        if let Some(status) = self.known_already(first) {
            return status;
        }
        let number = {
            let mut state = self.state();
            state.flushes.begun += 1;
            state.flushes.begun
        };
        let result = self.flush_dirty().await;
        if result.is_ok() {
            self.state().flushes.succeeded = number;
        }
        result
    }

    /// The result of a flush for which none has to be sent: one that began after it was asked for, which was to be the `first`
    /// or a later one, has succeeded; or it cannot succeed.
    fn known_already(&self, first: u64) -> Option<Status> {
        let state = self.state();
        if let Some(fault) = state.flushes.failed {
            return Some(Err(Fault { kind: Kind::FlushFailed, stage: Stage::Layer, ..fault }));
        }
        if state.flushes.succeeded >= first {
            return Some(Ok(()));
        }
        (!state.doubts.is_empty()).then_some(Err(Fault::new(Kind::InDoubt, Stage::Layer)))
    }

    /// Flushes the disk through every path that has carried writes since the last flush.
    async fn flush_dirty(self: &Arc<Self>) -> Status {
        let wanted = self.flush_paths().await.ok_or(Fault::new(Kind::Gone, Stage::Layer))?;
        let dirty: Vec<bool> = self.state().paths.all().iter().map(|path| path.dirty).collect();
        // What is written from here on belongs to the next flush.
        (0..dirty.len()).for_each(|path| self.state().paths.get(path).dirty = false);
        let mut result = Ok(());
        for path in wanted {
            let status = self.flush_through(path).await;
            self.note_failure(status);
            result = result.and(status);
        }
        if defect::is_on(Defect::MultipathFlushForgotten) {
            return Ok(());
        }
        if result.is_err() {
            let mut state = self.state();
            (0..dirty.len()).filter(|path| dirty[*path]).for_each(|path| state.paths.get(path).dirty = true);
        }
        result
    }

    /// Keeps the failure of a flush in mind if writes may be lost. The queue of its path does so too, but the next flush may take
    /// another path.
    fn note_failure(&self, status: Status) {
        if let Err(fault) = status
            && may_have_lost(fault)
            && !defect::is_on(Defect::MultipathFlushForgotten)
        {
            self.state().flushes.failed.get_or_insert(fault);
        }
    }

    /// Flushes the disk through a path; through another one if that fails.
    async fn flush_through(self: &Arc<Self>, wanted: usize) -> Status {
        let (mut path, mut forgiven) = (wanted, 0);
        loop {
            let status = self.below.flush(path).await;
            match status {
                Err(fault) if self.forgives(path, fault, &mut forgiven) => {
                    if self.state().paths.get(path).is_up {
                        continue;
                    }
                }
                Err(fault) if is_of_path(fault) => self.leave(path, fault),
                Ok(()) if path != wanted => {
                    // The queue of the path keeps its failure in mind, of which nothing is lost now.
                    self.devices[wanted].acknowledge_flush_failure();
                    return Ok(());
                }
                status => return status,
            }
            path = self.path(0, &[]).await.ok_or(Fault::new(Kind::Gone, Stage::Layer))?;
            self.state().paths.give_back(path, 0, None);
        }
    }

    /// The paths that carried writes since the last flush, or any one; of those that have failed, another one in their place.
    async fn flush_paths(&self) -> Option<Vec<usize>> {
        let any = self.path(0, &[]).await?;
        let mut state = self.state();
        state.paths.give_back(any, 0, None);
        let paths = 0..state.paths.all().len();
        let carried = |path: &usize| {
            let path = &state.paths.all()[*path];
            path.dirty && path.is_up
        };
        let wanted: Vec<usize> = paths.filter(carried).collect();
        Some(if wanted.is_empty() { vec![any] } else { wanted })
    }

    /// Whether a flush is refused only because the path failed during an earlier one. The queue of the path keeps that in
    /// mind as if the disk had failed to flush; but the disk still has what was written, and the next flush covers it.
    pub(super) fn forgives(&self, path: usize, fault: Fault, times: &mut u32) -> bool {
        // Each time a path has failed in between.
        const MOST: u32 = 16;
        // A failure without an errno may be one of the disk, which the program has to hear of.
        if !was_not_delivered(fault) || *times >= MOST || defect::is_on(Defect::MultipathFlushStaysFailed) {
            return false;
        }
        *times += 1;
        self.devices[path].acknowledge_flush_failure();
        true
    }
}
