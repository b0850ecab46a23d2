//! How a lane gets bios back from a queue that others run, and how it sleeps meanwhile.

use crate::sync::{AtomicBool, Mutex, Ordering, lock};
use crate::wake::Event;
use platter_block::bio::Bio;
use std::sync::OnceLock;

/// What has come, and whether anybody takes it.
struct Mail {
    bios: Vec<Bio>,
    /// The lane is gone; so many bios of it are still to come, and are dropped.
    owed: Option<usize>,
}

/// Bios for one lane, put there by whoever ran the shared queue.
pub(crate) struct Mailbox {
    mail: Mutex<Mail>,
    has_mail: AtomicBool,
    /// The lane sleeps, or is about to: whoever brings mail rings.
    sleeping: AtomicBool,
    /// A layer above has something for the lane to do.
    nudged: AtomicBool,
    bell: OnceLock<Event>,
}

impl Mailbox {
    pub(crate) fn new() -> Mailbox {
        Mailbox {
            mail: Mutex::new(Mail { bios: Vec::new(), owed: None }),
            has_mail: AtomicBool::new(false),
            sleeping: AtomicBool::new(false),
            nudged: AtomicBool::new(false),
            bell: OnceLock::new(),
        }
    }

    /// Delivers and wakes. `true`: the lane is gone, the bio was dropped, and it was the last to come.
    pub(crate) fn put(&self, bio: Bio) -> bool {
        let mut mail = lock(&self.mail);
        if let Some(owed) = &mut mail.owed {
            *owed -= 1;
            let last = *owed == 0;
            drop(mail);
            drop(bio);
            return last;
        }
        mail.bios.push(bio);
        drop(mail);
        self.has_mail.store(true, Ordering::SeqCst);
        self.ring();
        false
    }

    /// Wakes the lane if it sleeps.
    pub(crate) fn ring(&self) {
        if self.sleeping.load(Ordering::SeqCst)
            && let Some(bell) = self.bell.get()
        {
            bell.ring();
        }
    }

    /// Ends the lane's sleep, or keeps it from beginning the next one.
    pub(crate) fn nudge(&self) {
        self.nudged.store(true, Ordering::SeqCst);
        self.ring();
    }

    /// Whether it was nudged since the last time somebody asked.
    pub(crate) fn take_nudge(&self) -> bool {
        self.nudged.swap(false, Ordering::SeqCst)
    }

    #[inline]
    pub(crate) fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::SeqCst)
    }

    /// Appends all mail.
    pub(crate) fn take(&self, out: &mut Vec<Bio>) {
        if self.has_mail.swap(false, Ordering::SeqCst) {
            out.append(&mut lock(&self.mail).bios);
        }
    }

    /// Says that the lane is about to sleep; it must look for mail and at the gate once more after this. What
    /// the bell rang for earlier is forgotten.
    pub(crate) fn fall_asleep(&self) -> &Event {
        let bell = self.bell.get_or_init(Event::new);
        if self.sleeping.swap(true, Ordering::SeqCst) {
            bell.clear();
        }
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

    /// The lane goes away while `away` of its bios are out, those in the box among them. Gives those back;
    /// `true`: no more will come.
    pub(crate) fn close(&self, away: usize) -> (Vec<Bio>, bool) {
        let mut mail = lock(&self.mail);
        let bios = std::mem::take(&mut mail.bios);
        let owed = away - bios.len();
        mail.owed = Some(owed);
        (bios, owed == 0)
    }
}
