//! Changes of a mirror.

use super::bits::Bits;
use super::{Mirror, failed};
use crate::kit::{Buffer, Io, Mode, Shared, Task};
use platter_block::bio::{Flags, Op};
use platter_block::fault::{Fault, Kind, Status};
use std::ops::Range;
use std::sync::Arc;

/// Most bytes that are copied for a write at a time.
const COPY_BYTES: u64 = 1 << 20;

/// Changes of chunks that are under way, until it is dropped.
struct Entry<'a> {
    layer: &'a Mirror,
    chunks: Range<u64>,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.layer.state().leave(self.chunks.clone());
    }
}

impl Mirror {
    /// Carries out a write, discard or write-zeroes.
    pub(super) async fn change(self: &Arc<Self>, task: &Task) -> Status {
        if self.is_read_only {
            return Err(failed(Kind::ReadOnly));
        }
        let step = if task.op() == Op::Write { COPY_BYTES } else { task.len() };
        let mut done = 0;
        let mut status = Ok(());
        while done < task.len() && status.is_ok() {
            let len = step.min(task.len() - done);
            status = self.change_section(task, done, len).await;
            done += len;
        }
        task.end_copies();
        self.tidy_later();
        status
    }

    /// The part of a change from its byte `skip` on.
    async fn change_section(self: &Arc<Self>, task: &Task, skip: u64, len: u64) -> Status {
        let pos = task.pos() + skip;
        // Members would differ if changes that overlap were carried out in any order.
        let _lock = self.ranges.lock(pos..pos + len, Mode::Exclusive).await;
        if task.is_taken_back() {
            return Err(failed(Kind::TimedOut));
        }
        let chunks = self.state().saved.chunks(pos, len);
        let is_noted = self.state().enter(chunks.clone());
        let _entry = Entry { layer: self, chunks: chunks.clone() };
        if !is_noted {
            self.commit().await?;
        }
        let data = self.take_data(task, skip, len)?;
        let members = self.state().live();
        let parts: Vec<(usize, Io)> = members
            .iter()
            .map(|&device| (device, self.send(task, device, (pos, len), data.as_ref())))
            .collect();
        let mut results = Vec::with_capacity(parts.len());
        for (device, io) in parts {
            if let Some(status) = self.attend(device, io).await {
                results.push((device, status));
            }
        }
        let status = self.judge(task, &results, (pos, len)).await;
        if status.is_err() {
            // Members that recover may have it, and the last one in sync not.
            let mut state = self.state();
            let mut lacking = Bits::new(state.saved.bits.len());
            chunks.for_each(|chunk| _ = lacking.insert(chunk));
            for device in state.live() {
                if !state.is_in_sync(device) {
                    state.lack(device, &lacking);
                }
            }
        }
        // Also if it was not sent to a member that has failed before: without that record it would count as up to date.
        status.and(self.settle().await)
    }

    /// The data of a write, copied: all members get the same, and none depends on the caller's memory any more.
    fn take_data(&self, task: &Task, skip: u64, len: u64) -> Result<Option<Shared>, Fault> {
        if task.op() != Op::Write {
            return task.begin_change().map(|()| None);
        }
        let mut buffer = Buffer::new(len as usize);
        task.copy_out(skip, buffer.bytes_mut())?;
        Ok(Some(buffer.into()))
    }

    /// Sends a change to a member.
    fn send(&self, task: &Task, device: usize, (pos, len): (u64, u64), data: Option<&Shared>) -> Io {
        let flags = if task.is_durable() { Flags::FUA } else { Flags::NONE };
        let place = self.state().saved.offset + pos;
        match data {
            Some(data) => self.below.write_shared(device, place, data, flags),
            None => self.below.clear(device, task.op() == Op::Discard, place, len, flags),
        }
    }

    /// What the results of the members mean for the change, and for them.
    async fn judge(
        self: &Arc<Self>,
        task: &Task,
        results: &[(usize, Status)],
        (pos, len): (u64, u64),
    ) -> Status {
        let cannot = |status: &Status| status.is_err_and(|fault| fault.kind == Kind::Unsupported);
        if results.iter().all(|(_, status)| cannot(status))
            && let Some((_, refusal)) = results.first()
        {
            return *refusal;
        }
        let mut status = Ok(());
        for &(device, result) in results {
            let result = match result {
                // What a discard leaves is not defined.
                Err(_) if cannot(&result) && task.op() == Op::Discard => Ok(()),
                Err(_) if cannot(&result) => self.write_zeroes(task, device, (pos, len)).await,
                result => result,
            };
            if let Err(fault) = result {
                self.state().members[device].failures += 1;
                if !self.fail(device, &format!("a change failed: {fault}")) {
                    status = Err(fault);
                }
            }
        }
        status
    }

    /// Writes zeroes to a member that cannot do so by itself, as others have done.
    async fn write_zeroes(self: &Arc<Self>, task: &Task, device: usize, (pos, len): (u64, u64)) -> Status {
        let zeroes = Shared::from(Buffer::new(COPY_BYTES.min(len) as usize));
        let mut at = 0;
        while at < len {
            let data = if len - at < zeroes.bytes().len() as u64 {
                Shared::from(Buffer::new((len - at) as usize))
            } else {
                zeroes.clone()
            };
            let io = self.send(task, device, (pos + at, 0), Some(&data));
            // If it fails meanwhile, nothing depends on it.
            self.attend(device, io).await.unwrap_or(Ok(()))?;
            at += data.bytes().len() as u64;
        }
        Ok(())
    }
}
