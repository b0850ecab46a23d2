//! A disk that does not answer is failed as a whole, and works again when it has answered.
//!
//! Each queue measures the time that its driver has a request (`timeout`, `slow_timeout`). When that has passed, the driver is asked
//! to abort the request; when `abort_grace` has passed as well, the queue [is silent](platter_block::queue::Queue::is_silent). The first
//! silent queue of a device sets a bit in the gate, so that all lanes send what they get to the shared queue, which refuses it
//! with `Gone`, and each lane ends what has not started. Watchers are told of both. What the driver has ends when it returns it.
//!
//! When the silent queues have nothing with their drivers any more, the shared queue measures the disk and goes on. Its next flush
//! fails once, because a disk that was away may have lost what it had acknowledged. With `on_return=stay` that waits for
//! [`Backend::refresh`](platter_block::backend::Backend::refresh).
//!
//! Example, with `timeout=1s`: at 0 s a write goes to a disk that hangs. At 1 s the driver is asked to abort it, at 2 s the disk is failed;
//! a read at 3 s fails at once. At 10 s the disk answers: the write ends, the next read is carried out, and the next flush fails.

use super::Shared;
use crate::sync::{AtomicBool, AtomicU32, Ordering};
use std::sync::Weak;

/// What to do when a disk answers again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnReturn {
    /// Its size and identity are looked up, and it works again.
    #[default]
    Refresh,
    /// It stays failed until the program refreshes it.
    Stay,
}

/// The silent queues of a device.
#[derive(Default)]
pub(super) struct Silence {
    queues: AtomicU32,
    /// The program has accepted the disk again.
    is_accepted: AtomicBool,
}

/// One silent queue, until its driver has returned everything.
pub(super) struct Silent(Weak<Shared>);

impl Drop for Silent {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade()
            && shared.silence.queues.fetch_sub(1, Ordering::SeqCst) == 1
        {
            // The next run of the shared queue goes on.
            shared.lanes.ring_all();
        }
    }
}

impl Silence {
    /// The program accepts the disk as it is when it answers.
    pub(super) fn accept(&self) {
        self.is_accepted.store(true, Ordering::SeqCst);
    }
}

impl Shared {
    /// Follows whether a queue is silent.
    #[inline]
    pub(super) fn note_silence(&self, is_silent: bool, silent: &mut Option<Silent>) {
        if is_silent != silent.is_some() {
            self.change_silence(is_silent, silent);
        }
    }

    #[cold]
    fn change_silence(&self, is_silent: bool, silent: &mut Option<Silent>) {
        *silent = None;
        if is_silent {
            self.silence.is_accepted.store(false, Ordering::SeqCst);
            self.silence.queues.fetch_add(1, Ordering::SeqCst);
            *silent = Some(Silent(Weak::clone(&self.itself)));
            self.fail_silent();
            // Each ends what it has not started.
            self.lanes.ring_all();
        }
    }

    /// The disk is failed. The watchers are told when this thread holds no lock any more.
    pub(super) fn fail_silent(&self) {
        self.gate.set_failed(true);
        self.extent.set_silent(true);
    }

    /// Whether a queue is silent.
    pub(super) fn is_silent(&self) -> bool {
        self.silence.queues.load(Ordering::SeqCst) > 0
    }

    /// Whether a disk that has answered is used again: it is the same one.
    pub(super) fn may_return(&self) -> bool {
        let is_back = !self.is_silent();
        let accepted = self.silence.is_accepted.load(Ordering::SeqCst);
        is_back
            && (accepted
                || (self.settings.on_return == OnReturn::Refresh && self.disk.identity() == self.identity))
    }
}
