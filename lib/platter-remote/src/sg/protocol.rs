//! Requests as SCSI commands to a node, and what follows from the answers.

#![allow(unsafe_code)]

use super::shared::Shared;
use super::verdict::judge;
use super::work::Work;
use crate::buffers::Buffers;
use crate::passed::{Next, Protocol};
use crate::slots::{Kept, Slot};
use crate::unflushed::Change;
use platter_block::bio::Op;
use platter_block::command::{CommandSet, Outcome, Sense};
use platter_block::driver::Started;
use platter_scsi::host::encode;
use platter_scsi::host::verdict::{Judged, Verdict};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How often a request is sent at most, if each time the unit asks for it again.
const ATTEMPTS: u8 = 6;

/// The commands to a node.
pub(super) struct Sg(pub(super) Arc<Shared>);

/// The memory of a request, and its command while the carrier does not have it.
#[derive(Default)]
pub(super) struct Parcel {
    buffers: Buffers,
    work: Option<Box<Work>>,
}

impl Kept for Parcel {
    // SAFETY: as the trait says.
    unsafe fn lend(&mut self, request: &Started<'_>) {
        // SAFETY: the same promise.
        unsafe { self.buffers.lend(request) };
    }

    fn clear(&mut self) {
        self.buffers.clear();
    }
}

impl Protocol for Sg {
    type Kept = Parcel;
    type Message = Box<Work>;
    type Answer = Box<Work>;

    fn takes(&self, set: CommandSet) -> bool {
        set == CommandSet::Scsi
    }

    fn begin_flush(&self) -> u64 {
        self.0.unflushed.begin_flush()
    }

    fn message(&self, index: u32, slot: &mut Slot<Parcel>) -> Box<Work> {
        let shared = &self.0;
        let mut work = slot.kept.work.take().unwrap_or_else(|| Work::new(shared.node.interface));
        let timeout = slot.command.as_ref().and_then(|command| command.timeout());
        let timeout = timeout.unwrap_or(shared.options.command_timeout).0.div_ceil(1_000_000);
        work.index = index;
        work.terms.timeout_ms = u32::try_from(timeout.max(1)).unwrap_or(u32::MAX);
        work.terms.at_head = slot.command.as_ref().is_some_and(|command| command.is_at_head());
        work.buffers = std::mem::take(&mut slot.kept.buffers);
        match &slot.command {
            Some(command) => {
                work.set_command(command.bytes());
                work.terms.transfer = command.transfer();
            }
            None => {
                let block = shared.found.block;
                let (lba, count) = (slot.pos / block, (slot.len / block) as u32);
                let (bytes, way, own) = encode::command(slot.op, lba, count, slot.fua, block as usize);
                work.set_command(bytes.get());
                work.terms.transfer = way;
                if let Some(own) = own {
                    work.buffers = Buffers::own(own);
                }
            }
        }
        work
    }

    fn refused(&self, slot: &mut Slot<Parcel>, mut work: Box<Work>) {
        slot.kept.buffers = std::mem::take(&mut work.buffers);
        slot.kept.work = Some(work);
    }

    // SAFETY: the memory of the command is as the trait says.
    unsafe fn execute(file: &File, mut work: Box<Work>) -> Box<Work> {
        if let Err(error) = work.execute(file) {
            work.errno = error.raw_os_error().unwrap_or(libc::EIO);
        }
        work
    }

    fn index(work: &Box<Work>) -> u32 {
        work.index
    }

    fn answered(&self, slot: &mut Slot<Parcel>, work: Box<Work>) -> Next {
        let shared = &self.0;
        let (returned, errno, sense) = (work.returned(), work.errno, Sense::new(work.sense()));
        self.refused(slot, work);
        let Some(returned) = returned else { return Next::Report(-i64::from(errno)) };
        if returned.is_direct {
            shared.counts.direct.fetch_add(1, Ordering::Relaxed);
        }
        let missing = u64::from(returned.residual);
        let good = if slot.op.has_data() { slot.len.saturating_sub(missing) as i64 } else { 0 };
        if returned.status == 0 && returned.transport == 0 && slot.command.is_none() {
            return Next::Report(good);
        }
        let judged = judge(&returned, sense.bytes());
        if judged.deferred {
            shared.unflushed.suspect();
        }
        if let Verdict::Reset { power: true } = judged.verdict {
            shared.unflushed.lost();
        }
        let Some(command) = &slot.command else { return self.judged(slot, judged, good) };
        command.set_outcome(&Outcome {
            status: u16::from(returned.status),
            transport: returned.transport,
            residual: returned.residual,
            sense,
            ..Outcome::GOOD
        });
        Next::Report(match judged.verdict {
            Verdict::Good => slot.len.saturating_sub(missing) as i64,
            // Never sent again: only its submitter knows what that would do.
            Verdict::Again | Verdict::Reset { .. } => -i64::from(libc::EREMOTEIO),
            Verdict::Busy => -i64::from(libc::EBUSY),
            Verdict::Failed(errno) => -i64::from(errno),
            Verdict::Lost => -i64::from(libc::EIO),
        })
    }

    fn ended(&self, slot: &Slot<Parcel>, result: i64) -> i64 {
        let shared = &self.0;
        if result >= 0 && slot.changes() {
            let (op, pos, len, fua) = (slot.op, slot.pos, slot.len, slot.fua);
            shared.unflushed.changed(&Change { op, pos, len, fua, copy: &Vec::new });
        }
        if result >= 0 && slot.op == Op::Flush && !shared.unflushed.flushed(slot.covers) {
            shared
                .trouble
                .report("a flush failed: the disk may have lost earlier writes when its power was lost");
            return -i64::from(libc::EIO);
        }
        result
    }
}

impl Sg {
    /// Does what the answer to an ordinary request asks for. `good`: its result, if that is success.
    fn judged(&self, slot: &mut Slot<Parcel>, judged: Judged, good: i64) -> Next {
        let shared = &self.0;
        let Judged { verdict, why, .. } = judged;
        let errno = match verdict {
            Verdict::Good => return Next::Report(good),
            Verdict::Again | Verdict::Reset { .. } if slot.attempts + 1 < ATTEMPTS => {
                slot.attempts += 1;
                shared.counts.repeated.fetch_add(1, Ordering::Relaxed);
                return Next::Again;
            }
            Verdict::Busy => {
                shared.counts.busy.fetch_add(1, Ordering::Relaxed);
                return Next::Report(-i64::from(libc::EAGAIN));
            }
            // A unit without a cache need not know the command.
            Verdict::Failed(libc::EOPNOTSUPP) if slot.op == Op::Flush => return Next::Report(0),
            Verdict::Failed(errno) => errno,
            Verdict::Again | Verdict::Reset { .. } | Verdict::Lost => libc::EIO,
        };
        shared.trouble.report(&why);
        Next::Report(-i64::from(errno))
    }
}
