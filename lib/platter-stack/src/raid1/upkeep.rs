//! What a mirror does by itself: clearing bits, marking the array clean, and copying what members lack.

use super::format::Role;
use super::{Mirror, report};
use crate::kit::{Mode, Shared};
use platter_block::bio::Flags;
use platter_block::fault::{Fault, Kind, Status};
use std::sync::Arc;

/// Most bytes that are copied at a time.
const PIECE: u64 = 256 << 10;

/// In how many parts of the array a recovery is recorded.
const RECORDINGS: u64 = 16;

impl Mirror {
    /// Has bits cleared, and the array marked clean, when it was not changed for a while.
    pub(super) fn tidy_later(self: &Arc<Self>) {
        let mut state = self.state();
        if state.is_sweeping || self.is_read_only || !state.has_traces() {
            return;
        }
        state.is_sweeping = true;
        drop(state);
        let layer = Arc::clone(self);
        self.below.spawn(async move {
            let status = layer.sweep().await;
            layer.state().is_sweeping = false;
            status
        });
    }

    /// Looks at the bits from time to time, until none is left and the array is clean.
    async fn sweep(self: &Arc<Self>) -> Status {
        loop {
            self.below.sleep_until(self.below.now() + self.settings.tidy_delay).await;
            {
                let state = self.state();
                // The end of the copying, or a change, has this run again.
                let waits = state.is_copying && state.is_resyncing() && state.writers == 0;
                if state.is_closing || !state.has_traces() || waits {
                    return Ok(());
                }
            }
            self.tidy().await?;
        }
    }

    /// Clears bits of chunks that were not changed since the last time, and marks the array clean if none was.
    async fn tidy(self: &Arc<Self>) -> Status {
        let (old, was_idle) = {
            let mut state = self.state();
            let was_touched = state.chunks.iter().any(|chunk| chunk.is_touched);
            let is_idle = state.is_idle() && !was_touched;
            let old = state.candidates();
            if state.saved.is_degraded() {
                state.chunks.iter_mut().for_each(|chunk| chunk.is_touched = false);
            }
            (old, is_idle && !state.saved.is_clean)
        };
        if old.is_empty() && !was_idle {
            return Ok(());
        }
        self.flush_all().await?;
        let changes = {
            let mut state = self.state();
            let mut changes = state.clear(&old);
            if was_idle && state.is_idle() && !state.chunks.iter().any(|chunk| chunk.is_touched) {
                state.saved.is_clean = true;
                state.event();
                changes = true;
            }
            changes
        };
        if changes { self.commit().await } else { Ok(()) }
    }

    /// The layer is dropped: bits are cleared and the array is marked clean as far as that is so.
    pub(super) async fn end(self: &Arc<Self>) -> Status {
        {
            let mut state = self.state();
            if !state.is_open || self.is_read_only || !state.has_traces() {
                return Ok(());
            }
            state.is_closing = true;
            state.chunks.iter_mut().for_each(|chunk| chunk.is_touched = false);
        }
        self.tidy().await
    }

    /// Copies what members lack, unless that is being done.
    pub(super) fn copy_later(self: &Arc<Self>) {
        let mut state = self.state();
        let recovers = |device: usize| matches!(state.role(device), Role::Recovering { .. });
        let is_due = state.next_todo().is_some() || (0..state.members.len()).any(recovers);
        if state.is_copying || self.is_read_only || !is_due {
            return;
        }
        state.is_copying = true;
        drop(state);
        let layer = Arc::clone(self);
        self.below.spawn(async move {
            let status = layer.copy_all().await;
            layer.pace.end(status);
            layer.state().is_copying = false;
            layer.notices.tell(report::condition(&layer));
            layer.tidy_later();
            // A member may have been added meanwhile.
            if status.is_ok() {
                layer.copy_later();
            }
            status
        });
    }

    async fn copy_all(self: &Arc<Self>) -> Status {
        let (total, chunk, size) = {
            let state = self.state();
            let most = state.members.iter().map(|member| member.todo.count()).max().unwrap_or(0);
            (most * state.saved.chunk, state.saved.chunk, state.saved.size)
        };
        self.pace.begin(total);
        let mut unrecorded = 0;
        loop {
            let next = self.state().next_todo();
            let Some(next) = next else {
                if self.finish().await? {
                    return Ok(());
                }
                continue;
            };
            self.copy_chunk(next).await?;
            self.pace.advance(chunk);
            unrecorded += chunk;
            if unrecorded >= (size / RECORDINGS).max(1) {
                unrecorded = 0;
                self.record_recovery().await?;
            }
        }
    }

