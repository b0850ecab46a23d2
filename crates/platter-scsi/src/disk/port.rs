//! What the channels of a port share, and how they are told of their commands.

use super::hub::{Hub, Note};
use super::options::Options;
use crate::target::Nexus;
use platter_block::lane::Bell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::vec::Vec;

/// An initiator port at a target.
pub(super) struct Port {
    pub(super) hub: Arc<Hub>,
    pub(super) nexus: Nexus,
    pub(super) options: Options,
    /// Commands that neither an abort nor a reset has ended: the port is offline while there are any.
    pub(super) hung: AtomicU32,
    pub(super) counts: Counts,
}

impl Drop for Port {
    fn drop(&mut self) {
        self.hub.disconnect(self.nexus);
    }
}

/// How often something has happened at a port.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) commands: AtomicU64,
    pub(super) retries: AtomicU64,
    pub(super) refusals: AtomicU64,
    pub(super) aborts: AtomicU64,
    pub(super) resets: AtomicU64,
    pub(super) failures: AtomicU64,
}

/// Adds one.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Notes for a channel, from other channels and ports.
pub(super) struct Inbox {
    notes: Mutex<Vec<Note>>,
    has: AtomicBool,
    /// Wakes the thread that sleeps in the channel.
    bell: Option<Arc<dyn Bell>>,
}

impl Inbox {
    pub(super) fn new(bell: Option<Arc<dyn Bell>>) -> Inbox {
        Inbox { notes: Mutex::default(), has: AtomicBool::new(false), bell }
    }

    pub(super) fn post(&self, note: Note) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
        self.has.store(true, Ordering::Release);
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }

    pub(super) fn has_notes(&self) -> bool {
        self.has.load(Ordering::Acquire)
    }

    /// Whether a note ends the sleep of a thread in the channel.
    pub(super) fn rings(&self) -> bool {
        self.bell.is_some()
    }

    pub(super) fn take(&self, out: &mut Vec<Note>) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        self.has.store(false, Ordering::Release);
        out.append(&mut notes);
    }
}
