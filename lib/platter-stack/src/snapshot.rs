//! `snapshot`, `snapshot-origin` and `snapshot-merge`: a device as it was at one time, kept by copying.
//!
//! The store of a snapshot holds each chunk of the origin that was changed since: its old contents, if the origin was
//! changed through `snapshot-origin`, or the new ones, if the snapshot was written. Everything else is on the origin. The
//! names and their arguments are those of Linux' dm-snapshot; `docs/layer-kit.md` describes what each device does.
//!
//! Order of writes: a chunk's copy is in the store, and durable, before the table names it, and the table names it, durably,
//! before the origin is changed. What is written to the snapshot itself may be lost until a flush, so the table is then
//! written at the flush. A merge copies a chunk, flushes the origin and clears the entry, durably, before anything else may
//! change the chunk.

use crate::kit::{
    Below, Buffer, CopyError, Event, Layer, Mode, Notices, Pace, Permits, Ranges, Run, Table, Task,
    write_copies,
};
use crate::sync::{Mutex, MutexGuard, lock};
use format::Status;
use platter_block::bio::{Bio, Op};
use platter_block::fault::{self, Fault, Kind, Stage};
use platter_block::params::{Param, ParamError};
use platter_block::status::Item;
use state::{Health, State};
use std::ops::Range;
use std::sync::Arc;

mod format;
mod open;
mod report;
mod state;

pub use open::{Create, Settings, Snapshot};
pub(crate) use open::{MERGE_TYPE, ORIGIN_TYPE, TYPE};

/// The devices below, and the ports that show them.
const ORIGIN: usize = 0;
const STORE: usize = 1;

/// Most bytes that one task copies at a time, unless a chunk is larger, and tasks that copy at the same time.
const COPY_BYTES: u64 = 1 << 20;
const COPIERS: u32 = 4;

/// Most parts of a bio in flight.
const PARTS: usize = 64;

/// The layer.
struct Cow {
    below: Below,
    state: Mutex<State>,
    /// Chunks that are copied, against reads of them from the origin.
    ranges: Arc<Ranges>,
    copiers: Arc<Permits>,
    /// The store says, or cannot say, that the snapshot is invalid.
    ended: Arc<Event>,
    merge: Arc<Pace>,
    notices: Notices,
    /// The origin is not changed through this layer.
    is_frozen: bool,
}

fn failed(kind: Kind) -> Fault {
    Fault::new(kind, Stage::Layer)
}

