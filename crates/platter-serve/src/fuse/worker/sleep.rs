//! Where a worker sleeps, and its end.

use super::{Open, Worker};
use platter_block::time::{Span, Time};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use std::os::fd::AsRawFd;

/// How long memory is kept by a thread that has nothing to do.
const KEEP: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// How long to sleep if a completion cannot be seen on a descriptor.
const NAP: Span = Span::from_millis(1);

fn timespec(span: Span) -> Timespec {
    Timespec { tv_sec: (span.0 / 1_000_000_000) as i64, tv_nsec: (span.0 % 1_000_000_000) as i64 }
}

impl Worker {
    /// Answers what the devices still have: they use this worker's memory, and others may wait for it. A device that does
    /// not answer holds no answer of another one back.
    pub(super) fn end(mut self) {
        // Nothing is taken from the kernel any more.
        self.uncount();
        self.waiting.end();
        self.finish_all();
        while self.opened.iter().flatten().any(|open| open.channel.outstanding() > 0) {
            for open in self.opened.iter_mut().flatten().filter(|open| open.channel.outstanding() > 0) {
                open.channel.poll(&mut self.done);
            }
            if self.finish_all() == 0 {
                self.wait(false);
                self.finish_all();
            }
        }
    }

    /// How long the request that is held has to wait at most.
    fn held_for(&self) -> Option<Span> {
        let at = self.again_at.filter(|_| self.held.is_some())?;
        let clock = self.opened.iter().flatten().next()?.channel.clock();
        Some(at.since(clock.now()))
    }

    /// Sleeps until there is something to do. `takes`: also until the kernel has a request.
    pub(super) fn wait(&mut self, takes: bool) {
        let wake = if takes { &self.any } else { &self.bell.event };
        let busy = |open: &&mut Open| open.channel.outstanding() > 0;
        let mut channels = self.opened.iter_mut().flatten().filter(busy);
        let Some(first) = channels.next() else {
            if takes {
                let keep = self.buffers.has_free().then_some(&KEEP);
                self.events.clear();
                // Interrupted or not, the caller tries again.
                if epoll::wait(&self.any, spare_capacity(&mut self.events), keep) == Ok(0) {
                    self.buffers.trim();
                }
            } else {
                let timeout = self.held_for().map(timespec);
                let _ = poll(&mut [PollFd::new(&self.bell.event, PollFlags::IN)], timeout.as_ref());
            }
            return self.bell.clear();
        };
        self.descriptors.clear();
        self.descriptors.push(wake.as_raw_fd());
        let now = first.channel.clock().now();
        let mut timeout = self.again_at.filter(|_| self.held.is_some()).map(|at| at.since(now));
        for other in channels {
            let seen = other.channel.descriptors(&mut self.descriptors);
            let at = other.channel.next_wakeup().map(|at: Time| at.since(now));
            let soon = at.into_iter().chain((!seen).then_some(NAP)).min();
            timeout = timeout.into_iter().chain(soon).min();
        }
        first.channel.wait_or_readable(&mut self.done, &self.descriptors, timeout);
        self.bell.clear();
    }
}
