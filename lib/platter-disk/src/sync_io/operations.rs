//! The synchronous calls beside `read_at`, which all end in `Device::transfer`, and the errors of calls.

use super::IoOptions;
use crate::byte_range::ByteRange;
use crate::device::Device;
use platter_block::bio::{Flags, Op};
use platter_block::fault::{Error, Fault, Kind, Stage};
use std::io::{IoSlice, IoSliceMut};

impl Device {
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

    /// The error of a transfer of range `asked` whose bio came back aimed at range `failed`.
    #[cold]
    pub(super) fn transfer_error(&self, fault: Fault, op: Op, asked: ByteRange, failed: ByteRange) -> Error {
        let mut detail = self.place_of(fault, failed.pos);
        // A cache reports in this way what it could not write back.
        if op == Op::Flush && failed.len > 0 && failed != asked {
            let separator = if detail.is_empty() { "" } else { "; " };
            let lost = format!("{} bytes at {} could not be written back", failed.len, failed.pos);
            detail = format!("{lost}{separator}{detail}");
        }
        self.error(fault, op, asked.pos, asked.len, detail)
    }
}
