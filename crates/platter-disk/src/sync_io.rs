//! Synchronous calls: they borrow memory, submit a bio and wait for it.
//!
//! Any number of threads may call; each is served by a lane of its own. A call transfers everything or
//! fails: short transfers are resumed by the queue, never passed on.

#![allow(unsafe_code)]

use crate::clock::Clock;
use crate::deferred::Section;
use crate::device::Device;
use platter_block::bio::{Bio, Flags, IoPrio, Op};
use platter_block::buf::add_memory;
use platter_block::fault::{Error, Fault, Kind, Stage, Status};
use platter_block::lane::Lane;
use platter_block::segment::RegionId;
use std::io::{IoSlice, IoSliceMut};

/// A lane and the bios that its calls use: one, and one more where a call needs several transfers.
pub(crate) struct SyncLane {
    lane: Box<dyn Lane>,
    clock: Clock,
    bios: Vec<Bio>,
    done: Vec<Bio>,
    /// The place and length of the last bio that failed, as it came back.
    failed: (u64, u64),
}

impl SyncLane {
    pub(crate) fn new(lane: Box<dyn Lane>, clock: Clock) -> SyncLane {
        SyncLane { lane, clock, bios: Vec::with_capacity(2), done: Vec::with_capacity(1), failed: (0, 0) }
    }

    fn take_bio(&mut self) -> Bio {
        self.bios.pop().unwrap_or_else(Bio::flush)
    }

    /// Submits a bio and waits until it comes back: this one, whatever else a lane may hand out, for it has
    /// memory that is only lent.
    fn run(&mut self, bio: Bio) -> Status {
        let lent = Lent;
        let identity = bio.identity();
        self.lane.submit(self.clock.now(), bio);
        let status = loop {
            self.lane.wait(self.clock.now(), None);
            self.lane.run(self.clock.now());
            self.lane.take_done(&mut self.done);
            let own = self.done.iter().position(|bio| bio.identity() == identity);
            if let Some(own) = own {
                let bio = self.done.swap_remove(own);
                self.done.clear();
                let status = bio.status();
                if status.is_err() {
                    self.failed = (bio.pos(), bio.len());
                }
                self.bios.push(bio);
                break status;
            }
        };
        std::mem::forget(lent);
        status
    }
}

/// The device has memory that a caller lent for the time of a call. The call cannot be left before the device
/// is done, not even by a panic (of a trace sink or an elevator, say): then the process ends.
struct Lent;

impl Drop for Lent {
    fn drop(&mut self) {
        eprintln!("platter: a panic while the device uses borrowed memory; aborting");
        std::process::abort();
    }
}

/// What goes with an I/O beside its place and memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct IoOptions {
    /// Flags, such as [`Flags::FUA`] or [`Flags::HARD_BARRIER`].
    pub flags: Flags,
    /// Priority.
    pub ioprio: IoPrio,
    /// On whose behalf, for elevators that are fair to contexts.
    pub context: platter_block::bio::Context,
}

