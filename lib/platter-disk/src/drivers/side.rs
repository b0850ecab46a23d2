//! The threads to which asynchronous drivers send requests that would block their caller.

use super::file_target::Target;
use super::threads::{Counts, Threads, Workers};
use crate::wake::{ArmedDoorbell, EventFd};
use platter_block::driver::{Completion, Driver, Outstanding, Started};
use platter_block::time::{Span, Time};
use std::io;
use std::sync::Arc;

/// The disk's threads as seen from an asynchronous channel. Its connection to them is set up with the first request
/// for them. The channel listens to its descriptor by a poll request, so that one wait covers both.
pub(super) struct Side {
    target: Arc<Target>,
    depth: u32,
    workers: Arc<Workers>,
    running: Option<Running>,
    counts: Arc<Counts>,
    watch: Arc<ArmedDoorbell>,
    listening: bool,
}

/// The connection to the threads, and the descriptor that they signal.
struct Running {
    threads: Threads,
    wake: Arc<ArmedDoorbell>,
}

impl Side {
    pub(super) fn new(target: Arc<Target>, depth: u32, workers: Arc<Workers>) -> Side {
        Side {
            target,
            depth,
            workers,
            running: None,
            counts: Arc::default(),
            watch: Arc::new(ArmedDoorbell::new()),
            listening: false,
        }
    }

    /// Takes a request; `false` if there is no room.
    ///
    /// # Errors
    /// The descriptor to listen on is unavailable.
    pub(super) fn queue(&mut self, now: Time, request: &Started<'_>) -> io::Result<bool> {
        Ok(self.threads()?.queue(now, request))
    }

    /// The threads; sets them up on first use.
    pub(super) fn threads(&mut self) -> io::Result<&mut Threads> {
        if self.running.is_none() {
            let wake = Arc::new(ArmedDoorbell::opened()?);
            let (target, workers) = (Arc::clone(&self.target), Arc::clone(&self.workers));
            let counts = Arc::clone(&self.counts);
            let wakes = [Arc::clone(&wake), Arc::clone(&self.watch)];
            let threads = Threads::beside(target, self.depth, workers, wakes, counts);
            self.running = Some(Running { threads, wake });
        }
        match &mut self.running {
            Some(Running { threads, .. }) => Ok(threads),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Submits the queued requests to the threads.
    #[inline]
    pub(super) fn submit(&mut self, now: Time) {
        if let Some(Running { threads, .. }) = &mut self.running {
            threads.submit(now);
        }
    }

    /// A descriptor that the threads signal themselves, once it is armed, besides the one for poll requests. The driver
    /// may let the kernel signal it too.
    pub(super) fn watch(&self) -> &ArmedDoorbell {
        &self.watch
    }

    /// Whether the threads were ever needed.
    pub(super) fn is_used(&self) -> bool {
        self.running.is_some()
    }

    /// The descriptor to make a poll request for now, if any. Each returned descriptor counts as polled until
    /// [`Side::heard`].
    #[inline]
    pub(super) fn listen(&mut self) -> Option<i32> {
        let Running { threads, wake } = self.running.as_ref()?;
        if self.listening || threads.in_flight() == 0 {
            return None;
        }
        self.listening = true;
        let fd = wake.arm();
        if threads.has_done() {
            wake.ring();
        }
        fd.map(EventFd::raw)
    }

    /// Whether a poll request counts as outstanding.
    pub(super) fn is_listening(&self) -> bool {
        self.listening
    }

    /// Makes the poll request complete, even if no thread has completed anything.
    pub(super) fn end_listening(&self) {
        if let Some(Running { wake, .. }) = &self.running
            && self.listening
        {
            // It is armed, or rung already.
            wake.ring();
        }
    }

    /// The poll request has completed, or could not be made.
    pub(super) fn poll_ended(&mut self) {
        self.listening = false;
    }

    /// Appends completions.
    pub(super) fn reap(&mut self, now: Time, done: &mut Vec<Completion>) {
        if let Some(Running { threads, .. }) = &mut self.running {
            threads.reap(now, done);
        }
    }

    /// Blocks until something can be reaped or the time has passed.
    pub(super) fn wait(&mut self, now: Time, timeout: Option<Span>) {
        if let Some(Running { threads, .. }) = &mut self.running {
            threads.wait(now, timeout);
        }
    }

    /// Requests that have not been reaped.
    #[inline]
    pub(super) fn in_flight(&self) -> usize {
        self.running.as_ref().map_or(0, |Running { threads, .. }| threads.in_flight())
    }

    /// When the threads must be offered their requests again.
    pub(super) fn next_event(&self) -> Option<Time> {
        self.running.as_ref().and_then(|Running { threads, .. }| threads.next_event())
    }

    /// Takes back a request that no thread has started.
    pub(super) fn cancel(&mut self, now: Time, tag: u32) -> bool {
        self.running.as_mut().is_some_and(|Running { threads, .. }| threads.cancel(now, tag))
    }

    /// A counter that tells other threads how many requests the threads have.
    pub(super) fn outstanding(&self) -> Arc<dyn Outstanding> {
        let counts: Arc<Counts> = Arc::clone(&self.counts);
        counts
    }
}
