//! Synchronous calls: they borrow memory, submit a bio and wait for it.
//!
//! Any number of threads may call. Each call has a lane to itself; if all lanes that the device allows
//! ([`Backend::max_lanes`](platter_block::backend::Backend::max_lanes)) are in use, further callers wait for one. A
//! call transfers everything or fails: short transfers are resumed by the queue and never returned to the caller.
//!
//! A call with a timeout, its own ([`IoOptions::timeout`]) or the device's, ends by that time even if the device does
//! not respond. For that, its data is copied through memory of the library (`bytes_bounced` of the
//! [counters](Device::counters)). All other calls lend the caller's memory to the device and wait for it without a
//! limit.

#![allow(unsafe_code)]

use crate::byte_range::ByteRange;
use crate::deferred::Section;
use crate::device::Device;
use crate::lane_pool::NoLane;
use platter_block::bio::{Flags, IoPrio, Op};
use platter_block::buf::add_memory;
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::segment::RegionId;
use platter_block::time::Span;
use std::io::{IoSlice, IoSliceMut};

mod copied;
mod lane;
mod rules;

use copied::Copied;
pub(crate) use lane::SyncLane;
pub(crate) use rules::CopyRules;

/// Options of an I/O.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct IoOptions {
    /// Flags, such as [`Flags::FUA`] or [`Flags::HARD_BARRIER`].
    pub flags: Flags,
    /// Priority.
    pub ioprio: IoPrio,
    /// The context on whose behalf it runs, for fair elevators.
    pub context: platter_block::bio::Context,
    /// The longest time from submission to the end of the I/O, in the time of the device's clock; afterwards it fails
    /// with [`Kind::TimedOut`]. A write that fails so may still be carried out. `None`: only the device's own timeout
    /// applies, if it has one.
    pub timeout: Option<Span>,
}

platter_block::setters! {
    const IoOptions {
        flags, with_flags: Flags;
        ioprio, with_ioprio: IoPrio;
        context, with_context: platter_block::bio::Context;
        timeout, with_timeout: Option<Span>;
    }
}

impl IoOptions {
    /// Options with only these flags.
    pub fn flags(flags: Flags) -> IoOptions {
        IoOptions { flags, ..IoOptions::default() }
    }

