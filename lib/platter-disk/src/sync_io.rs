//! Synchronous calls: they borrow memory, submit a bio and wait for it.
//!
//! Any number of threads may call. Each call has a lane to itself; if all lanes that the device allows
//! ([`Backend::max_lanes`](platter_block::backend::Backend::max_lanes)) are in use, further callers wait for one. A
//! call transfers everything or fails: short transfers are resumed by the queue and never returned to the caller.
//!
//! A call with a timeout, its own ([`IoOptions::timeout`]) or the device's, ends by that time even if the device does
//! not respond. For that, its data is copied through memory of the library (`bytes_bounced` of the
//! [counters](Device::counters)), and it goes over a lane of the device's futures, where the bio can stay. The service thread
//! is between the disk and the call then, so it costs more processor time and changes of threads (`platter bench locks` shows both). All other calls lend the caller's memory to the device and wait
//! for it without a limit.

#![allow(unsafe_code)]

use crate::byte_range::ByteRange;
use crate::deferred::Section;
use crate::device::Device;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::buf::add_memory;
use platter_block::fault::{Error, Fault};
use platter_block::limits::Limits;
use platter_block::segment::RegionId;
use std::sync::atomic::{AtomicU64, Ordering};

mod commands;
mod copied;
mod edges;
mod lane;
mod operations;
mod options;

pub use commands::CommandData;
use copied::Copied;
use edges::Edges;
pub(crate) use lane::SyncLane;
pub use options::IoOptions;

/// Memory of one call: pointers that the call borrows.
pub(crate) type Parts<'a> = &'a mut dyn Iterator<Item = (*mut u8, usize)>;

impl Device {
    /// Reads `buffer.len()` bytes at byte offset `pos`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let disk = platter_disk::device::Device::ram(1 << 20)?;
    /// disk.write_at(&[7; 4096], 512)?;
    /// let mut buffer = [0; 512];
    /// disk.read_at(&mut buffer, 4096)?;
    /// assert_eq!(buffer, [7; 512]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The range reaches past the end, or the device fails. Misaligned memory and offsets go through a bounce buffer,
    /// see [`crate::bounce`].
    #[inline]
    pub fn read_at(&self, buffer: &mut [u8], pos: u64) -> Result<(), Error> {
        if self.has_answered(buffer, pos) { Ok(()) } else { self.read_by_bio(buffer, pos) }
    }

    /// Reads from the device's memory without a bio; returns whether all of `buffer` was read.
    #[inline]
    fn has_answered(&self, buffer: &mut [u8], pos: u64) -> bool {
        let Some(resident) = &self.inner.resident else { return false };
        let (size, len) = (self.size(), buffer.len() as u64);
        // Invalid ranges are refused further down. While a change is late, what overlaps it waits there.
        let is_sound = len != 0 && pos <= size && len <= size - pos;
        is_sound && self.inner.background.fence.is_empty() && resident.read(pos, buffer)
    }

    pub(crate) fn read_by_bio(&self, buffer: &mut [u8], pos: u64) -> Result<(), Error> {
        let (ptr, len) = (buffer.as_mut_ptr(), buffer.len());
        self.transfer(Op::Read, pos, len as u64, &mut std::iter::once((ptr, len)), IoOptions::default())
    }

    /// One synchronous I/O over memory that the caller borrows for the duration of the call.
    pub(crate) fn transfer(
        &self,
        op: Op,
        pos: u64,
        len: u64,
        parts: Parts<'_>,
        options: IoOptions,
    ) -> Result<(), Error> {
        // Code of the program is deferred until the call is over, because it could need resources that the call holds.
        let _section = Section::enter();
        let inner = &*self.inner;
        inner.background.place_before(options.flags);
        let until = self.until(op, options);
        let has_deadline = until.is_some();
        let mut turn = inner.callers.take(inner, has_deadline)?;
        let lane = turn.lane();
        let mut bio = lane.take_bio();
        bio.reset(op, pos, len);
        let mut built: Result<(), Fault> = Ok(());
        for (ptr, len) in parts {
            // SAFETY: the caller's borrow lasts until this call returns. If a bio with this memory is submitted, it
            // is flagged BORROWED, so no deadline ends it, and `SyncLane::run` waits for it or aborts. If it is
            // not submitted, its memory is only copied from and to in this call.
            built = built.and_then(|()| unsafe { add_memory(&mut bio, ptr, len, RegionId::NONE) });
        }
        let lent = if op.has_data() { Flags::BORROWED } else { Flags::NONE };
        bio.add_flags(options.flags | lent | Flags::SYNC);
        bio.set_ioprio(options.ioprio);
        bio.set_context(options.context);
        bio.set_deadline(until);
        self.submitter.sign(&mut bio);
        let size = self.size();
        let status = match built {
            Ok(()) if inner.copy_rules.needs(&bio, size, has_deadline) => {
                let mut copied = Copied { rules: &inner.copy_rules, lane, size, until };
                let status = copied.run(&mut bio);
                lane.bios.push(bio);
                status
            }
            Ok(()) => lane.run(bio, until),
            Err(fault) => {
                lane.bios.push(bio);
                Err(fault)
            }
        };
        let failed = lane.failed;
        turn.end();
        status.map_err(|fault| self.transfer_error(fault, op, ByteRange { pos, len }, failed))
    }
}

/// Largest part of a call that is copied at once, in bytes.
pub(crate) const PIECE: u64 = 8 << 20;

/// Decides which synchronous transfers of a device are copied through memory of the library, and counts the copied
/// bytes.
pub(crate) struct CopyRules {
    pub(crate) limits: Limits,
    /// Whether misaligned transfers are copied; otherwise they fail.
    is_allowed: bool,
    /// Blocks that writes cover only in part, while they are read and written back.
    pub(crate) edges: Edges,
    bytes: AtomicU64,
}

impl CopyRules {
    pub(crate) fn new(limits: Limits, is_allowed: bool) -> CopyRules {
        CopyRules { limits, is_allowed, edges: Edges::default(), bytes: AtomicU64::new(0) }
    }

    /// Bytes copied so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether a bio of a synchronous call must be copied on a device of `size` bytes: because its offset or
    /// length is misaligned, because it is large and its memory would be copied anyway, or because the call may end
    /// (`has_deadline`) before the device has finished with the memory. A bio with another fault is passed down
    /// unchanged, to be refused there.
    ///
    /// Its memory is looked at only if the transfer is large; the lane of the disk checks that of all bios.
    #[inline]
    pub(crate) fn needs(&self, bio: &Bio, size: u64, has_deadline: bool) -> bool {
        let (pos, len) = (bio.pos(), bio.len());
        if !bio.op().has_data() || len == 0 || pos.checked_add(len).is_none_or(|end| end > size) {
            return false;
        }
        let is_misplaced = self.limits.is_misplaced(pos, len, size);
        let is_unsound = || self.limits.check_memory(bio, size).is_err();
        match (self.is_allowed, has_deadline) {
            (true, true) => true,
            (true, false) => is_misplaced || (len > PIECE && is_unsound()),
            (false, true) => !is_misplaced && !is_unsound(),
            (false, false) => false,
        }
    }
}

#[cfg(test)]
mod tests;
