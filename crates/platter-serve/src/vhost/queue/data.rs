//! The memory of reads and writes: the guest's, or the queue's own.
//!
//! On a device without a timeout, bios use the guest's memory, and nothing is copied. The guest uses that memory for something
//! else once it has the answer. So such a bio is flagged `BORROWED`: it completes when the driver has returned the memory.
//!
//! On a device with a timeout, data is copied through buffers of the queue. A request that timed out is answered at once: the
//! driver keeps only the buffer, which is freed when the driver has returned it.

use super::{Work, Worker};
use crate::buffers::{Budget, Buffers};
use crate::vhost::memory::Lent;
use crate::vhost::request::{Range, read_data, write_data};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::pool::PoolBuf;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Instant;

/// How long buffers are kept by a queue that has nothing to do.
pub(super) const KEEP: Span = Span::from_millis(1000);

/// Buffers for a queue of a device, of at most `limit_bytes` bytes. `None`: the device has no timeout.
pub(super) fn buffers_for(device: &Device, limit_bytes: usize, budget: &Arc<Budget>) -> Option<Buffers> {
    device.backend().timeout().map(|_| Buffers::new(limit_bytes, budget))
}

/// What a slot has for the data of its request.
#[derive(Default)]
pub(super) struct Data {
    /// Pieces of the guest's memory, kept for the next request.
    lent: Option<Lent>,
    /// A buffer of the queue that no bio has yet.
    own: Option<PoolBuf>,
    /// Bytes of the buffer that the bio has. 0: it has none.
    capacity: usize,
}

impl Worker {
    /// Takes a buffer for a request that needs one. `false`: there is none until another request of the queue has ended.
    pub(super) fn has_memory(&mut self, slot: u16) -> bool {
        let is_alone = self.free.len() + 1 == self.slots.len();
        let entry = &mut self.slots[usize::from(slot)];
        let (Some(buffers), Work::Read(range) | Work::Write(range)) = (&mut self.buffers, entry.work) else {
            return true;
        };
        if entry.data.own.is_none() {
            entry.data.own = buffers.take(range.len as usize);
        }
        // A request that is alone gets none only if it is longer than the limit. It uses the guest's memory.
        entry.data.own.is_some() || is_alone
    }

    /// Begins a read or a write.
    pub(super) fn transfer(&mut self, slot: u16, op: Op, range: Range) {
        let mut bio = self.spare_bio();
        let set = match self.slots[usize::from(slot)].data.own.take() {
            Some(buffer) => self.use_own(slot, &mut bio, op, range, buffer),
            None => self.use_guest(slot, &mut bio, op, range),
        };
        match set {
            Ok(()) => self.submit(slot, bio),
            Err(fault) => self.fail(slot, bio, fault),
        }
    }

    fn use_own(
        &mut self,
        slot: u16,
        bio: &mut Bio,
        op: Op,
        range: Range,
        mut buffer: PoolBuf,
    ) -> Result<(), Fault> {
        let entry = &mut self.slots[usize::from(slot)];
        entry.data.capacity = buffer.capacity();
        if op == Op::Read {
            return bio.reset_read(range.pos, buffer);
        }
        read_data(&self.memory, &entry.request.pieces, &mut buffer);
        bio.reset_write(range.pos, buffer)
    }

    fn use_guest(&mut self, slot: u16, bio: &mut Bio, op: Op, range: Range) -> Result<(), Fault> {
        let entry = &mut self.slots[usize::from(slot)];
        let mut lent = entry.data.lent.take().unwrap_or_else(|| Lent::new(&self.memory));
        std::mem::swap(&mut lent.pieces, &mut entry.request.pieces);
        let set = match op {
            Op::Read => bio.reset_read(range.pos, lent),
            _ => bio.reset_write(range.pos, lent),
        };
        bio.add_flags(Flags::BORROWED);
        set
    }

    /// Takes the memory of a completed bio back, and gives the guest what was read. Returns the result of the bio.
    pub(super) fn take_back(&mut self, slot: u16, bio: &mut Bio) -> Result<(), Fault> {
        let status = bio.status();
        let entry = &mut self.slots[usize::from(slot)];
        let capacity = std::mem::take(&mut entry.data.capacity);
        let (Some(buffers), 1..) = (&mut self.buffers, capacity) else {
            // Borrowed memory comes back with its bio, whatever the result.
            if let Some(mut lent) = bio.take_buffer::<Lent>() {
                std::mem::swap(&mut lent.pieces, &mut entry.request.pieces);
                entry.data.lent = Some(lent);
            }
            return status;
        };
        let op = bio.op();
        let Some(buffer) = bio.take_buffer::<PoolBuf>() else {
            buffers.lost(capacity);
            return status.and(Err(Fault::new(Kind::Contract, Stage::Handle)));
        };
        if op == Op::Read && status.is_ok() {
            write_data(&self.memory, &entry.request.pieces, &buffer);
        }
        buffers.put(buffer);
        status
    }

    /// Sleeps until a bio has completed, one of the descriptors is readable, or `limit` has passed. Returns the memory of
    /// buffers to the system if there was nothing to do for a while.
    pub(super) fn sleep(&mut self, descriptors: &[RawFd], limit: Option<Span>) {
        let is_idle = self.channel.outstanding() == 0 && limit.is_none();
        let Some(buffers) = self.buffers.as_mut().filter(|all| is_idle && all.has_free()) else {
            self.channel.wait_or_readable(&mut self.done, descriptors, limit);
            return;
        };
        let since = Instant::now();
        self.channel.wait_or_readable(&mut self.done, descriptors, Some(self.keep));
        if since.elapsed().as_nanos() >= u128::from(self.keep.0) {
            buffers.trim();
        }
    }
}
