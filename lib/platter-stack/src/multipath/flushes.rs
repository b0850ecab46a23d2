//! Flushes: through every path that has carried writes, one at a time, and what is known of those that failed.

use super::Multipath;
use super::identity::{is_of_path, was_not_delivered};
use crate::kit::{Io, Task};
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
    /// The same, but no flush has reported it to the program yet. An acknowledgement does not end it: what was lost may have
    /// been written after the failure that the program acknowledges. And whether later flushes repeat it then.
    unreported: Option<(Fault, bool)>,
    /// How many have begun, and which of them was the last one to succeed.
    begun: u64,
    succeeded: u64,
}

impl Flushes {
    /// The program accepts that what was written before a failed flush may be lost.
    pub(super) fn acknowledge(&mut self) {
        self.failed = None;
    }

    /// A flush reports to the program that writes may be lost, which covers all failures that are known by now.
    fn report(&mut self) {
        let unreported = self.unreported.take().filter(|(_, repeats)| *repeats);
        self.failed = self.failed.or(unreported.map(|(fault, _)| fault));
    }

    /// The result of a flush, as far as earlier ones decide it.
    fn of_earlier(&self) -> Status {
        self.failed
            .or(self.unreported.map(|(fault, _)| fault))
            .map_or(Ok(()), |fault| Err(Fault { kind: Kind::FlushFailed, stage: Stage::Layer, ..fault }))
    }
}

/// Whether a flush that failed so may have lost what was written before. The fault of a path has not, since another path, or the
/// next flush, covers that.
fn may_have_lost(fault: Fault) -> bool {
    !is_of_path(fault) && !was_not_delivered(fault)
}

impl Multipath {
    /// Flushes the disk when the flushes before have ended. If two were on the way, one could report as durable what the
    /// failure of the other has lost: a disk tells such a failure once, through one path. The exceptions are a flush with which its
    /// path was left, see [`await_late`](Multipath::await_late), and one behind a durable change, which its path makes by itself:
    /// their failures are those of the next flush.
    pub(super) async fn flush_in_turn(self: &Arc<Self>) -> Status {
        // Whatever has completed by now is covered by any flush that begins later.
        let first = self.state().flushes.begun + 1;
        let _turn = self.turn.take().await;
        if self.below.is_taken_back() {
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
        let result = self.flush_dirty().await;
        self.end_flush(number, result)
    }

    /// The result of a flush that was sent and has ended so. One with which its path was left may have failed meanwhile.
    fn end_flush(&self, number: u64, result: Status) -> Status {
        // A program whose flush was cancelled or was too late does not see how that ends.
        let is_seen = !self.below.is_taken_back();
        let mut state = self.state();
        let flushes = &mut state.flushes;
        let result = result.and_then(|()| flushes.of_earlier());
        match result {
            Ok(()) => flushes.succeeded = number,
            Err(fault) if is_seen && may_have_lost(fault) => flushes.report(),
            Err(_) => {}
        }
        result
    }

    /// The result of a flush for which none has to be sent: one that began after it was asked for, which was to be the `first`
    /// or a later one, has succeeded; or it cannot succeed.
    fn known_already(&self, first: u64) -> Option<Status> {
        let mut state = self.state();
        if let Err(fault) = state.flushes.of_earlier() {
            state.flushes.report();
            return Some(Err(fault));
        }
        (state.flushes.succeeded >= first).then_some(Ok(()))
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
            self.note_failure(path, status);
            result = result.and(status);
        }
        if result.is_err() {
            let mut state = self.state();
            (0..dirty.len()).filter(|path| dirty[*path]).for_each(|path| state.paths.get(path).dirty = true);
        }
        result
    }

    /// Keeps the failure of a flush in mind if writes may be lost. The queue of its path does so too, but the next flush may take
    /// another path. What that queue does not repeat is not repeated here either: that a path was silent for a while.
    fn note_failure(&self, path: usize, status: Status) {
        if let Err(fault) = status
            && may_have_lost(fault)
        {
            let repeats = fault.kind != Kind::FlushFailed || !self.devices[path].flush_failures().is_empty();
            self.state().flushes.unreported.get_or_insert((fault, repeats));
        }
    }

    /// Takes over from the queue of a path that a flush has failed, if writes may be lost.
    fn look_for_failure(&self, path: usize) {
        let failures = self.devices[path].flush_failures();
        if let Some(fault) = failures.into_iter().find(|fault| may_have_lost(*fault)) {
            self.note_failure(path, Err(fault));
        }
    }

    /// A bio has failed so through a path. If it is a durable change, the path may have carried it out as a write and a flush, and
    /// only the queue of the path tells whether that flush has failed: then earlier writes of any path may be lost, also if another
    /// path carries out the change after that.
    pub(super) fn look_at_durable(&self, task: &Task, path: usize, fault: Fault) {
        if !(task.changes() && task.is_durable()) {
            return;
        }
        // What repeats an earlier failure is known.
        if fault.kind == Kind::TimedOut || (may_have_lost(fault) && fault.kind != Kind::FlushFailed) {
            self.look_for_failure(path);
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
                    self.forget_undelivered(wanted);
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
        self.note_failure(path, status);
        self.forget_undelivered(path);
        status
    }

    /// The queue of a path keeps in mind that a flush has failed. If only the path has, nothing is lost: the disk has what was
    /// written, for whatever flush came after that one. The queue may also know by now that the disk has failed a flush, which it
    /// has to keep.
    fn forget_undelivered(&self, path: usize) {
        let failures = self.devices[path].flush_failures();
        if !failures.is_empty() && !failures.into_iter().any(may_have_lost) {
            self.devices[path].acknowledge_flush_failure();
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
        if !was_not_delivered(fault) || *times >= MOST {
            return false;
        }
        *times += 1;
        self.devices[path].acknowledge_flush_failure();
        true
    }
}
