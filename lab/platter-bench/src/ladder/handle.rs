//! An open device on a rung, which reads as that rung does.

use super::descriptor::{self, Open, SECTOR};
use super::table::{Switches, Unit, Vector};
use super::units::{self, Cut, Heads, Outcome};
use super::{Ladder, low};
use platter_block::backend::LaneUse;
use platter_block::bio::Op;
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_disk::device::Device;
use std::io::IoSliceMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A path to a [`Ladder`]'s device, for one caller at a time. Its reads transfer everything or fail.
pub struct Handle {
    device: Device,
    switches: Switches,
    bounced: Arc<AtomicU64>,
    waits: Arc<AtomicU64>,
    /// Set on the rungs below the last.
    raw: Option<Raw>,
}

/// An open raw device of 2.4.
struct Raw {
    open: Open,
    heads: Heads,
    cut: Cut,
}

impl Handle {
    pub(super) fn new(ladder: &Ladder) -> Result<Handle, Error> {
        let switches = ladder.switches;
        let device = ladder.device.clone();
        let open = if switches.unit == Unit::Call { None } else { Open::new(switches.descriptor) };
        let raw = open.map(|open| Raw::open(&device, &switches, open)).transpose()?;
        Ok(Handle {
            device,
            switches,
            bounced: Arc::clone(&ladder.bounced),
            waits: Arc::clone(&ladder.waits),
            raw,
        })
    }

    /// Bytes of the handle's descriptor in calls of `segments` buffers.
    pub fn descriptor_bytes(&self, segments: usize) -> usize {
        descriptor::bytes(self.switches.descriptor, segments)
    }

    /// Reads `buffer.len()` bytes at byte offset `pos`.
    ///
    /// # Errors
    /// The range reaches past the end, or the device fails. Below the last rung also: an offset, a length or
    /// a memory address that is no multiple of the sector, or an end beyond 2 TiB.
    pub fn read_at(&mut self, buffer: &mut [u8], pos: u64) -> Result<(), Error> {
        self.read_vectored_at(&mut [IoSliceMut::new(buffer)], pos)
    }

    /// Reads into several buffers in turn.
    ///
    /// # Errors
    /// As for [`Handle::read_at`].
    pub fn read_vectored_at(&mut self, buffers: &mut [IoSliceMut<'_>], pos: u64) -> Result<(), Error> {
        let Some(raw) = &mut self.raw else {
            self.waits.fetch_add(1, Ordering::Relaxed);
            return self.device.read_vectored_at(buffers, pos);
        };
        let len = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let mut outcome = Outcome { status: Ok(()), bounced: 0, waits: 0 };
        match raw.check(buffers, pos, len) {
            Err((kind, detail)) => {
                let fault = Fault::new(kind, Stage::Handle);
                return Err(self.device.error(fault, Op::Read, pos, len, detail));
            }
            Ok(()) if self.switches.vector == Vector::OneCall => raw.read(buffers, pos, &mut outcome),
            Ok(()) => {
                let mut at = pos;
                for one in buffers.chunks_mut(1) {
                    raw.read(one, at, &mut outcome);
                    if outcome.status.is_err() {
                        break;
                    }
                    at += one[0].len() as u64;
                }
            }
        }
        self.bounced.fetch_add(outcome.bounced, Ordering::Relaxed);
        self.waits.fetch_add(outcome.waits, Ordering::Relaxed);
        outcome.status.map_err(|fault| self.device.error(fault, Op::Read, pos, len, String::new()))
    }
}

impl Raw {
    fn open(device: &Device, switches: &Switches, open: Open) -> Result<Raw, Error> {
        let block = device.geometry().limits.logical_block;
        if block as usize > low::PAGE {
            let detail =
                format!("the device has blocks of {block} bytes; these rungs support at most {}", low::PAGE);
            return Err(device.error(Fault::new(Kind::Unsupported, Stage::Handle), Op::Read, 0, 0, detail));
        }
        Ok(Raw {
            open,
            heads: Heads::new(device.backend().open_lane(LaneUse::Synchronous)?),
            cut: Cut {
                sector: block.max(SECTOR as u32) as usize,
                pages: switches.unit == Unit::Page,
                bounce: switches.bounce,
            },
        })
    }

    /// Checks the restrictions that 2.4 had too.
    fn check(&self, buffers: &[IoSliceMut<'_>], pos: u64, len: u64) -> Result<(), (Kind, String)> {
        let sector = self.cut.sector;
        let bits = |buffer: &IoSliceMut<'_>| buffer.len() | buffer.as_ptr() as usize;
        let filled = buffers.iter().filter(|buffer| !buffer.is_empty());
        if filled.fold(pos as usize, |all, buffer| all | bits(buffer)) % sector != 0 {
            let what = "this rung takes offsets, lengths and memory addresses that are multiples of";
            return Err((Kind::Misaligned, format!("{what} {sector}")));
        }
        match pos.checked_add(len) {
            Some(end) if end / SECTOR <= u64::from(u32::MAX) => Ok(()),
            _ => Err((Kind::OutOfRange, "this rung has 32-bit block numbers: it ends at 2 TiB".to_string())),
        }
    }

    fn read(&mut self, buffers: &mut [IoSliceMut<'_>], pos: u64, outcome: &mut Outcome) {
        units::read(&mut self.heads, &mut self.open, buffers, pos, self.cut, outcome);
    }
}
