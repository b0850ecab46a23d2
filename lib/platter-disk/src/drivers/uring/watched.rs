//! The descriptor for watchers of a ring whose own descriptor does not tell when something completes.
//!
//! The ring signals it for deferred completions, and the disk's threads signal it themselves. They cannot leave
//! that to the ring, by a poll request for a descriptor of theirs: the ring would then have to signal an eventfd
//! while another is being signalled, which the kernel does 16 ms late once, and then never (fact: Linux 6.18).

use super::Uring;
use crate::wake::EventFd;
use platter_block::time::Time;
use std::os::fd::AsRawFd;

impl Uring {
    /// The descriptor that is readable when there is something to reap.
    pub(super) fn watched_descriptor(&self) -> Option<i32> {
        if let Some(last) = self.last_descriptor() {
            return Some(last.as_raw_fd());
        }
        match &self.ring {
            Some(ring) if !ring.deferred && !self.iopoll && self.dead.is_none() => Some(ring.raw()),
            _ => self.own_descriptor(),
        }
    }

    /// A descriptor beside the ring's own. That one does not signal deferred completions, since they are posted only
    /// when the owner enters the kernel (fact: Linux 6.18; an eventfd is signalled when there is something to post),
    /// nor those that have to be polled for.
    #[cold]
    fn own_descriptor(&self) -> Option<i32> {
        let watch = self.side.watch();
        if watch.fd().is_none() {
            watch.open();
            // Only the owner can register it with the ring, so the owner is called to reap.
            watch.fd()?.signal();
        } else if self.is_watched && self.has_late_signals() {
            watch.arm_shared();
        }
        watch.fd().map(EventFd::raw)
    }

    /// Whether the descriptor may be readable although there is nothing to reap. An idle channel is not run, so nothing
    /// else would clear it.
    fn has_late_signals(&self) -> bool {
        let is_idle = self.taken as usize + self.side.in_flight() + self.ready.len() == 0;
        is_idle && self.dead.is_none() && (self.iopoll || self.side.is_used())
    }

    /// Resets the descriptor before the completions that it was signalled for are examined.
    #[cold]
    pub(super) fn clear_watched(&mut self) {
        let (Some(eventfd), Some(ring)) = (self.side.watch().fd(), &self.ring) else { return };
        if !self.is_watched {
            self.is_watched = self.iopoll || ring.signal(eventfd.raw());
        }
        // A descriptor that is not registered with the ring stays readable: checking too often is better than never. So
        // does that of a ring that has to be polled.
        if self.is_watched && self.dead.is_none() {
            match self.iopoll && self.taken > 0 {
                true => self.side.watch().rearm(),
                false => drop(self.side.watch().arm_shared()),
            }
        }
    }

    /// After a submission to a watched ring: nothing signals the descriptor of one that has to be polled, and none is
    /// signalled while deferred work is left.
    #[inline]
    pub(super) fn stay_awake(&mut self, now: Time) {
        if self.is_watched {
            self.fetch(now);
        }
    }

    #[cold]
    fn fetch(&mut self, now: Time) {
        if self.iopoll {
            if self.taken > 0
                && let Some(eventfd) = self.side.watch().fd()
            {
                eventfd.signal();
            }
        } else if self.dead.is_none()
            && let Some(Err(error)) = self.ring.as_mut().map(super::Ring::post)
        {
            self.die(now, &error);
        }
    }
}
