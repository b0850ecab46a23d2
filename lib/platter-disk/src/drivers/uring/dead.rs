//! A channel whose ring cannot be entered: for good, after an error that no ring survives, or until the kernel has
//! resources again.

use super::Uring;
use super::ring::Ring;
use crate::drivers::unavailable::errno_of_call;
use crate::wake::{PollFlags, is_ready, wait_readable};
use platter_block::driver::Completion;
use platter_block::time::{Span, Time};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Longest sleep of a dead channel: it may wait for more than one thing.
const NAP: Span = Span::from_millis(10);

/// State of a ring that can no longer be entered.
pub(super) struct Dead {
    pub(super) errno: i32,
    pub(super) since: Time,
    /// Hangs up when the kernel is done with a ring whose completions cannot be seen.
    pub(super) gone: Option<OwnedFd>,
}

impl Uring {
    /// Gives up the ring after a permanent error. Entries that the kernel has not taken fail; requests that it has
    /// are waited for.
    #[cold]
    pub(super) fn die(&mut self, now: Time, error: &io::Error) {
        let errno = errno_of_call(error.raw_os_error().unwrap_or(libc::EIO));
        let left = self.ring.as_mut().map_or(0, Ring::unsubmitted) as u32;
        let pushed = self.pushed;
        self.fail_taken(errno, |place| pushed.wrapping_sub(place) < left);
        // Deferred completions can be seen only by the thread that may enter the ring; the kernel processes them when
        // the ring is closed. Other completions still arrive on the ring.
        let deferred = self.ring.as_ref().is_some_and(|ring| ring.deferred);
        let gone = if deferred { self.ring.take().and_then(Ring::close) } else { None };
        self.owed = false;
        self.dead = Some(Dead { errno, since: now, gone });
        // Readable from now on.
        if let Some(eventfd) = self.side.watch().fd() {
            eventfd.signal();
        }
    }

    /// Without resources for the entries on the ring: waits for requests that the kernel has, or for the end of the
    /// pause.
    #[cold]
    pub(super) fn wait_out(&mut self, now: Time, timeout: Option<Span>) {
        let limit = self.pause.limit(now, timeout);
        let Some(ring) = &mut self.ring else { return };
        if self.taken as usize > ring.unsubmitted() {
            if let Err(error) = ring.wait_only(limit) {
                self.die(now, &error);
            }
        } else if let Some(span) = limit {
            std::thread::sleep(std::time::Duration::from_nanos(span.as_nanos()));
        }
    }

    #[cold]
    pub(super) fn wait_dead(&mut self, now: Time, timeout: Option<Span>) {
        if !self.ready.is_empty() {
            return;
        }
        let fd = match (&self.dead, &self.ring) {
            (Some(Dead { gone: Some(gone), .. }), _) => gone.as_fd(),
            (_, Some(ring)) => ring.as_fd(),
            _ => return self.side.wait(now, timeout),
        };
        match self.taken {
            0 => self.side.wait(now, timeout),
            _ => wait_readable(fd, timeout.into_iter().chain([NAP]).min()),
        }
    }

    /// The descriptor that shows when the kernel is done with what it has of a dead channel, if the channel waits for
    /// nothing else. Its other descriptor always wakes, which is no use until the disk has answered.
    pub(super) fn last_descriptor(&self) -> Option<BorrowedFd<'_>> {
        let dead = self.dead.as_ref()?;
        if self.taken == 0 || !self.ready.is_empty() || self.side.in_flight() > 0 {
            return None;
        }
        match &dead.gone {
            Some(gone) => Some(gone.as_fd()),
            None => self.ring.as_ref().map(AsFd::as_fd),
        }
    }

    /// Requests that a dead channel still has: all of them are done when the kernel has freed the ring.
    #[cold]
    pub(super) fn reap_dead(&mut self) {
        let Some(Dead { errno, gone: Some(gone), .. }) = &self.dead else { return };
        if self.taken > 0 && is_ready(gone, PollFlags::IN) {
            self.fail_taken(*errno, |_| true);
        }
    }

    /// Fails the requests whose places on the ring match.
    fn fail_taken(&mut self, errno: i32, matches: impl Fn(u32) -> bool) {
        for (tag, request) in (0..).zip(&mut self.requests) {
            if request.is_taken && matches(request.place) {
                request.is_taken = false;
                self.taken -= 1;
                self.ready.push(Completion { tag, result: -i64::from(errno) });
            }
        }
    }
}
