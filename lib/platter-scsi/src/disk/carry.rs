//! The steps of a command, as bios for the device.

use super::buffer::Buffer;
use crate::target::TaskId;
use crate::unit::{Action, Step, StepError};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::{Fault, Kind, Stage};
use std::vec::Vec;

/// Bytes that are compared or filled at once.
const PIECE: u64 = 1 << 20;

/// A command whose steps the device carries out, one bio after the other.
pub(super) struct Carried {
    pub(super) task: TaskId,
    steps: Vec<Step>,
    at: usize,
    /// Bytes of the step that are done.
    done: u64,
    /// Blocks are read one by one, to find the first that cannot be read.
    singly: bool,
    /// Bytes of data for the initiator.
    pub(super) read: u64,
    /// Whether a step that changes the medium has been carried out, even in part.
    pub(super) changed: bool,
    /// Whether the response reaches the initiator.
    pub(super) answers: bool,
}

/// What follows a bio.
pub(super) enum Next {
    /// Another one.
    Bio,
    /// All steps have succeeded.
    Done,
    /// This step has failed.
    Failed(Step, StepError),
}

/// The memory of a command: its data, and what pieces are compared with or filled from.
pub(super) struct Memory<'a> {
    pub(super) data: &'a mut Buffer,
    pub(super) scratch: &'a mut Buffer,
}

impl Carried {
    pub(super) fn new(task: TaskId, steps: Vec<Step>, answers: bool) -> Carried {
        Carried { task, steps, at: 0, done: 0, singly: false, read: 0, changed: false, answers }
    }

    fn step(&self) -> Option<Step> {
        self.steps.get(self.at).copied()
    }

    /// Whether the device may be asked to cancel what it has. A flush that was cancelled has failed, and a device may have
    /// lost what it was to make durable.
    pub(super) fn may_cancel(&self) -> bool {
        self.step().is_none_or(|step| step.action != Action::Flush)
    }

    /// Where the next bio begins in its step, and how long it is.
    fn piece(&self, step: &Step, block: u64) -> (u64, u64) {
        let most = match step.action {
            Action::Read { .. } if self.singly => block,
            Action::Verify | Action::Compare { .. } => PIECE,
            Action::Fill { block } => (PIECE / block.max(1)).max(1) * block.max(1),
            _ => u64::MAX,
        };
        (self.done, (step.len - self.done).min(most))
    }

    /// The next bio.
    pub(super) fn bio(&self, mut bio: Bio, memory: &mut Memory<'_>, block: u64) -> Result<Bio, Fault> {
        let step = self.step().ok_or(Fault::new(Kind::Contract, Stage::Driver))?;
        let (from, len) = self.piece(&step, block);
        let pos = step.pos + from;
        match step.action {
            Action::Read { at } => {
                let begin = (at + from) as usize;
                let end = begin + len as usize;
                if memory.data.bytes().len() < end {
                    memory.data.resize(end);
                }
                memory.data.choose(begin..end);
                bio.reset_read(pos, std::mem::take(memory.data))?;
            }
            Action::Verify | Action::Compare { .. } => {
                memory.scratch.resize(len as usize);
                memory.scratch.choose(0..len as usize);
                bio.reset_read(pos, std::mem::take(memory.scratch))?;
            }
            Action::Write { at, fua } => {
                let begin = (at + from) as usize;
                memory.data.choose(begin..begin + len as usize);
                bio.reset_write(pos, std::mem::take(memory.data))?;
                if fua {
                    bio.add_flags(Flags::FUA);
                }
            }
            Action::Fill { block } => {
                memory.scratch.resize(len as usize);
                let pattern = memory.data.bytes().iter().take(block as usize).cycle();
                memory.scratch.bytes_mut().iter_mut().zip(pattern).for_each(|(to, from)| *to = *from);
                memory.scratch.choose(0..len as usize);
                bio.reset_write(pos, std::mem::take(memory.scratch))?;
            }
            Action::WriteZeroes => bio.reset(Op::WriteZeroes, pos, len),
            Action::Discard => bio.reset(Op::Discard, pos, len),
            Action::Flush => bio.reset(Op::Flush, 0, 0),
        }
        Ok(bio)
    }

    /// Puts the memory of a bio that has come back where it belongs. A bio that a layer ended before its last part has none;
    /// the command goes on with other memory.
    fn restore(&self, bio: &mut Bio, memory: &mut Memory<'_>) {
        let Some(buffer) = bio.take_buffer::<Buffer>() else { return };
        match self.step().map(|step| step.action) {
            Some(Action::Verify | Action::Compare { .. } | Action::Fill { .. }) => *memory.scratch = buffer,
            _ => *memory.data = buffer,
        }
    }

    /// A bio has come back.
    pub(super) fn came_back(&mut self, bio: &mut Bio, memory: &mut Memory<'_>, block: u64) -> Next {
        self.restore(bio, memory);
        let Some(step) = self.step() else { return Next::Done };
        let (from, len) = self.piece(&step, block);
        if let Err(fault) = bio.status() {
            return self.failed(step, from, bio, fault);
        }
        match step.action {
            Action::Read { at } => self.read = self.read.max(at + from + len),
            Action::Compare { at } => {
                let at = at + from;
                let wanted = memory.data.bytes().get(at as usize..).unwrap_or_default();
                let mut pairs = memory.scratch.bytes().iter().zip(wanted);
                if let Some(first) = pairs.position(|(is, wanted)| is != wanted) {
                    return Next::Failed(step, StepError::Miscompare { at: at + first as u64 });
                }
            }
            Action::Verify | Action::Flush => {}
            _ => self.changed = true,
        }
        self.done += len;
        if self.done < step.len && step.action != Action::Flush {
            return Next::Bio;
        }
        (self.at, self.done, self.singly) = (self.at + 1, 0, false);
        if self.at < self.steps.len() { Next::Bio } else { Next::Done }
    }

    fn failed(&mut self, step: Step, from: u64, bio: &Bio, fault: Fault) -> Next {
        let unreadable = matches!(fault.kind, Kind::Io | Kind::Corrupt | Kind::Short);
        if matches!(step.action, Action::Read { .. }) && unreadable && !self.singly {
            // Initiators take the blocks before the one that the sense data names as good.
            self.singly = true;
            return Next::Bio;
        }
        let changes = !matches!(
            step.action,
            Action::Read { .. } | Action::Verify | Action::Compare { .. } | Action::Flush
        );
        self.changed |= changes && (fault.kind != Kind::Cancelled || bio.done() > 0);
        let pos = match self.singly {
            true => step.pos + from,
            false => bio.pos().clamp(step.pos, step.pos + step.len.saturating_sub(1)),
        };
        Next::Failed(step, StepError::Device { kind: fault.kind, pos })
    }
}