impl IoOptions {
    /// Only flags.
    pub fn flags(flags: Flags) -> IoOptions {
        IoOptions { flags, ..IoOptions::default() }
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
    /// A range past the end, or whatever the device says. Memory and offsets without the device's alignment
    /// go through a bounce buffer, see [`crate::bounce`].
    #[inline]
    pub fn read_at(&self, buffer: &mut [u8], pos: u64) -> Result<(), Error> {
        if self.has_answered(buffer, pos) { Ok(()) } else { self.read_by_bio(buffer, pos) }
    }

    /// What is in memory needs no bio: whether all of `buffer` was read from there.
    #[inline]
    fn has_answered(&self, buffer: &mut [u8], pos: u64) -> bool {
        let Some(resident) = &self.inner.resident else { return false };
        let (size, len) = (self.size(), buffer.len() as u64);
        // What is no range of the device is refused further down.
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

    /// [`Device::write_at`] with flags, priority and context.
    ///
    /// # Errors
    /// As for [`Device::read_at`].
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

    /// Makes everything that has completed durable.
    ///
    /// # Errors
    /// Whatever the device says; after a failed flush, every later one, until it is acknowledged.
    pub fn flush(&self) -> Result<(), Error> {
        self.transfer(Op::Flush, 0, 0, &mut std::iter::empty(), IoOptions::default())
    }

    /// Makes durable what was written to the `len` bytes at `pos` (0: to the end of the device), as far as it has
    /// completed. A cache writes back no more than that; a disk makes everything durable.
    ///
    /// ```
    /// # let disk = platter_disk::device::Device::ram(1 << 20)?;
    /// disk.write_at(&[7; 4096], 8192)?;
    /// disk.flush_range(8192, 4096)?;
    /// # Ok::<(), platter_block::fault::Error>(())
    /// ```
    ///
    /// # Errors
    /// A range past the end; else as for [`Device::flush`].
    pub fn flush_range(&self, pos: u64, len: u64) -> Result<(), Error> {
        match self.range_to(Op::Flush, pos, len)? {
            0 => Ok(()),
            len => self.transfer(Op::Flush, pos, len, &mut std::iter::empty(), IoOptions::default()),
        }
    }

    /// The length of a range, where 0 stands for "to the end".
    pub(crate) fn range_to(&self, op: Op, pos: u64, len: u64) -> Result<u64, Error> {
        let rest = self.size().checked_sub(pos).filter(|&rest| len <= rest);
        let out = || self.error(Fault::new(Kind::OutOfRange, Stage::Handle), op, pos, len, String::new());
        rest.map(|rest| if len == 0 { rest } else { len }).ok_or_else(out)
    }

    /// Says that the contents of a range are no longer needed.
    ///
    /// # Errors
    /// A range past the end or off the device's granularity; a device that cannot discard.
    pub fn discard(&self, pos: u64, len: u64) -> Result<(), Error> {
        self.transfer(Op::Discard, pos, len, &mut std::iter::empty(), IoOptions::default())
    }

    /// Makes a range read as zeroes.
    ///
    /// # Errors
    /// A range past the end; a device that cannot do so.
    pub fn write_zeroes(&self, pos: u64, len: u64) -> Result<(), Error> {
        self.transfer(Op::WriteZeroes, pos, len, &mut std::iter::empty(), IoOptions::default())
    }

    /// One synchronous I/O over memory that the caller borrows for the time of the call.
    pub(crate) fn transfer(
        &self,
        op: Op,
        pos: u64,
        len: u64,
        parts: Parts<'_>,
        options: IoOptions,
    ) -> Result<(), Error> {
        let _section = Section::enter();
        let mut lane = self.checkout()?;
        let mut bio = lane.take_bio();
        bio.reset(op, pos, len);
        let mut built: Result<(), Fault> = Ok(());
        for (ptr, len) in parts {
            // SAFETY: the caller's borrow lasts until this call returns, and it does not return before the
            // bio has: `SyncLane::run` waits or aborts, and a bio flagged BORROWED is never given up by a timeout.
            built = built.and_then(|()| unsafe { add_memory(&mut bio, ptr, len, RegionId::NONE) });
        }
        bio.add_flags(options.flags | Flags::BORROWED | Flags::SYNC);
        bio.set_ioprio(options.ioprio);
        bio.set_context(options.context);
        self.submitter.sign(&mut bio);
        let status = match built {
            Ok(()) if self.inner.bouncer.needs(&bio) => self.bounced(&mut lane, bio),
            Ok(()) => lane.run(bio),
            Err(fault) => {
                lane.bios.push(bio);
                Err(fault)
            }
        };
        let failed = lane.failed;
        self.checkin(lane);
        status.map_err(|fault| self.transfer_error(fault, op, (pos, len), failed))
    }

    /// The error of a transfer of `asked` whose bio came back aimed at `failed`.
    #[cold]
    fn transfer_error(&self, fault: Fault, op: Op, asked: (u64, u64), failed: (u64, u64)) -> Error {
        let mut detail = self.place_of(fault, failed.0);
        // A cache says so what it could not write back.
        if op == Op::Flush && failed.1 > 0 && failed != asked {
            let separator = if detail.is_empty() { "" } else { "; " };
            let lost = format!("{} bytes at {} could not be written back", failed.1, failed.0);
            detail = format!("{lost}{separator}{detail}");
        }
        self.error(fault, op, asked.0, asked.1, detail)
    }

    fn bounced(&self, lane: &mut SyncLane, bio: Bio) -> Status {
        let status = self.inner.bouncer.run(&bio, |part| {
            let mut inner = lane.take_bio();
            match part.fill(&mut inner) {
                Ok(()) => lane.run(inner),
                Err(fault) => Err(fault),
            }
        });
        lane.bios.push(bio);
        status
    }
}

#[cfg(test)]
mod tests;
