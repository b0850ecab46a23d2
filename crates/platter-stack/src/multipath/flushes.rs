//! Flushes: through every path that has carried writes, one at a time, and what is known of those that failed.

use super::Multipath;
use super::identity::{is_of_path, was_not_delivered};
use crate::kit::Io;
use platter_block::defect::{self, Defect};
use platter_block::fault::{Fault, Kind, Stage, Status};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

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

    /// The result of a flush, as far as earlier ones decide it.
    fn of_earlier(&self) -> Status {
        self.failed
            .map_or(Ok(()), |fault| Err(Fault { kind: Kind::FlushFailed, stage: Stage::Layer, ..fault }))
    }
}

/// Whether a flush that failed so may have lost what was written before. The fault of a path has not, since another path, or the
/// next flush, covers that; nor has a refusal because of a range in doubt.
fn may_have_lost(fault: Fault) -> bool {
    !is_of_path(fault) && !was_not_delivered(fault) && fault.kind != Kind::InDoubt
}

impl Multipath {
    /// Flushes the disk when the flushes before have ended. If two were on the way, one could report as durable what the
    /// failure of the other has lost: a disk tells such a failure once, through one path. The exception is a flush with which its
    /// path was left; see [`await_late`](Multipath::await_late).
    pub(super) async fn flush_in_turn(self: &Arc<Self>) -> Status {
        if !self.state().doubts.is_empty() {
            return Err(Fault::new(Kind::InDoubt, Stage::Layer));
        }
        // Whatever has completed by now is covered by any flush that begins later.
        let first = self.state().flushes.begun + 1;
        let _turn = self.turn.take().await;
        if self.below.is_given_up() {
            // Nothing waits for it, and those behind it do.
            return Err(Fault::new(Kind::TimedOut, Stage::Layer));
        }
        if let Some(status) = self.known_already(first) {
            return status;
        }
        let number = {
            let mut state = self.state();
            state.flushes.begun += 1;
            state.flushes.begun
        };
        // A flush with which its path was left may have failed meanwhile.
        let result = self.flush_dirty().await.and_then(|()| self.state().flushes.of_earlier());
        if result.is_ok() {
            self.state().flushes.succeeded = number;
        }
        result
    }

    /// The result of a flush for which none has to be sent: one that began after it was asked for, which was to be the `first`
    /// or a later one, has succeeded; or it cannot succeed.
    fn known_already(&self, first: u64) -> Option<Status> {
        let state = self.state();
        if let Err(fault) = state.flushes.of_earlier() {
            return Some(Err(fault));
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

    /// Flushes the disk through a path; through another one if that fails, or is left before it has answered.
    async fn flush_through(self: &Arc<Self>, wanted: usize) -> Status {
        let (mut path, mut forgiven) = (wanted, 0);
        loop {
            match self.flush_until_left(path).await {
                None => {}
                Some(Err(fault)) if self.forgives(path, fault, &mut forgiven) => {
                    let is_up = self.state().paths.get(path).is_up;
                    if is_up {
                        continue;
                    }
                }
                Some(Err(fault)) if is_of_path(fault) => self.leave(path, fault),
                Some(Ok(())) if path != wanted => {
                    // The queue of the path keeps its failure in mind, of which nothing is lost now.
                    self.devices[wanted].acknowledge_flush_failure();
                    return Ok(());
                }
                Some(status) => return status,
            }
            path = self.path(0, &[]).await.ok_or(Fault::new(Kind::Gone, Stage::Layer))?;
            self.state().paths.give_back(path, 0, None);
        }
    }

    /// Flushes the disk through a path. `None`: the path was left before it has answered; it may still do so.
    async fn flush_until_left(self: &Arc<Self>, path: usize) -> Option<Status> {
        let failures = {
            let mut state = self.state();
            let path = state.paths.get(path);
            // It was left while another path had a flush.
            path.is_up.then_some(path.failures)?
        };
        let mut flush = self.below.flush(path);
        loop {
            let mut left = pin!(self.left.wait());
            let ended = poll_fn(|context| match Pin::new(&mut flush).poll(context) {
                Poll::Ready(status) => Poll::Ready(Some(status)),
                Poll::Pending => left.as_mut().poll(context).map(|()| None),
            });
            if let Some(status) = ended.await {
                return Some(status);
            }
            if self.state().paths.get(path).failures != failures {
                break;
            }
        }
        self.below.spawn(Arc::clone(self).await_late(path, flush));
        None
    }

    /// Waits for a flush with which its path was left, and keeps its failure in mind.
    ///
    /// Meanwhile a flush through another path may succeed, and does not wait for this one, which may never be answered. It
    /// began later, so it covers all writes that completed before it began and that the disk still had. If the disk fails this
    /// flush after that, it has lost only later writes. If it has failed this one before, and the answer is on its way, it
    /// may have lost writes of which the other path was not told: that flush has succeeded in error. The same is so if the
    /// answer never comes, or the path fails with it, and nothing tells these cases apart. So any failure of the disk that is
    /// heard of late fails the next flush, whichever of the two came first.
    async fn await_late(self: Arc<Self>, path: usize, flush: Io) -> Status {
        let status = flush.await;
        self.note_failure(status);
        if let Err(fault) = status
            && (is_of_path(fault) || was_not_delivered(fault))
        {
            // The queue of the path keeps that in mind. The disk has what was written, for whatever flush came after this one.
            self.devices[path].acknowledge_flush_failure();
        }
        status
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
