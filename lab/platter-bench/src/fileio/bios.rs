//! Files that are parts of a device, used with bios: for threads that do not wait, and simulated ones.

use super::FileioError;
use super::device::Cut;
use super::engine::{Engine, NAP, buffers};
use super::plan::{Mode, Plan};
use super::requests::Request;
use crate::load::Stuck;
use platter_block::bio::{Bio, Context, Flags, Op};
use platter_block::fault;
use platter_disk::channel::Channel;
use platter_disk::pool::PoolBuf;

/// Makes the bios of requests, with the slot as their token.
pub(super) struct Bios {
    cut: Cut,
    block: u64,
    /// Memory that no bio has yet.
    buffers: Vec<PoolBuf>,
    /// Of each slot the bios that are not with the device: one that reads, one that writes, one that flushes.
    idle: Vec<[Option<Bio>; 3]>,
}

fn kind(op: Op) -> usize {
    match op {
        Op::Read => 0,
        Op::Write => 1,
        _ => 2,
    }
}

impl Bios {
    /// Bios for `slots` slots, with the memory of `thread`.
    pub(super) fn new(plan: &Plan, cut: Cut, thread: u32, slots: u32) -> Result<Bios, FileioError> {
        let align = cut.device.geometry().limits.memory_align;
        let directions = if plan.mode == Mode::RndRw { 2 } else { 1 };
        let buffers = buffers(plan, thread, align, slots * directions)?;
        let idle = (0..slots).map(|_| [const { None }; 3]).collect();
        Ok(Bios { cut, block: plan.block, buffers, idle })
    }

    /// The bio of a request, on behalf of `thread`.
    pub(super) fn take(&mut self, slot: u32, request: Request, thread: u32) -> Result<Bio, FileioError> {
        let (op, file, pos, len) = match request {
            Request::Read { file, pos } => (Op::Read, file, pos, self.block),
            Request::Write { file, pos } => (Op::Write, file, pos, self.block),
            Request::Sync { file } => (Op::Flush, file, 0, self.cut.file_size),
        };
        let pos = self.cut.at(file, pos);
        let handle = self.cut.handle(thread, file).id();
        if let Some(mut bio) = self.idle[slot as usize][kind(op)].take() {
            bio.rewind(pos, len);
            bio.set_handle(handle);
            return Ok(bio);
        }
        let mut bio = match (op, self.buffers.pop()) {
            (Op::Read, Some(buffer)) => {
                Bio::read(pos, buffer).map_err(|fault| self.error(fault, op, pos, len))?
            }
            (Op::Write, Some(buffer)) => {
                Bio::write(pos, buffer).map_err(|fault| self.error(fault, op, pos, len))?
            }
            (_, unused) => {
                self.buffers.extend(unused);
                Bio::new(op, pos, len)
            }
        };
        if op == Op::Write {
            // The thread waits for it, as it does for reads without saying so.
            bio.add_flags(Flags::SYNC);
        }
        bio.set_token(slot.into());
        bio.set_handle(handle);
        bio.set_context(Context::new(thread + 1));
        Ok(bio)
    }

    /// Takes a bio back that has completed; its slot.
    pub(super) fn put(&mut self, bio: Bio) -> Result<u32, FileioError> {
        let slot = bio.token() as u32;
        if let Err(fault) = bio.status() {
            return Err(self.error(fault, bio.op(), bio.pos() - bio.done(), bio.len()));
        }
        let kind = kind(bio.op());
        self.idle[slot as usize][kind] = Some(bio);
        Ok(slot)
    }

    fn error(&self, fault: fault::Fault, op: Op, offset: u64, len: u64) -> FileioError {
        let (device, detail) = (self.cut.device.name(), String::new());
        fault::Error { fault, op, device, offset, len, detail }.into()
    }
}

/// A thread with its own channel.
pub(super) struct Polled {
    thread: u32,
    bios: Bios,
    channel: Channel,
    done: Vec<Bio>,
}

impl Polled {
    pub(super) fn new(plan: &Plan, cut: &Cut, thread: u32) -> Result<Polled, FileioError> {
        let channel = cut.device.channel(plan.depth() as usize)?;
        let bios = Bios::new(plan, cut.clone(), thread, plan.depth())?;
        Ok(Polled { thread, bios, channel, done: Vec::new() })
    }
}

/// Hands a bio over; there is room for one of each slot.
pub(super) fn submit(channel: &mut Channel, bio: Bio) -> Result<(), FileioError> {
    let ios = channel.outstanding();
    channel.submit(bio).map_err(|_| Stuck { ios }.into())
}

impl Engine for Polled {
    fn start(&mut self, slot: u32, request: Request) -> Result<(), FileioError> {
        let bio = self.bios.take(slot, request, self.thread)?;
        submit(&mut self.channel, bio)
    }

    fn wait(&mut self, done: &mut Vec<u32>) -> Result<(), FileioError> {
        self.channel.wait(&mut self.done, Some(NAP));
        for bio in self.done.drain(..) {
            done.push(self.bios.put(bio)?);
        }
        Ok(())
    }
}
