//! Synchronous calls: memory is borrowed, and time passes inside the call.

use super::submit::{By, Live};
use super::{Finding, Run};
use crate::soak::plan::{Io, Unsound};
use crate::soak::stamp::SECTOR;
use platter_block::bio::{Flags, Op};
use platter_block::fault::Error;
use platter_disk::device::Device;
use platter_disk::sync_io::IoOptions;

/// Most times that abandoned futures are run before a call.
const TURNS: u32 = 10_000;

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
        let mut pos = live.sector * SECTOR as u64;
        match live.unsound {
            // A call may begin anywhere.
            Some(Unsound::Misplaced) => {
                live.unsound = None;
                self.misplace(token, &mut live)?;
                pos = live.sector * SECTOR as u64;
                memory = self.memory(token, &live, io.layout);
            }
            Some(Unsound::OutOfRange) => {
                pos = self.open.as_ref().map_or(0, |open| open.map.len() as u64 * SECTOR as u64);
            }
            Some(Unsound::Empty) => {
                memory = self.memory(token, &Live { count: 0, ..live.clone() }, io.layout)
            }
            None => {}
        }
        live.by = By::Call;
        self.clear_the_way()?;
        live.submitted = self.now();
        self.cover.calls += 1;
        self.live.insert(token, live.clone());
        self.place(token);
        let oldest = self.oldest_commands();
        let own = self.judged.late.values().any(|late| live.overlaps(late.sector, late.count));
        self.cover.late_calls += u64::from(own);
        self.watch_call(format!("a synchronous {} of {} sectors at {}", live.op, live.count, live.sector));
        let options =
            IoOptions::default().with_flags(live.flags).with_ioprio(io.ioprio).with_context(io.context);
        let result = match live.op {
            Op::Read => read(&device, &mut memory.slices_mut(), pos),
            Op::Write if memory.slices().len() == 1 => {
                device.write_at_with(&memory.slices()[0], pos, options)
            }
            Op::Write if live.flags == Flags::NONE => device.write_vectored_at(&memory.slices(), pos),
            Op::Write => device.write_at_with(&memory.gather(), pos, options),
            Op::Flush if live.count == 0 => device.flush(),
            Op::Flush => device.flush_range(pos, live.count * SECTOR as u64),
            Op::Discard => device.discard(pos, live.count * SECTOR as u64),
            Op::WriteZeroes => device.write_zeroes(pos, live.count * SECTOR as u64),
            Op::Command => unreachable!("no plan has commands"),
        };
        self.world.end_call();
        self.look_back(&oldest);
        self.judged.called = Some(self.now());
        self.complete(token, By::Call, result.map_err(|error| error.fault), Some(memory.gather()))
    }

    /// Nothing runs concurrently with a call here, whereas otherwise the service thread runs abandoned futures; and
    /// channels that are not polled may hold the whole budget of a `limit`.
    fn clear_the_way(&mut self) -> Result<(), Finding> {
        self.place_futures();
        let futures = self.open.as_ref().is_some_and(|open| open.device.run_background().is_some());
        let limited = self.stack().has("limit") && !self.live.is_empty();
        if !(futures || limited || self.live.values().any(|live| live.by == By::Futures)) {
            return Ok(());
        }
        if limited {
            self.neglect_nothing();
        }
        self.settle()?;
        // Runs the rest of dropped futures.
        for _ in 0..TURNS {
            let Some(at) = self.device()?.run_background() else { break };
            self.world.clock().advance_to(at);
            self.poll()?;
        }
        Ok(())
    }

    /// Makes a call begin and end inside blocks. The library then reads and writes back the blocks at its ends, which
    /// would overwrite concurrent writes to them; such a call therefore avoids ranges in flight.
    fn misplace(&mut self, token: u64, live: &mut Live) -> Result<(), Finding> {
        let block = u64::from(self.device()?.geometry().limits.logical_block) / SECTOR as u64;
        let (begin, end) = (live.sector, live.sector + live.count);
        let busy = self.live.values().any(|other| other.changes(begin, live.count));
        let late = !self.judged.late.is_empty();
        if block == 1 || (live.op == Op::Write && (busy || late)) {
            return Ok(());
        }
        // The last block may lie partly beyond the end.
        let end = end.min(self.device()?.size() / SECTOR as u64);
        if begin + token % block >= end {
            return Ok(());
        }
        live.sector = begin + token % block;
        live.count = (end - live.sector).min(1 + token % 11).max(1);
        live.single = false;
        live.reads_first = live.op == Op::Write;
        self.cover.misplaced += 1;
        Ok(())
    }

    /// The device as a call uses it: directly or through a handle, in an I/O context.
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
