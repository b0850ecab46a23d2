//! The descriptor for watchers of a ring whose own descriptor does not tell when something completes.

use super::Uring;
use crate::wake::EventFd;
use std::os::fd::AsRawFd;

impl Uring {
    /// The descriptor that is readable when there is something to reap.
    pub(super) fn watched_descriptor(&self) -> Option<i32> {
        if let Some(last) = self.last_descriptor() {
            return Some(last.as_raw_fd());
        }
        match &self.ring {
            Some(ring) if !ring.deferred && self.dead.is_none() => Some(ring.raw()),
            Some(ring) => Some(self.make_eventfd().unwrap_or(ring.raw())),
            None => self.make_eventfd(),
        }
    }

    /// A descriptor that signals deferred completions. The ring's own descriptor does not, since completions are
    /// posted only when the owner enters the kernel (fact: Linux 6.18; an eventfd is signalled when there is
    /// something to post).
    #[cold]
    fn make_eventfd(&self) -> Option<i32> {
        if self.eventfd.get().is_none() {
            let eventfd = EventFd::new().ok()?;
            // Only the owner can register it with the ring, so the owner is called to reap.
            eventfd.signal();
            let _ = self.eventfd.set(eventfd);
        }
        self.eventfd.get().map(EventFd::raw)
    }

    /// Resets the descriptor before the completions that it was signalled for are examined.
    #[cold]
    pub(super) fn clear_eventfd(&mut self) {
        let (Some(eventfd), Some(ring)) = (self.eventfd.get(), &self.ring) else { return };
        if !self.signals_eventfd {
            self.signals_eventfd = ring.signal(eventfd.raw());
        }
        // A descriptor that is not registered with the ring stays readable: checking too often is better than never.
        if self.signals_eventfd && self.dead.is_none() {
            eventfd.clear();
        }
    }
}