    /// Options with only this timeout.
    pub fn timeout(timeout: Span) -> IoOptions {
        IoOptions { timeout: Some(timeout), ..IoOptions::default() }
    }
}

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

    /// [`Device::read_at`] with flags, priority, context and timeout.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use platter_block::time::Span;
    /// use platter_disk::{device::Device, sync_io::IoOptions};
    /// let disk = Device::ram(1 << 20)?;
    /// disk.read_at_with(&mut [0; 512], 0, IoOptions::timeout(Span::from_millis(500)))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Device::read_at`]; [`Kind::TimedOut`]. After a timeout `buffer` is unchanged, except for complete
    /// pieces of 8 MiB of a larger call.
    pub fn read_at_with(&self, buffer: &mut [u8], pos: u64, options: IoOptions) -> Result<(), Error> {
        if self.has_answered(buffer, pos) {
            return Ok(());
        }
        let (ptr, len) = (buffer.as_mut_ptr(), buffer.len());
        self.transfer(Op::Read, pos, len as u64, &mut std::iter::once((ptr, len)), options)
    }

    /// Reads from the device's memory without a bio; returns whether all of `buffer` was read.
    #[inline]
    fn has_answered(&self, buffer: &mut [u8], pos: u64) -> bool {
        let Some(resident) = &self.inner.resident else { return false };
        let (size, len) = (self.size(), buffer.len() as u64);
        // Invalid ranges are refused further down.
        len != 0 && pos <= size && len <= size - pos && resident.read(pos, buffer)
    }

    pub(crate) fn read_by_bio(&self, buffer: &mut [u8], pos: u64) -> Result<(), Error> {
        let (ptr, len) = (buffer.as_mut_ptr(), buffer.len());
        self.transfer(Op::Read, pos, len as u64, &mut std::iter::once((ptr, len)), IoOptions::default())
    }

    /// Writes all of `data` at byte offset `pos`.
    ///
    /// # Errors
    /// As for [`Device::read_at`].
    pub fn write_at(&self, data: &[u8], pos: u64) -> Result<(), Error> {
        self.write_at_with(data, pos, IoOptions::default())
    }

    /// [`Device::write_at`] with flags, priority, context and timeout.
    ///
    /// # Errors
    /// As for [`Device::read_at_with`].
    pub fn write_at_with(&self, data: &[u8], pos: u64, options: IoOptions) -> Result<(), Error> {
        let (ptr, len) = (data.as_ptr().cast_mut(), data.len());
        self.transfer(Op::Write, pos, len as u64, &mut std::iter::once((ptr, len)), options)
    }

    /// Reads into several buffers in turn: one bio, one request, one system call.
    ///
    /// # Errors
    /// As for [`Device::read_at`]; more buffers than a bio can have segments.
    pub fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], pos: u64) -> Result<(), Error> {
        let mut place = pos;
        let mut answered = |buffer: &mut IoSliceMut<'_>| {
            let at = place;
            place = place.saturating_add(buffer.len() as u64);
            self.has_answered(buffer, at)
        };
        if !buffers.is_empty() && buffers.iter_mut().all(&mut answered) {
            return Ok(());
        }
        let len = buffers.iter().map(|b| b.len() as u64).sum();
        let mut parts = buffers.iter_mut().map(|b| (b.as_mut_ptr(), b.len()));
        self.transfer(Op::Read, pos, len, &mut parts, IoOptions::default())
    }

    /// Writes several buffers in turn: one bio, one request, one system call.
    ///
    /// # Errors
    /// As for [`Device::read_vectored_at`].
    pub fn write_vectored_at(&self, buffers: &[IoSlice<'_>], pos: u64) -> Result<(), Error> {
        let len = buffers.iter().map(|b| b.len() as u64).sum();
        let mut parts = buffers.iter().map(|b| (b.as_ptr().cast_mut(), b.len()));
        self.transfer(Op::Write, pos, len, &mut parts, IoOptions::default())
    }

    /// Writes all of `data` at byte offset `pos`. When the call returns, the data is durable, as after a write with
    /// [`Flags::FUA`]: on a disk without durable writes a flush follows the write.
    ///
    /// ```
    /// # let disk = platter_disk::device::Device::ram(1 << 20)?;
    /// disk.write_durable_at(&[7; 4096], 8192)?;
    /// # Ok::<(), platter_block::fault::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Device::write_at`] and [`Device::flush`].
    pub fn write_durable_at(&self, data: &[u8], pos: u64) -> Result<(), Error> {
        self.write_at_with(data, pos, IoOptions::flags(Flags::FUA))
    }

    /// Makes everything that has completed durable.
    ///
    /// # Errors
    /// The device fails; after a failed flush every later one fails until the failure is acknowledged.
    pub fn flush(&self) -> Result<(), Error> {
        self.flush_with(IoOptions::default())
    }

    /// [`Device::flush`] with flags, priority, context and timeout.
    ///
    /// # Errors
    /// As for [`Device::flush`]; [`Kind::TimedOut`].
    pub fn flush_with(&self, options: IoOptions) -> Result<(), Error> {
        self.operation(Op::Flush, 0, 0, options)
    }

    /// Makes writes to the `len` bytes at `pos` (0: to the end of the device) durable, as far as they have completed.
    /// A cache writes back only that range; a disk makes everything durable.
    ///
    /// ```
    /// # let disk = platter_disk::device::Device::ram(1 << 20)?;
    /// disk.write_at(&[7; 4096], 8192)?;
    /// disk.flush_range(8192, 4096)?;
    /// # Ok::<(), platter_block::fault::Error>(())
    /// ```
    ///
    /// # Errors
    /// The range reaches past the end; otherwise as for [`Device::flush`].
    pub fn flush_range(&self, pos: u64, len: u64) -> Result<(), Error> {
        match self.range_to(Op::Flush, pos, len)? {
            0 => Ok(()),
            len => self.operation(Op::Flush, pos, len, IoOptions::default()),
        }
    }

    /// The length of a range, where 0 means "to the end".
    pub(crate) fn range_to(&self, op: Op, pos: u64, len: u64) -> Result<u64, Error> {
        let rest = self.size().checked_sub(pos).filter(|&rest| len <= rest);
        let out = || {
            // As for I/O: a range that the device once had is gone.
            let was_inside = pos.checked_add(len).is_some_and(|end| end <= self.largest());
            let kind = if was_inside { Kind::Gone } else { Kind::OutOfRange };
            self.error(Fault::new(kind, Stage::Handle), op, pos, len, String::new())
        };
        rest.map(|rest| if len == 0 { rest } else { len }).ok_or_else(out)
    }

    /// Tells the device that the contents of a range are no longer needed.
    ///
    /// # Errors
    /// The range reaches past the end or does not match the device's granularity, or the device does not support
    /// discards.
    pub fn discard(&self, pos: u64, len: u64) -> Result<(), Error> {
        self.discard_with(pos, len, IoOptions::default())
    }

    /// [`Device::discard`] with flags, priority, context and timeout.
    ///
    /// ```
    /// use platter_block::{bio::Flags, time::Span};
    /// use platter_disk::{device::Device, sync_io::IoOptions};
    /// let disk = Device::ram(1 << 20)?;
    /// // Durable when the call returns, after at most half a second.
    /// let options = IoOptions::flags(Flags::FUA).with_timeout(Some(Span::from_millis(500)));
    /// disk.discard_with(8192, 4096, options)?;
    /// # Ok::<(), platter_block::fault::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Device::discard`]; [`Kind::TimedOut`].
    pub fn discard_with(&self, pos: u64, len: u64, options: IoOptions) -> Result<(), Error> {
        self.operation(Op::Discard, pos, len, options)
    }

    /// Makes a range read as zeroes.
    ///
    /// # Errors
    /// The range reaches past the end, or the device does not support the operation.
    pub fn write_zeroes(&self, pos: u64, len: u64) -> Result<(), Error> {
        self.write_zeroes_with(pos, len, IoOptions::default())
    }

    /// [`Device::write_zeroes`] with flags, priority, context and timeout.
    ///
    /// # Errors
    /// As for [`Device::write_zeroes`]; [`Kind::TimedOut`].
    pub fn write_zeroes_with(&self, pos: u64, len: u64, options: IoOptions) -> Result<(), Error> {
        self.operation(Op::WriteZeroes, pos, len, options)
    }

    /// An operation without data.
    fn operation(&self, op: Op, pos: u64, len: u64, options: IoOptions) -> Result<(), Error> {
        self.transfer(op, pos, len, &mut std::iter::empty(), options)
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
        // Code of the program is deferred until the call is over, because it could need resources that the call
        // holds.
        let _section = Section::enter();
        let inner = &*self.inner;
        let until = options.timeout.map(|span| inner.clock.now() + span);
        let mut turn = inner.callers.take(inner, until).map_err(|no| self.no_lane(no, op, pos, len))?;
        let lane = turn.lane();
        let mut bio = lane.take_bio();
        bio.reset(op, pos, len);
        let mut built: Result<(), Fault> = Ok(());
        for (ptr, len) in parts {
            // SAFETY: the caller's borrow lasts until this call returns. If a bio with this memory is submitted, it
            // is flagged BORROWED, so no timeout gives it up, and `SyncLane::run` waits for it or aborts. If it is
            // not submitted, its memory is only copied from and to in this call.
            built = built.and_then(|()| unsafe { add_memory(&mut bio, ptr, len, RegionId::NONE) });
        }
        let lent = if op.has_data() { Flags::BORROWED } else { Flags::NONE };
        bio.add_flags(options.flags | lent | Flags::SYNC);
        bio.set_ioprio(options.ioprio);
        bio.set_context(options.context);
        bio.set_deadline(until);
        self.submitter.sign(&mut bio);
        let (size, has_deadline) = (self.size(), until.is_some() || inner.timeout.is_some());
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

    /// The error of a transfer of range `asked` whose bio came back aimed at range `failed`.
    #[cold]
    fn transfer_error(&self, fault: Fault, op: Op, asked: ByteRange, failed: ByteRange) -> Error {
        let mut detail = self.place_of(fault, failed.pos);
        // A cache reports in this way what it could not write back.
        if op == Op::Flush && failed.len > 0 && failed != asked {
            let separator = if detail.is_empty() { "" } else { "; " };
            let lost = format!("{} bytes at {} could not be written back", failed.len, failed.pos);
            detail = format!("{lost}{separator}{detail}");
        }
        self.error(fault, op, asked.pos, asked.len, detail)
    }

    /// The error of a call that got no lane.
    #[cold]
    fn no_lane(&self, no: NoLane<Error>, op: Op, pos: u64, len: u64) -> Error {
        let (kind, detail) = match no {
            NoLane::Failed(error) => return error,
            NoLane::Late => (Kind::TimedOut, "all lanes of the device were in use".to_string()),
            NoLane::AllAside => {
                let most = self.inner.callers.most();
                (Kind::Stuck, format!("all {most} lanes of the device wait for requests that timed out"))
            }
        };
        self.error(Fault::new(kind, Stage::Handle), op, pos, len, detail)
    }
}

#[cfg(test)]
mod tests;
