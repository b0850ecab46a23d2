//! Where asynchronous drivers send what the kernel only does while the caller blocks.

use super::bell::Bell;
use super::target::Target;
use super::threads::{Threads, Workers};
use platter_block::driver::{Completion, Driver, Started};
use platter_block::time::{Span, Time};
use std::io;
use std::sync::Arc;

/// Threads for such requests of one channel: these are rare and slow.
const THREADS: usize = 2;

/// A small pool of threads beside an asynchronous channel, started with the first request for it. The
/// channel listens to its bell by a poll request of its own kind, so that one wait covers both.
pub(super) struct Side {
    target: Arc<Target>,
    depth: u32,
    running: Option<(Threads, Arc<Bell>)>,
    listening: bool,
}

impl Side {
    pub(super) fn new(target: Arc<Target>, depth: u32) -> Side {
        Side { target, depth, running: None, listening: false }
    }

    /// Takes a request; `false` when there is no room.
    ///
    /// # Errors
    /// When the descriptor for the bell cannot be had.
    pub(super) fn queue(&mut self, now: Time, request: &Started<'_>) -> io::Result<bool> {
        let (threads, _) = match &mut self.running {
            Some(running) => running,
            None => {
                let bell = Arc::new(Bell::new()?);
                let workers = Arc::new(Workers::new(THREADS));
                let threads = Threads::new(Arc::clone(&self.target), self.depth, workers, Arc::clone(&bell));
                self.running.insert((threads, bell))
            }
        };
        Ok(threads.queue(now, request))
    }

    /// Hands what was queued to the threads.
    pub(super) fn submit(&mut self, now: Time) {
        if let Some((threads, _)) = &mut self.running {
            threads.submit(now);
        }
    }

    /// The descriptor that a poll request should be made for now, if any. Each call that gives one counts
    /// as made, until [`Side::heard`].
    pub(super) fn listen(&mut self) -> Option<i32> {
        let (threads, bell) = self.running.as_ref()?;
        if self.listening || threads.in_flight() == 0 {
            return None;
        }
        self.listening = true;
        bell.arm();
        if threads.has_done() {
            bell.ring();
        }
        Some(bell.raw())
    }

    /// The poll request has completed, or could not be made.
    pub(super) fn heard(&mut self) {
        self.listening = false;
    }

    /// Appends what has completed.
    pub(super) fn reap(&mut self, now: Time, done: &mut Vec<Completion>) {
        if let Some((threads, _)) = &mut self.running {
            threads.reap(now, done);
        }
    }

    /// Blocks until something can be reaped or the time is over.
    pub(super) fn wait(&mut self, now: Time, timeout: Option<Span>) {
        if let Some((threads, _)) = &mut self.running {
            threads.wait(now, timeout);
        }
    }

    /// Requests that have not been reaped.
    pub(super) fn in_flight(&self) -> usize {
        self.running.as_ref().map_or(0, |(threads, _)| threads.in_flight())
    }
}
