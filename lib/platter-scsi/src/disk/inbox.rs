//! How a channel is told of its commands by other channels and ports.

use crate::target::TaskId;
use platter_block::lane::Bell;
use platter_wait::Mailbox;
use std::sync::Arc;
use std::vec::Vec;

/// What a channel is told of a command of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// It may run.
    Enabled(TaskId, u32),
    /// It was aborted before it ran.
    Dropped(u32),
    /// A command that it must follow has failed, so it was ended before it ran.
    Behind(u32),
}

/// Notes for a channel, from other channels and ports.
pub(super) struct Inbox {
    notes: Mailbox<Note>,
    /// Wakes the thread that sleeps in the channel.
    bell: Option<Arc<dyn Bell>>,
}

impl Inbox {
    pub(super) fn new(bell: Option<Arc<dyn Bell>>) -> Inbox {
        Inbox { notes: Mailbox::default(), bell }
    }

    pub(super) fn post(&self, note: Note) {
        self.notes.post([note]);
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }

    pub(super) fn has_notes(&self) -> bool {
        !self.notes.is_empty()
    }

    /// Whether a note ends the sleep of a thread in the channel.
    pub(super) fn rings(&self) -> bool {
        self.bell.is_some()
    }

    pub(super) fn take(&self, out: &mut Vec<Note>) {
        self.notes.take(out);
    }
}
