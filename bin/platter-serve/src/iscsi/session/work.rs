//! From commands to bios, and from completed bios to the next step or the response.

use super::Session;
use super::slots::{Part, State};
use crate::iscsi::unit::{MAX_TRANSFER, is_unit_0};
use platter_block::bio::{Bio, Context, Flags, Op};
use platter_block::fault::{Fault, Kind};
use platter_disk::pool::PoolBuf;
use platter_remote::iscsi::wire::flag;
use platter_scsi::target::{News, Outcome, Request};
use platter_scsi::unit::{Action, Response, Status, Step, StepError};

/// Most bytes that are read or written at once for data that the initiator does not have.
const PIECE: u64 = 256 << 10;

impl Session<'_> {
    /// Begins the commands whose data is there, as far as the device's limits admit them.
    pub(super) fn admit(&mut self) {
        while let Some(at) = self.next_arrived() {
            let index = self.arrived[at];
            let slot = self.slots.get(index);
            let bytes = u64::from(if slot.flags & flag::READ != 0 { slot.expected } else { slot.wanted });
            // No command moves more, whatever the initiator expects.
            let bytes = bytes.min(MAX_TRANSFER);
            if !self.admission.admits(self.channel.clock(), bytes) {
                self.asks = Some(index);
                return;
            }
            self.asks = None;
            self.arrived.remove(at);
            self.slots.get(index).mark = Some(self.admission.start());
            self.begin(index);
        }
    }

    /// Where in the list the command is that begins next: the one that has asked to be admitted, or the first that may.
    fn next_arrived(&self) -> Option<usize> {
        self.arrived.iter().position(|index| match self.asks {
            Some(asking) => *index == asking,
            None => self.slots.may_begin(*index),
        })
    }

    fn begin(&mut self, index: u16) {
        let geometry = self.served.geometry();
        let slot = self.slots.get(index);
        if let Some(response) = slot.refused.take() {
            return self.respond(index, response, 0);
        }
        let mut target = self.attached.target();
        if !is_unit_0(slot.lun) {
            let response = target.absent(&slot.cdb);
            drop(target);
            return self.respond(index, response, 0);
        }
        target.observe(&geometry);
        let attribute = slot.attribute();
        let data_out = slot.data.as_deref().unwrap_or_default();
        let request = Request { cdb: &slot.cdb, data_out, attribute, token: u64::from(index) };
        let outcome = target.begin(self.attached.nexus(), &request);
        drop(target);
        self.follow(index, outcome);
    }

    fn follow(&mut self, index: u16, outcome: Outcome) {
        let slot = self.slots.get(index);
        match outcome {
            Outcome::Respond(response) => self.respond(index, response, 0),
            Outcome::Wait(task) => {
                (slot.state, slot.task) = (State::Waiting, Some(task));
                self.waiting += 1;
            }
            Outcome::Run(task, steps) => {
                (slot.state, slot.task, slot.steps) = (State::Running, Some(task), steps);
                self.begin_step(index);
            }
        }
    }

    /// Takes what the target has to tell.
    pub(super) fn listen(&mut self) {
        while self.waiting > 0 || !self.functions.is_empty() {
            let news = self.attached.target().news(self.attached.nexus());
            match news {
                None => return,
                Some(News::Managed(token)) => self.function_complete(token),
                Some(News::Dropped(token)) => {
                    self.waiting -= 1;
                    self.drop_slot(token as u16);
                }
                Some(News::Enabled(task, token)) => {
                    self.waiting -= 1;
                    let index = token as u16;
                    let slot = self.slots.get(index);
                    let data_out = slot.data.as_deref().unwrap_or_default();
                    let outcome = self.attached.target().resume(task, &slot.cdb, data_out);
                    self.follow(index, outcome);
                }
            }
        }
    }

    fn step(&mut self, index: u16) -> Step {
        let slot = self.slots.get(index);
        slot.steps[slot.step]
    }

    fn begin_step(&mut self, index: u16) {
        let step = self.step(index);
        match step.action {
            Action::Read { .. } => match self.buffers.take(step.len as usize) {
                Some(buffer) => self.submit_read(index, step.pos, buffer),
                None => self.finish_with(index, Response::of(Status::TaskSetFull), 0),
            },
            Action::Verify | Action::Compare { .. } => {
                self.slots.get(index).part = Part::Piece;
                self.next_piece(index, None);
            }
            Action::Write { at: 0, fua } => {
                let is_all = |data: &mut PoolBuf| data.len() as u64 == step.len;
                match self.slots.get(index).data.take_if(is_all) {
                    Some(data) => self.submit_write(index, step.pos, data, fua),
                    None => self.write_copy(index, &step, 0, fua),
                }
            }
            Action::Write { at, fua } => self.write_copy(index, &step, at, fua),
            Action::Fill { .. } => self.next_piece(index, None),
            Action::WriteZeroes => self.submit_range(index, Op::WriteZeroes, &step),
            Action::Discard => self.submit_range(index, Op::Discard, &step),
            Action::Flush if self.first_flush.fails(self.client, self.log) => {
                let error = StepError::Device { kind: Kind::FlushFailed, pos: step.pos };
                self.failed(index, &step, error, 0);
            }
            Action::Flush => self.submit_range(index, Op::Flush, &step),
        }
    }

    /// Writes a part of the data from the initiator that does not begin at its front.
    fn write_copy(&mut self, index: u16, step: &Step, at: u64, fua: bool) {
        let Some(mut buffer) = self.buffers.take(step.len as usize) else {
            return self.finish_with(index, Response::of(Status::TaskSetFull), 0);
        };
        let from = &self.slots.data(index)[at as usize..][..step.len as usize];
        self.copies.copy(&mut buffer, from);
        self.submit_write(index, step.pos, buffer, fua);
    }

    /// Reads or writes the next piece of a step; `buffer` is that of the last one.
    fn next_piece(&mut self, index: u16, buffer: Option<PoolBuf>) {
        let step = self.step(index);
        let done = self.slots.get(index).done;
        let length = (step.len - done).min(PIECE);
        if length == 0 {
            if let Some(buffer) = buffer {
                self.buffers.put(buffer);
            }
            return self.next_step(index);
        }
        let Some(mut buffer) = buffer.or_else(|| self.buffers.take(length as usize)) else {
            return self.finish_with(index, Response::of(Status::TaskSetFull), 0);
        };
        buffer.truncate(length as usize);
        if let Action::Fill { block } = step.action {
            // Pieces begin at multiples of the pattern, so that each is the first again.
            if done == 0 {
                let pattern = &self.slots.data(index)[..block as usize];
                buffer.chunks_mut(block as usize).for_each(|to| to.copy_from_slice(&pattern[..to.len()]));
            }
            return self.submit_write(index, step.pos + done, buffer, false);
        }
        self.submit_read(index, step.pos + done, buffer);
    }

    fn submit_read(&mut self, index: u16, pos: u64, buffer: PoolBuf) {
        let mut bio = self.bios.spare();
        self.slots.get(index).capacity = buffer.capacity();
        let set = bio.reset_read(pos, buffer);
        self.submit(index, bio, set, Flags::NONE);
    }

    fn submit_write(&mut self, index: u16, pos: u64, buffer: PoolBuf, fua: bool) {
        let mut bio = self.bios.spare();
        self.slots.get(index).capacity = buffer.capacity();
        let set = bio.reset_write(pos, buffer);
        self.submit(index, bio, set, if fua { Flags::FUA } else { Flags::NONE });
    }

    fn submit_range(&mut self, index: u16, op: Op, step: &Step) {
        let mut bio = self.bios.spare();
        match op {
            Op::Flush => bio.reset(op, 0, 0),
            _ => bio.reset(op, step.pos, step.len),
        }
        self.submit(index, bio, Ok(()), Flags::NONE);
    }

    fn submit(&mut self, index: u16, mut bio: Bio, set: Result<(), Fault>, flags: Flags) {
        bio.add_flags(flags);
        // Fair elevators tell clients apart by it.
        bio.set_context(Context::new(self.client.id as u32));
        self.bios.submit(&mut self.channel, index, bio, set);
    }

    pub(super) fn finish(&mut self, bio: Bio) {
        let index = bio.token() as u16;
        let told = (self.client, self.log);
        let status = self.first_flush.settle(self.served.device(), told, bio.op(), bio.status());
        let buffer = self.bios.put_from(bio, &mut self.buffers, self.slots.get(index).capacity);
        match status {
            Ok(_) => self.step_moved(index, buffer),
            Err(fault) => self.step_failed(index, fault, buffer),
        }
    }

    /// A bio of the present step has succeeded.
    fn step_moved(&mut self, index: u16, buffer: Option<PoolBuf>) {
        let step = self.step(index);
        let slot = self.slots.get(index);
        let moved = buffer.as_ref().map_or(0, |buffer| buffer.len() as u64);
        match (step.action, slot.part, buffer) {
            (Action::Read { .. }, Part::Block, Some(block)) => {
                let at = slot.done as usize;
                if let Some(data) = &mut slot.data {
                    data[at..at + block.len()].copy_from_slice(&block);
                }
                slot.done += moved;
                self.next_block(index, block);
            }
            (Action::Read { .. } | Action::Write { at: 0, .. }, _, Some(buffer)) => {
                if slot.data.is_none() {
                    slot.data = Some(buffer);
                } else {
                    self.buffers.put(buffer);
                }
                self.next_step(index);
            }
            (Action::Compare { at }, _, Some(buffer)) => {
                let from = (at + slot.done) as usize;
                let wanted = &slot.data.as_deref().unwrap_or_default()[from..from + buffer.len()];
                let differs = buffer.iter().zip(wanted).position(|(is, wanted)| is != wanted);
                slot.done += moved;
                match differs {
                    Some(n) => {
                        self.buffers.put(buffer);
                        self.failed(index, &step, StepError::Miscompare { at: (from + n) as u64 }, 0);
                    }
                    None => self.next_piece(index, Some(buffer)),
                }
            }
            (Action::Verify | Action::Fill { .. }, _, Some(buffer)) => {
                slot.done += moved;
                self.next_piece(index, Some(buffer));
            }
            (_, _, buffer) => {
                if let Some(buffer) = buffer {
                    self.buffers.put(buffer);
                }
                self.next_step(index);
            }
        }
    }

    fn next_step(&mut self, index: u16) {
        let slot = self.slots.get(index);
        slot.step += 1;
        (slot.done, slot.part) = (0, Part::Whole);
        if slot.step < slot.steps.len() {
            return self.begin_step(index);
        }
        let read = slot.steps.iter().any(|step| matches!(step.action, Action::Read { .. }));
        let moved = if read { slot.data.as_ref().map_or(0, |data| data.len() as u32) } else { 0 };
        let response = self.attached.target().done();
        self.finish_with(index, response, moved);
    }

    fn step_failed(&mut self, index: u16, fault: Fault, buffer: Option<PoolBuf>) {
        let step = self.step(index);
        self.report(&step, fault);
        let slot = self.slots.get(index);
        let unreadable = matches!(fault.kind, Kind::Io | Kind::Corrupt | Kind::Short);
        let is_read = matches!(step.action, Action::Read { .. });
        if let (true, true, Part::Whole, Some(buffer)) = (is_read, unreadable, slot.part, buffer) {
            // Initiators take the blocks before the one that the sense data names as good.
            (slot.part, slot.data) = (Part::Block, Some(buffer));
            let block = self.served.device().geometry().limits.logical_block as usize;
            return match self.buffers.take(block) {
                Some(buffer) => self.next_block(index, buffer),
                None => self.failed(index, &step, StepError::Device { kind: fault.kind, pos: step.pos }, 0),
            };
        }
        let done = slot.done;
        let moved = if slot.part == Part::Block { done as u32 } else { 0 };
        self.failed(index, &step, StepError::Device { kind: fault.kind, pos: step.pos + done }, moved);
    }

    /// Reads the next block of a read that failed.
    fn next_block(&mut self, index: u16, buffer: PoolBuf) {
        let step = self.step(index);
        let done = self.slots.get(index).done;
        if done < step.len {
            return self.submit_read(index, step.pos + done, buffer);
        }
        self.buffers.put(buffer);
        // Each block can be read, and the read failed all the same: the initiator decides whether to try it again.
        self.failed(index, &step, StepError::Device { kind: Kind::Cancelled, pos: step.pos }, 0);
    }

    fn failed(&mut self, index: u16, step: &Step, error: StepError, moved: u32) {
        let response = self.attached.target().failed(step, error);
        self.finish_with(index, response, moved);
    }

    /// A command whose steps were begun has ended.
    fn finish_with(&mut self, index: u16, response: Response, moved: u32) {
        let task = self.slots.get(index).task.take();
        let answers = task.is_none_or(|task| self.attached.target().end(task));
        if answers {
            self.respond(index, response, moved);
        } else {
            self.drop_slot(index);
        }
    }

    /// Reports the first request of the session that the device failed.
    fn report(&mut self, step: &Step, fault: Fault) {
        let op = match step.action {
            Action::Read { .. } | Action::Verify | Action::Compare { .. } => Op::Read,
            Action::Write { .. } | Action::Fill { .. } => Op::Write,
            Action::WriteZeroes => Op::WriteZeroes,
            Action::Discard => Op::Discard,
            Action::Flush => Op::Flush,
        };
        let told = (self.client, self.log);
        self.failure.tell(self.served.device(), told, fault, (op, step.pos, step.len));
    }
}
