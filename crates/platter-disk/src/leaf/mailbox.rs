//! How a lane gets bios back from a queue that others run, and how it sleeps meanwhile.

use crate::sync::{AtomicBool, Mutex, Ordering, lock};
use crate::wake::Event;
use platter_block::bio::Bio;
use std::sync::OnceLock;

/// Bios for one lane, put there by whoever ran the shared queue.
pub(crate) struct Mailbox {
    mail: Mutex<Vec<Bio>>,
    has_mail: AtomicBool,
    /// The lane sleeps, or is about to: whoever brings mail rings.
    sleeping: AtomicBool,
    bell: OnceLock<Event>,
}

impl Mailbox {
    pub(crate) fn new() -> Mailbox {
        Mailbox {
            mail: Mutex::new(Vec::new()),
            has_mail: AtomicBool::new(false),
            sleeping: AtomicBool::new(false),
            bell: OnceLock::new(),
        }
    }

    /// Delivers and wakes.
    pub(crate) fn put(&self, bio: Bio) {
        lock(&self.mail).push(bio);
        self.has_mail.store(true, Ordering::SeqCst);
        self.ring();
    }

    /// Wakes the lane if it sleeps.
    pub(crate) fn ring(&self) {
        if self.sleeping.load(Ordering::SeqCst)
            && let Some(bell) = self.bell.get()
        {
            bell.ring();
        }
    }

    #[inline]
    pub(crate) fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::SeqCst)
    }

    /// Appends all mail.
    pub(crate) fn take(&self, out: &mut Vec<Bio>) {
        if self.has_mail.swap(false, Ordering::SeqCst) {
            out.append(&mut lock(&self.mail));
        }
    }

    /// Says that the lane is about to sleep; it must look for mail and at the gate once more after this.
    pub(crate) fn fall_asleep(&self) -> &Event {
        let bell = self.bell.get_or_init(Event::new);
        self.sleeping.store(true, Ordering::SeqCst);
        bell
    }

    /// The lane is awake.
    pub(crate) fn wake_up(&self) {
        if self.sleeping.swap(false, Ordering::SeqCst)
            && let Some(bell) = self.bell.get()
        {
            bell.clear();
        }
    }
}
