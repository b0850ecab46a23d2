//! Synchronous calls: they borrow memory, submit a bio and wait for it.
//!
//! Any number of threads may call; each is served by a lane of its own. A call transfers everything or
//! fails: short transfers are resumed by the queue, never passed on.

#![allow(unsafe_code)]

use crate::clock::Clock;
use crate::device::Device;
use platter_block::bio::{Bio, Flags, IoPrio, Op};
use platter_block::buf::add_memory;
use platter_block::fault::{Error, Fault, Status};
use platter_block::lane::Lane;
use platter_block::segment::RegionId;
use std::io::{IoSlice, IoSliceMut};

/// A lane and the bios that its calls use: one, and one more where a call needs several transfers.
pub(crate) struct SyncLane {
    lane: Box<dyn Lane>,
    clock: Clock,
    bios: Vec<Bio>,
    done: Vec<Bio>,
    /// Where the last bio that failed did.
    failed_at: u64,
}

impl SyncLane {
    pub(crate) fn new(lane: Box<dyn Lane>, clock: Clock) -> SyncLane {
        SyncLane { lane, clock, bios: Vec::with_capacity(2), done: Vec::with_capacity(1), failed_at: 0 }
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
                    self.failed_at = bio.pos();
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
    pub fn read_at(&self, buffer: &mut [u8], pos: u64) -> Result<(), Error> {
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
        let failed_at = lane.failed_at;
        self.checkin(lane);
        status.map_err(|fault| self.error(fault, op, pos, len, self.place_of(fault, failed_at)))
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
