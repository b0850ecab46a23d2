//! Synchronous calls: memory is borrowed, and time passes inside the call.

use super::submit::{By, Live};
use super::{Finding, Run};
use crate::soak::plan::{Io, Unsound};
use crate::soak::stamp::SECTOR;
use platter_block::bio::{Flags, Op};
use platter_block::fault::Error;
use platter_disk::device::Device;
use platter_disk::sync_io::IoOptions;

impl Run<'_> {
    /// One call, from its submission to its end.
    pub(super) fn call(&mut self, token: u64, mut live: Live, io: &Io) -> Result<(), Finding> {
        let device = self.caller(io)?;
        let plain = matches!(live.op, Op::Read | Op::Flush | Op::Discard | Op::WriteZeroes);
        if plain {
            // Only writes take flags.
            live.flags = Flags::NONE;
        }
        let mut memory = self.memory(token, &live, io.layout);
        let (mut pos, len) = (live.sector * SECTOR as u64, live.count * SECTOR as u64);
        match live.unsound {
            // A call may begin anywhere.
            Some(Unsound::Misplaced) => live.unsound = None,
            Some(Unsound::OutOfRange) => pos = device.size() + 512 - len.min(512),
            Some(Unsound::Empty) => {
                memory = self.memory(token, &Live { count: 0, ..live.clone() }, io.layout)
            }
            None => {}
        }
        live.by = By::Call;
        self.cover.calls += 1;
        self.live.insert(token, live.clone());
        self.place(token);
        self.watch_call(format!("a synchronous {} of {} sectors at {}", live.op, live.count, live.sector));
        let options = IoOptions { flags: live.flags, ioprio: io.ioprio, context: io.context };
        let result = match live.op {
            Op::Read => read(&device, &mut memory.slices_mut(), pos),
            Op::Write if memory.slices().len() == 1 => {
                device.write_at_with(&memory.slices()[0], pos, options)
            }
            Op::Write if live.flags == Flags::NONE => device.write_vectored_at(&memory.slices(), pos),
            Op::Write => device.write_at_with(&memory.gather(), pos, options),
            Op::Flush if live.count == 0 => device.flush(),
            Op::Flush => device.flush_range(pos, len),
            Op::Discard => device.discard(pos, len),
            Op::WriteZeroes => device.write_zeroes(pos, len),
        };
        self.world.end_call();
        self.complete(token, By::Call, result.map_err(|error| error.fault), Some(memory.gather()))
    }

    /// The device as a call uses it: itself, or through a handle, and on behalf of somebody.
    fn caller(&self, io: &Io) -> Result<Device, Finding> {
        let device = self.device()?;
        let handles = self.open.as_ref().map_or(&[][..], |open| &open.handles);
        let through = io.handle.filter(|_| !handles.is_empty());
        let device = through.map_or(device, |pick| handles[pick as usize % handles.len()].device());
        Ok(device.on_behalf_of(io.context).with_ioprio(io.ioprio))
    }
}

fn read(device: &Device, slices: &mut [std::io::IoSliceMut<'_>], pos: u64) -> Result<(), Error> {
    match slices {
        [one] => device.read_at(one, pos),
        many => device.read_vectored_at(many, pos),
    }
}
