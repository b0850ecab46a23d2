//! Commands of the device's own set ([`Op::Command`](platter_block::bio::Op::Command)): operations on the range that they
//! reach.
//!
//! No other operation uses the range until the command has ended, dirty pages of it are written first, and its pages are
//! dropped afterwards if the command may have changed blocks, whether it succeeded or not. What the device does with the
//! command after it has timed out is a matter of the disk below, which lets nothing pass a range in doubt.

use super::engine::Engine;
use super::ios::{IoKey, IoKind, Ios};
use super::memory;
use super::task::{Step, Task};
use crate::readahead::PAGE;
use platter_block::bio::{Bio, Context, Flags, IoPrio, Op};
use platter_block::command::{Command, Reach};
use platter_block::fault::{Fault, Kind};
use platter_block::time::Time;
use platter_stack::barrier_gate::BARRIER;
use std::sync::Arc;

/// The data of a command and the number of bytes that the device has transferred.
#[derive(Default)]
pub(super) struct Answer {
    data: Vec<u8>,
    done: u64,
}

/// Answers that their tasks have not taken yet.
#[derive(Default)]
pub(super) struct Answers {
    /// By the token of the I/O.
    came: Vec<(u64, Answer)>,
    /// By the ticket of the operation.
    over: Vec<(u64, Answer)>,
    /// Why the last command was refused, until a caller asks.
    pub(super) refused: Option<String>,
}

impl Answers {
    /// Keeps the data of a command that came back.
    pub(super) fn keep(&mut self, bio: &mut Bio) {
        if bio.op() != Op::Command {
            return;
        }
        let done = bio.done();
        let data = bio.take_buffer::<Vec<u8>>().unwrap_or_default();
        self.came.push((bio.token(), Answer { data, done }));
    }

    /// The I/O of an operation has ended.
    pub(super) fn arrived(&mut self, key: IoKey, ticket: u64) {
        let at = self.came.iter().position(|&(token, _)| token == Ios::token(key));
        if let Some(at) = at {
            let (_, answer) = self.came.swap_remove(at);
            self.over.push((ticket, answer));
        }
    }

    /// The answer to the command of an operation that has ended.
    fn take(&mut self, ticket: u64) -> Option<Answer> {
        let at = self.over.iter().position(|&(over, _)| over == ticket)?;
        Some(self.over.swap_remove(at).1)
    }

    /// No task waits for an answer.
    pub(super) fn forget(&mut self, ticket: u64) {
        self.take(ticket);
    }
}

impl Engine {
    /// Advances a command.
    pub(super) fn command(&mut self, task: &mut Task) -> Step {
        if task.ticket == 0 {
            return self.begin_command(task);
        }
        let answer = self.jobs.answers.take(task.ticket).unwrap_or_default();
        let result = self.jobs.result(task.ticket);
        task.ticket = 0;
        result?;
        let done = (answer.done as usize).min(answer.data.len());
        memory::fill(&mut task.bio, &answer.data[..done]);
        task.bio.answered(answer.done, Ok(()));
        Ok(true)
    }

    fn begin_command(&mut self, task: &mut Task) -> Step {
        let refused = Err(Engine::at_layer(Kind::Unsupported, task.start));
        let Some(command) = task.bio.command().cloned() else { return refused };
        if task.bio.flags().intersects(BARRIER | Flags::PREFLUSH | Flags::FUA) {
            return refused;
        }
        // Dirty pages might overwrite what the command does, or be what it relies on.
        let dirty = self.pages.dirty.count + self.pages.dirty.pending;
        if command.reach() == Reach::Everything && dirty > 0 {
            let code = command.bytes().first().copied().unwrap_or_default();
            self.jobs.answers.refused = Some(format!(
                "{} command {code:02x}h may change any block, and the cache has {dirty} dirty pages: flush first",
                command.set()
            ));
            return refused;
        }
        let end = self.pages.end() * PAGE;
        let (first, last) = command.reach().range();
        let range = first.min(end)..last.min(end);
        let data = memory::copy_of(&task.bio);
        let ask = (task.ask.context, task.ask.ioprio, task.ask.deadline);
        match self.begin_pass(task.ask.lane, task.bio.op(), range, ask, Some((command, data))) {
            Ok(ticket) => {
                task.ticket = ticket;
                self.run_jobs();
                self.park_for_job(task)
            }
            Err(other) => self.park_for_range(task, other),
        }
    }

    /// Sends a command over a copy of its data, which stays with the device as long as it needs it.
    pub(super) fn send_command(
        &mut self,
        command: Arc<Command>,
        data: Vec<u8>,
        (context, ioprio, deadline): (Context, IoPrio, Option<Time>),
    ) -> Result<IoKey, Fault> {
        let mut bio = self.ios.bio();
        bio.reset_command(command, data)?;
        let key = self.ios.begin(IoKind::Pass);
        self.ios.get(key).deadline = deadline;
        bio.set_context(context);
        bio.set_ioprio(ioprio);
        bio.add_flags(Flags::SYNC);
        self.ios.sign(key, &mut bio);
        self.send(bio, false);
        Ok(key)
    }
}