impl Cow {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.state().table)
    }

    fn is_merging(&self) -> bool {
        matches!(self.state().header.status, Status::Merging | Status::Merged)
    }

    /// Splits chunks into sections that one task copies at a time.
    fn sections(&self, chunks: Range<u64>) -> impl Iterator<Item = Range<u64>> + Send + use<> {
        let step = (COPY_BYTES / self.state().header.chunk).max(1);
        let count = (chunks.end - chunks.start).div_ceil(step);
        (0..count).map(move |nth| {
            let start = chunks.start + nth * step;
            start..(start + step).min(chunks.end)
        })
    }

    /// A change of the origin: what it overwrites is kept before.
    async fn change_origin(&self, task: &Task) -> fault::Status {
        let chunks = self.state().chunks(task.pos(), task.len());
        for section in self.sections(chunks) {
            let kept = self.preserve(task, section).await;
            // Such a change does not reach the origin any more, so the snapshot loses nothing without the copies.
            if task.is_taken_back() {
                return Err(failed(Kind::TimedOut));
            }
            if let Err(why) = kept {
                self.invalidate(why).await;
            }
        }
        while matches!(self.state().health, Health::Failing(_)) {
            self.ended.wait().await;
        }
        task.pass(ORIGIN, task.pos()).await
    }

    /// Keeps the old contents of chunks, durably, unless the change was taken back before.
    async fn preserve(&self, task: &Task, chunks: Range<u64>) -> Result<(), String> {
        let _permit = self.copiers.take().await;
        let _lock = self.ranges.lock(chunks.clone(), Mode::Exclusive).await;
        if task.is_taken_back() {
            return Ok(());
        }
        let mut copies = Vec::new();
        for chunk in chunks {
            let state = self.state();
            if !state.is_good() {
                return Ok(());
            }
            if !state.kept.contains_key(&chunk) {
                let slot = state.table.take().ok_or_else(|| "its store is full".to_string())?;
                copies.push((chunk, slot, state.run(chunk, slot)));
            }
        }
        let runs: Vec<Run> = copies.iter().map(|&(.., run)| run).collect();
        if let Err(error) = self.below.copy(ORIGIN, STORE, &runs).await {
            copies.iter().for_each(|&(_, slot, _)| self.table().give_back(slot));
            return Err(match error {
                CopyError::Read(fault) => format!("its origin could not be read: {fault}"),
                CopyError::Write(fault) => format!("its store could not be written: {fault}"),
            });
        }
        copies.iter().for_each(|&(chunk, slot, _)| self.state().keep(chunk, slot, false));
        let committed = self.table().commit().await.map(|_| ());
        committed.map_err(|fault| format!("the table of its store could not be written: {fault}"))
    }

    /// The snapshot is lost, but the origin goes on. Returns when the store says so as well, or cannot be written.
    async fn invalidate(&self, why: String) {
        if !self.state().is_good() {
            return;
        }
        self.state().health = Health::Failing(why.clone());
        let saved = self.save(Status::Invalid).await.is_ok();
        self.state().health = Health::Failed(why, saved);
        self.ended.happen();
        self.notices.tell(report::state(self));
    }

    /// Writes both copies of the header with a new status, one after the other.
    async fn save(&self, status: Status) -> fault::Status {
        let bytes = {
            let mut state = self.state();
            state.header.status = status;
            state.header.sequence += 1;
            state.header.encode()
        };
        write_copies(&self.below, STORE, &bytes).await
    }

    /// A read of the snapshot, or any operation during a merge: each run of chunks where it is.
    async fn map(&self, task: &Task) -> fault::Status {
        let chunks = self.state().chunks(task.pos(), task.len());
        let _lock = match self.is_frozen {
            true => None,
            false => Some(self.ranges.lock(chunks, Mode::Shared).await),
        };
        let runs = self.state().runs(task.pos(), task.len());
        match runs[..] {
            [(_, device, place, _)] => task.pass(device, place).await?,
            _ => self.do_runs(task, &runs, 0).await?,
        }
        if task.changes() && task.is_durable() {
            // A commit of the merge that failed may have cleared the entries of what was written here. This one does no I/O
            // if none has failed.
            self.table().commit().await?;
        }
        // What was read from the origin may be new if nothing was kept any more.
        if self.state().is_good() { Ok(()) } else { Err(failed(Kind::Io)) }
    }

    /// Carries out runs that begin at byte `skip` of a bio.
    async fn do_runs(&self, task: &Task, runs: &[(u64, usize, u64, u64)], skip: u64) -> fault::Status {
        for section in runs.chunks(PARTS) {
            let parts: Vec<_> = section
                .iter()
                .map(|&(at, device, place, len)| task.part(skip + at, len, device, place))
                .collect();
            for part in parts {
                part.await?;
            }
        }
        Ok(())
    }

    /// A change of the snapshot: it goes to the store.
    async fn change_view(&self, task: &Task) -> fault::Status {
        let chunks = self.state().chunks(task.pos(), task.len());
        for section in self.sections(chunks) {
            let _permit = self.copiers.take().await;
            let _lock = self.ranges.lock(section.clone(), Mode::Exclusive).await;
            if task.is_taken_back() {
                return Err(failed(Kind::TimedOut));
            }
            let mut missing = Vec::new();
            for chunk in section {
                let bytes = self.state().bytes(chunk);
                let part = bytes.start.max(task.pos())..bytes.end.min(task.pos() + task.len());
                if self.state().kept.contains_key(&chunk) {
                    self.mark_written(chunk).await?;
                    let runs = self.state().runs(part.start, part.end - part.start);
                    self.do_runs(task, &runs, part.start - task.pos()).await?;
                } else if task.op() != Op::Discard {
                    missing.push((chunk, bytes, part));
                }
            }
            self.fill(task, missing).await?;
        }
        if task.is_durable() { self.table().commit().await.map(|_| ()) } else { Ok(()) }
    }

    /// Brings chunks of the origin, with their parts that a bio changes, to the store. It returns when all I/O is over, so
    /// that slots can be used again.
    async fn fill(&self, task: &Task, missing: Vec<(u64, Range<u64>, Range<u64>)>) -> fault::Status {
        let (mut status, mut reads, mut writes) = (Ok(()), Vec::new(), Vec::new());
        for (chunk, bytes, part) in missing {
            let Some(slot) = self.state().table.take() else {
                status = Err(failed(Kind::NoSpace));
                break;
            };
            let buffer = Buffer::new((bytes.end - bytes.start) as usize);
            let read = match part == bytes {
                true => Err(buffer),
                false => Ok(task.read(ORIGIN, bytes.start, buffer)),
            };
            reads.push((chunk, slot, bytes.start, part, read));
        }
        for (chunk, slot, start, part, read) in reads {
            let read = match read {
                Ok(read) => read.await,
                Err(buffer) => Ok(buffer),
            };
            let filled = read.and_then(|mut buffer| {
                let changed =
                    &mut buffer.bytes_mut()[(part.start - start) as usize..(part.end - start) as usize];
                match task.op() {
                    Op::Write => task.copy_out(part.start - task.pos(), changed)?,
                    _ => {
                        task.begin_change()?;
                        changed.fill(0);
                    }
                }
                Ok(buffer)
            });
            let place = self.state().header.data_pos(slot);
            match filled {
                Ok(buffer) => writes.push((chunk, slot, task.write(STORE, place, buffer))),
                Err(fault) => {
                    self.table().give_back(slot);
                    status = status.and(Err(fault));
                }
            }
        }
        for (chunk, slot, write) in writes {
            match write.await {
                Ok(_) => self.state().keep(chunk, slot, true),
                Err(fault) => {
                    self.table().give_back(slot);
                    status = status.and(Err(fault));
                }
            }
        }
        task.end_copies();
        status
    }

    /// Records that a chunk no longer has the origin's old contents, before it is changed, if the next opening compares it.
    async fn mark_written(&self, chunk: u64) -> fault::Status {
        if self.state().set_written(chunk) { self.table().commit().await.map(|_| ()) } else { Ok(()) }
    }

    /// Copies all chunks of the store to the origin.
    async fn merge(self: Arc<Self>) -> fault::Status {
        let chunk = self.state().header.chunk;
        let total = self.state().kept.len() as u64 * chunk;
        let next = || {
            let state = self.state();
            let first = *state.kept.keys().next()?;
            let section = first..first + (COPY_BYTES / chunk).max(1);
            Some((state.kept.range(section.clone()).count() as u64 * chunk, section))
        };
        let mut status = self.merge.run(total, next, |section| self.merge_section(section)).await;
        if status.is_ok() {
            status = self.save(Status::Merged).await;
        }
        self.merge.end(status);
        self.merge.status(&report::MERGE).into_iter().take(1).for_each(|item| self.notices.tell(item));
        status
    }

    async fn merge_section(&self, chunks: Range<u64>) -> fault::Status {
        let _lock = self.ranges.lock(chunks.clone(), Mode::Exclusive).await;
        let kept: Vec<(u64, u64)> =
            self.state().kept.range(chunks).map(|(&chunk, &slot)| (chunk, slot)).collect();
        let back = |&(chunk, slot): &(u64, u64)| {
            let Run { from, to, len } = self.state().run(chunk, slot);
            Run { from: to, to: from, len }
        };
        let runs: Vec<Run> = kept.iter().map(back).collect();
        self.below.copy(STORE, ORIGIN, &runs).await?;
        self.below.flush(ORIGIN).await?;
        let before: Vec<u64> = kept.iter().map(|&(_, slot)| self.table().get(slot)).collect();
        kept.iter().for_each(|&(_, slot)| self.table().set(slot, 0));
        let status = self.table().commit().await.map(|_| ());
        for (&(chunk, slot), entry) in kept.iter().zip(before) {
            match status {
                Ok(()) => drop(self.state().kept.remove(&chunk)),
                // The store may say either: the chunk is the same in both places until it is changed.
                Err(_) => self.table().set(slot, entry),
            }
        }
        status
    }
}

