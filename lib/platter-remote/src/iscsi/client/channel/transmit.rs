//! Requests to the session, and what it has received.

use super::{Channel, Link, UNSUPPORTED};
use crate::buffers::Buffers;
use crate::iscsi::client::session::Answer;
use crate::iscsi::client::verdict::{Verdict, judge};
use crate::reconnect::FAILED;
use crate::slots::State;
use platter_block::command::{Outcome, Sense};
use platter_block::time::Time;
use platter_scsi::host::encode::{Bytes, command};

/// Most commands that are given to the library before it sends them.
const BATCH: usize = 64;

impl Channel {
    /// Sends what waits, as far as the connection and the target take it.
    pub(super) fn transmit(&mut self, now: Time) {
        loop {
            let Link::Up(session) = &mut self.link else { return };
            if !session.is_sent() {
                if !session.service(false, true) {
                    return self.lost(now, None);
                }
                // The library has commands that the target takes later: it must not have more.
                if !session.is_sent() {
                    let waits_for_target = !session.wants_output();
                    if waits_for_target {
                        self.wire.window = (self.sent - session.unsent().min(self.sent)).max(1);
                    }
                    return;
                }
            }
            if self.outbox.is_empty() {
                return;
            }
            if self.sent >= self.wire.window {
                return;
            }
            for _ in 0..BATCH.min(self.wire.window - self.sent) {
                let Some(index) = self.outbox.pop_front() else { break };
                if !self.give(index) {
                    return self.lost(now, None);
                }
            }
            // It has taken as many as are known to fit; it may take more.
            if self.sent == self.wire.window && self.wire.window < self.shared.options.depth as usize {
                self.wire.window += 1;
            }
        }
    }

    /// Gives a request to the library. `false`: the session has ended.
    fn give(&mut self, index: u32) -> bool {
        let Link::Up(session) = &mut self.link else { return false };
        let block = self.shared.found.block;
        let slot = self.slots.at_mut(index);
        let (cdb, way, own) = match &slot.command {
            Some(command) => match Bytes::new(command.bytes()) {
                Some(cdb) => (cdb, command.transfer(), None),
                None => {
                    self.finish(index, UNSUPPORTED);
                    return true;
                }
            },
            None => {
                let (lba, count) = (slot.pos / block, (slot.len / block) as u32);
                command(slot.op, lba, count, slot.fua, block as usize)
            }
        };
        let buffers = match own {
            Some(bytes) => Buffers::own(bytes),
            None => std::mem::take(&mut slot.kept),
        };
        match session.send(index, cdb.get(), way, buffers) {
            Ok(()) => {
                self.enter(index, State::Sent);
                true
            }
            Err(buffers) => {
                slot.kept = buffers;
                self.outbox.push_front(index);
                false
            }
        }
    }

    /// Receives what has come, and does what it asks for.
    pub(super) fn receive(&mut self, now: Time) {
        let Link::Up(session) = &mut self.link else { return };
        let works = match std::mem::take(&mut self.wire.is_fresh) {
            true => true,
            false => session.service(true, true),
        };
        self.hear();
        if !works || std::mem::take(&mut self.wire.is_lost) {
            return self.lost(now, None);
        }
        if let Some(power) = self.wire.reset.take() {
            if power {
                self.shared.watches.cache_lost(self.wire.port, &self.shared.unflushed);
            }
            // The unit has ended commands without answers to them, and only a new session tells which.
            self.lost(now, Some("the logical unit was reset"));
        }
    }

    /// Reports the answer to a program's command, which is never sent again: only the program knows what that would do.
    pub(super) fn command_answered(&mut self, answer: Answer) {
        let judged = judge(&answer);
        let slot = self.slots.at_mut(answer.token);
        let Some(command) = &slot.command else { return };
        if let Ok(status) = u8::try_from(answer.status) {
            command.set_outcome(&Outcome {
                status: u16::from(status),
                residual: u32::try_from(answer.missing).unwrap_or(u32::MAX),
                sense: Sense::new(&answer.sense),
                ..Outcome::GOOD
            });
        }
        let transferred = slot.len.saturating_sub(answer.missing) as i64;
        slot.kept = answer.buffers;
        if judged.deferred {
            self.shared.unflushed.suspect();
        }
        let result = match judged.verdict {
            Verdict::Good => transferred,
            Verdict::Lost if answer.is_aborted => FAILED,
            // What becomes of it is decided with everything else that the session had.
            Verdict::Lost => return,
            Verdict::Reset { power } => {
                self.wire.reset = Some(power || self.wire.reset == Some(true));
                -i64::from(libc::EREMOTEIO)
            }
            Verdict::Again => -i64::from(libc::EREMOTEIO),
            Verdict::Busy => -i64::from(libc::EBUSY),
            Verdict::Failed(errno) => -i64::from(errno),
        };
        if result < 0 {
            self.shared.reach.report(&format!("the target answers: {}", judged.why));
        }
        self.finish(answer.token, result);
    }
}