    /// Brings a chunk to all members that lack it.
    async fn copy_chunk(self: &Arc<Self>, chunk: u64) -> Status {
        let (start, end, lacks) = {
            let state = self.state();
            let saved = &state.saved;
            (chunk * saved.chunk, ((chunk + 1) * saved.chunk).min(saved.size), state.lacks)
        };
        let mut at = start;
        while at < end {
            let len = PIECE.min(end - at);
            self.pace.next(len).await;
            let _lock = self.ranges.lock(at..at + len, Mode::Exclusive).await;
            self.copy_piece(chunk, at, len).await?;
            at += len;
        }
        let mut state = self.state();
        // Those to which it was not written have failed; but one may have come to lack it after a part of it was copied.
        if state.lacks == lacks {
            state.members.iter_mut().for_each(|member| _ = member.todo.remove(chunk));
        }
        Ok(())
    }

    async fn copy_piece(self: &Arc<Self>, chunk: u64, pos: u64, len: u64) -> Status {
        let mut at = pos;
        while at < pos + len {
            let (first, place) = {
                let state = self.state();
                (state.first(), state.saved.offset + at)
            };
            let Some(first) = first else { return Err(super::failed(Kind::Gone)) };
            let whole = pos + len - at;
            let read = self.below.read(first, place, crate::kit::Buffer::new(whole as usize));
            let data = match self.attend(first, read).await {
                Some(Ok(data)) => Ok(data),
                // Block by block, from any member.
                _ => {
                    let block = 4096 - at % 4096;
                    self.recover((at, block.min(whole)), first, true).await
                }
            };
            let data = match data {
                Ok(data) => data,
                Err(fault) => {
                    let skipped = (4096 - at % 4096).min(whole);
                    self.unreadable(chunk, fault)?;
                    at += skipped;
                    continue;
                }
            };
            let data = Shared::from(data);
            self.give(chunk, place, &data).await;
            at += data.bytes().len() as u64;
        }
        self.settle().await
    }

    /// A block that no member can read: members that recover cannot become complete. Members in sync do not differ in it.
    fn unreadable(&self, chunk: u64, fault: Option<Fault>) -> Status {
        let behind: Vec<usize> = {
            let state = self.state();
            let lacks = |&device: &usize| state.members[device].todo.has(chunk) && !state.is_in_sync(device);
            state.live().into_iter().filter(lacks).collect()
        };
        for device in behind {
            let why = fault.map_or_else(String::new, |fault| format!(": {fault}"));
            self.fail(device, &format!("data that it lacks cannot be read from any other{why}"));
        }
        Ok(())
    }

    /// Writes data of a chunk to all members that lack it.
    async fn give(self: &Arc<Self>, chunk: u64, place: u64, data: &Shared) {
        let targets: Vec<usize> = {
            let state = self.state();
            let first = state.first();
            let lacks = |&device: &usize| Some(device) != first && state.members[device].todo.has(chunk);
            state.live().into_iter().filter(lacks).collect()
        };
        let write = |device: usize| (device, self.below.write_shared(device, place, data, Flags::NONE));
        let writes: Vec<_> = targets.into_iter().map(write).collect();
        for (device, io) in writes {
            if let Some(Err(fault)) = self.attend(device, io).await {
                self.fail(device, &format!("it could not be brought up to date: {fault}"));
            }
        }
    }

    /// Records how far members are recovered, behind a flush of them.
    async fn record_recovery(self: &Arc<Self>) -> Status {
        let recovering = || -> Vec<(usize, u64, bool)> {
            let state = self.state();
            let of = |device| match state.role(device) {
                Role::Recovering { by_bits, .. } => Some((device, state.upto(device), by_bits)),
                _ => None,
            };
            (0..state.members.len()).filter_map(of).collect()
        };
        let (before, lacks) = (recovering(), self.state().lacks);
        if before.is_empty() {
            return Ok(());
        }
        self.flush_all().await?;
        {
            let mut state = self.state();
            if state.lacks != lacks {
                return Ok(());
            }
            for (device, upto, by_bits) in before {
                if matches!(state.role(device), Role::Recovering { .. }) {
                    state.set_role(device, Role::Recovering { upto, by_bits });
                    state.event();
                }
            }
        }
        self.commit().await
    }

    /// Nothing is left to be copied: members that recover are in sync, behind a flush of them. Returns whether all is done.
    async fn finish(self: &Arc<Self>) -> Result<bool, Fault> {
        let lacks = self.state().lacks;
        self.flush_all().await?;
        let mut done = Vec::new();
        {
            let mut state = self.state();
            if state.next_todo().is_some() || state.lacks != lacks {
                return Ok(false);
            }
            for device in 0..state.members.len() {
                if matches!(state.role(device), Role::Recovering { .. }) {
                    state.set_role(device, Role::InSync);
                    state.vital_event();
                    done.push(device);
                }
            }
        }
        self.commit().await?;
        for device in done {
            self.notices.tell(report::member(self, device));
        }
        Ok(true)
    }
}