impl Layer for Cow {
    fn route(&self, port: usize, bio: &Bio) -> Option<(usize, u64)> {
        if port == STORE {
            return None;
        }
        let state = self.state();
        let may = bio.op() == Op::Read
            || matches!(state.health, Health::Failed(..))
            || state.chunks(bio.pos(), bio.len()).all(|chunk| state.has_durably(chunk));
        may.then_some((ORIGIN, bio.pos()))
    }

    /// The store has the data, but without its entry in the table it is not found.
    fn holds_unflushed(&self, port: usize) -> bool {
        port == STORE
    }

    async fn run(self: Arc<Self>, task: Task) -> fault::Status {
        match (task.port(), task.op()) {
            (ORIGIN, Op::Read) => task.pass(ORIGIN, task.pos()).await,
            (ORIGIN, _) => self.change_origin(&task).await,
            _ if !self.state().is_good() => Err(failed(Kind::Io)),
            (_, Op::Read) => self.map(&task).await,
            _ if self.is_merging() => self.map(&task).await,
            _ => self.change_view(&task).await,
        }
    }

    async fn flush(self: Arc<Self>, below: Below, port: usize) -> fault::Status {
        if port == ORIGIN {
            if matches!(self.state().health, Health::Failed(_, false))
                && self.save(Status::Invalid).await.is_ok()
            {
                let mut state = self.state();
                if let Health::Failed(_, saved) = &mut state.health {
                    *saved = true;
                }
            }
            return below.flush(ORIGIN).await;
        }
        if !self.state().is_good() {
            return Err(failed(Kind::Io));
        }
        if self.is_merging() {
            below.flush(ORIGIN).await?;
        }
        // A commit that had begun before may not cover what was written in place since.
        let flushed = self.table().commit().await?;
        if flushed { Ok(()) } else { below.flush(STORE).await }
    }

    fn locate(&self, port: usize, pos: u64) -> Option<(usize, u64, u64)> {
        let state = self.state();
        match port {
            ORIGIN => Some((ORIGIN, pos, state.header.size.checked_sub(pos)?)),
            _ => state.is_good().then(|| state.find(pos)),
        }
    }

    fn status(&self, _port: usize) -> Vec<Item> {
        report::status(self)
    }

    fn params(&self, _port: usize) -> Vec<(Param, i64)> {
        report::params(self)
    }

    fn set_param(&self, _port: usize, name: &str, value: i64) -> Result<(), ParamError> {
        report::set_param(self, name, value)
    }

    fn notices(&self) -> Option<&Notices> {
        Some(&self.notices)
    }

    fn explain(&self, _port: usize, fault: Fault) -> Option<String> {
        if fault.stage != Stage::Layer {
            return None;
        }
        match (&self.state().health, fault.kind) {
            (Health::Failing(why) | Health::Failed(why, _), Kind::Io) => {
                Some(format!("the snapshot is invalid: {why}; make a new one with create=always"))
            }
            (_, Kind::NoSpace) => {
                Some("the store of the snapshot is full; what it holds stays valid".to_string())
            }
            _ => None,
        }
    }
}
