//! Requests that begin or end inside a block of the device: only for an export whose size is no multiple of it.
//!
//! They are carried out by synchronous calls, which read and write back what is around them. Meanwhile no other client changes
//! these blocks, or its data would be undone. So for such exports, and only for them, every change locks its blocks.

use super::Session;
use super::slots::Job;
use crate::nbd::terms::{Plan, range};
use platter_block::fault::Error;
use platter_disk::device::Device;
use platter_disk::pool::PoolBuf;
use platter_disk::sync_io::IoOptions;
use platter_remote::nbd::wire::{Request, command_flag};
use std::ops::Range;
use std::sync::Arc;

/// Most zeroes that are written at once.
const ZEROES: u64 = 256 << 10;

impl Session<'_> {
    /// Locks the blocks of a change; its answer unlocks them. `partial`: no other change of them may run, else none of
    /// parts of them.
    pub(super) fn lock_blocks(&mut self, slot: u16, request: &Request, partial: bool) {
        if self.terms.min_block == self.terms.device_block {
            return;
        }
        let blocks = self.terms.blocks(request);
        let served = Arc::clone(&self.served);
        if !served.changes().try_lock(&blocks, partial) {
            // Who waits for others has no locks itself, or they could wait for each other.
            while self.channel.outstanding() > 0 {
                self.channel.wait(&mut self.bios.done, None);
                self.finish_all();
            }
            served.changes().lock(&blocks, partial);
        }
        self.slots.get(slot).locked = Some((blocks, partial));
    }

    /// Unlocks the blocks of a change.
    #[inline]
    pub(super) fn unlock_blocks(&mut self, slot: u16) {
        if let Some((blocks, partial)) = self.slots.get(slot).locked.take() {
            self.served.changes().unlock(&blocks, partial);
        }
    }

    /// Begins a request for parts of blocks. `buffer`: memory of its length, for a read.
    pub(super) fn begin_partial(
        &mut self,
        slot: u16,
        request: &Request,
        plan: Plan,
        buffer: Option<PoolBuf>,
    ) {
        let fua = request.flags & command_flag::FUA != 0;
        match (plan, buffer) {
            (Plan::Read { .. }, Some(mut buffer)) => {
                match self.served.device().read_at(&mut buffer, request.offset) {
                    Ok(()) => self.succeed(slot, request, Some(buffer)),
                    Err(error) => {
                        self.buffers.put(buffer);
                        self.refuse_failed(slot, request, Job::Read, error.fault);
                    }
                }
            }
            (Plan::Zeroes { unmap, .. }, buffer) => {
                if let Some(buffer) = buffer {
                    self.buffers.put(buffer);
                }
                self.lock_blocks(slot, request, true);
                let whole = if unmap { self.terms.whole_blocks(request) } else { 0..0 };
                let zeroed = zero(self.served.device(), range(request), whole, fua);
                self.end_partial(slot, request, Job::WriteZeroes { fua }, zeroed);
            }
            // Hints, which are for whole blocks.
            (_, buffer) => {
                let whole = self.terms.whole_blocks(request);
                let entry = self.slots.get(slot);
                entry.request.offset = whole.start;
                entry.request.length = (whole.end - whole.start) as u32;
                let shorter = entry.request;
                match (plan, buffer) {
                    (_, buffer) if shorter.length == 0 => {
                        if let Some(buffer) = buffer {
                            self.buffers.put(buffer);
                        }
                        self.succeed(slot, request, None);
                    }
                    (_, Some(buffer)) => self.submit_step(slot, Job::ReadAhead, buffer),
                    (_, None) => self.begin_discard(slot, &shorter, fua),
                }
            }
        }
    }

    /// Writes parts of blocks.
    pub(super) fn write_partial(&mut self, slot: u16, request: &Request, buffer: PoolBuf) {
        let flags = super::work::durable(request.flags & command_flag::FUA != 0);
        self.lock_blocks(slot, request, true);
        let written = self.served.device().write_at_with(&buffer, request.offset, IoOptions::flags(flags));
        self.buffers.put(buffer);
        self.end_partial(slot, request, Job::Write, written);
    }

    fn end_partial(&mut self, slot: u16, request: &Request, job: Job, result: Result<(), Error>) {
        match result {
            Ok(()) => self.succeed(slot, request, None),
            Err(error) => self.refuse_failed(slot, request, job, error.fault),
        }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        for (blocks, partial) in self.slots.take_locked() {
            self.served.changes().unlock(&blocks, partial);
        }
    }
}

/// Makes a range read as zeroes; `whole`, which is in it, may lose its space.
fn zero(device: &Device, all: Range<u64>, whole: Range<u64>, fua: bool) -> Result<(), Error> {
    let flags = super::work::durable(fua);
    let write = |part: Range<u64>| {
        let zeroes = vec![0; (part.end - part.start).min(ZEROES) as usize];
        let mut pos = part.start;
        while pos < part.end {
            let len = (part.end - pos).min(ZEROES);
            device.write_at_with(&zeroes[..len as usize], pos, IoOptions::flags(flags))?;
            pos += len;
        }
        Ok(())
    };
    if whole.is_empty() {
        return write(all);
    }
    write(all.start..whole.start)?;
    device.write_zeroes_with(whole.start, whole.end - whole.start, IoOptions::flags(flags))?;
    write(whole.end..all.end)
}
