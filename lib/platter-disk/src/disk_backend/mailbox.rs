//! How a lane gets its bios back from a queue that other threads run, and how it sleeps in the meantime.

use super::parker::LaneParker;
use super::woken::Woken;
use crate::sync::{AtomicBool, Mutex, Ordering, lock};
use crate::wake::{ArmedDoorbell, EventFd};
use platter_block::bio::Bio;
use std::sync::Arc;

/// Bios that have come back, and whether a lane is there to take them.
struct Mail {
    bios: Vec<Bio>,
    /// Set once the lane is gone: the number of its bios still to come, which are dropped. Example: a lane with five bios in the shared queue is
    /// closed while two of them are in its mailbox; three are owed, and with the third its place in the list of lanes is free.
    owed: Option<usize>,
}

/// Completed bios for one lane, put there by the thread that ran the shared queue.
pub(crate) struct Mailbox {
    mail: Mutex<Mail>,
    has_mail: AtomicBool,
    /// A layer above has work for the lane.
    nudged: AtomicBool,
    /// Wakes the lane's thread if it sleeps on descriptors.
    wake: ArmedDoorbell,
    /// Wakes it if it waits for nothing but this mailbox.
    pub(crate) parker: LaneParker,
}

impl Mailbox {
    /// A mailbox of a device, whose `woken` threads its lane is one of.
    pub(crate) fn new(woken: Arc<Woken>) -> Mailbox {
        Mailbox {
            mail: Mutex::new(Mail { bios: Vec::new(), owed: None }),
            has_mail: AtomicBool::new(false),
            nudged: AtomicBool::new(false),
            wake: ArmedDoorbell::new(),
            parker: LaneParker::new(woken),
        }
    }

    /// Delivers a bio; the caller [rings](Mailbox::ring) afterwards. `true`: the lane is gone, the bio was dropped, and
    /// it was the last one to come.
    #[track_caller]
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
        false
    }

    /// Wakes the lane if it sleeps.
    pub(crate) fn ring(&self) {
        self.parker.unpark();
        self.wake.ring();
    }

    /// Whether the lane sleeps, or is about to. If not, it sees what changed before this call without a ring.
    pub(crate) fn is_asleep(&self) -> bool {
        self.parker.is_armed() || self.wake.is_armed()
    }

    /// Ends the lane's sleep, or prevents the next one.
    pub(crate) fn nudge(&self) {
        self.nudged.store(true, Ordering::SeqCst);
        self.ring();
    }

    /// Whether it was nudged since the last call.
    pub(crate) fn take_nudge(&self) -> bool {
        self.nudged.swap(false, Ordering::SeqCst)
    }

    #[inline]
    pub(crate) fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::SeqCst)
    }

    /// Appends all mail to `out`.
    #[inline]
    #[track_caller]
    pub(crate) fn take(&self, out: &mut Vec<Bio>) {
        if self.has_mail() {
            self.take_all(out);
        }
    }

    #[inline(never)]
    #[track_caller]
    fn take_all(&self, out: &mut Vec<Bio>) {
        self.has_mail.swap(false, Ordering::SeqCst);
        out.append(&mut lock(&self.mail).bios);
    }

    /// Marks the lane as about to sleep; it must check for mail and the gate once more after this. Earlier rings are
    /// discarded. Returns what to sleep on; `None`: the process has no free descriptor.
    pub(crate) fn fall_asleep(&self) -> Option<&EventFd> {
        self.wake.arm()
    }

    /// Marks the lane as awake. Its parker has settled.
    pub(crate) fn wake_up(&self) {
        self.wake.disarm();
    }

    /// The lane is being closed while `away` of its bios are outstanding, including those in the mailbox.
    /// Returns the latter; `true`: no more will come.
    pub(crate) fn close(&self, away: usize) -> (Vec<Bio>, bool) {
        let mut mail = lock(&self.mail);
        let bios = std::mem::take(&mut mail.bios);
        let owed = away - bios.len();
        mail.owed = Some(owed);
        (bios, owed == 0)
    }
}
