//! What commands of the device's own set ([`Op::Command`]) have brought, until their tasks take it.

use super::ios::{IoKey, Ios};
use platter_block::bio::{Bio, Op};
use platter_block::fault::{Fault, Kind, Stage};

/// A command is refused because pages are dirty. The errno, EBUSY, tells it from what is never supported.
pub(super) const DIRTY: Fault = Fault { kind: Kind::Unsupported, stage: Stage::Layer, errno: 16 };

/// The data of a command and the number of bytes that the device has transferred.
#[derive(Default)]
pub(super) struct Answer {
    pub(super) data: Vec<u8>,
    pub(super) done: u64,
}

/// The data of a command with its task.
pub(super) enum Exchange {
    /// A copy for the device.
    ToSend(Vec<u8>),
    /// What the device has answered.
    Came(Answer),
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
    pub(super) fn take(&mut self, ticket: u64) -> Option<Answer> {
        let at = self.over.iter().position(|&(over, _)| over == ticket)?;
        Some(self.over.swap_remove(at).1)
    }

    /// No task waits for an answer.
    pub(super) fn forget(&mut self, ticket: u64) {
        self.take(ticket);
    }
}
