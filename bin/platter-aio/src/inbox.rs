//! What the program's threads hand to the engine's thread.

use crate::block::BlockRef;
use crate::request::Request;
use crate::statistics::STATISTICS;
use libc::c_int;
use platter_disk::drivers::descriptor_opener::Waker;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The answer to a cancellation.
#[derive(Default)]
pub(crate) struct Reply {
    answer: Mutex<Option<c_int>>,
    given: Condvar,
}

impl Reply {
    pub(crate) fn give(&self, answer: c_int) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        self.given.notify_one();
    }

    pub(crate) fn wait(&self) -> c_int {
        let mut answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match *answer {
                Some(answer) => return answer,
                None => answer = self.given.wait(answer).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// A cancellation of one request of a descriptor, or of all of them.
pub(crate) struct Cancel {
    pub(crate) fd: RawFd,
    pub(crate) block: Option<BlockRef>,
    pub(crate) reply: Arc<Reply>,
}

/// What is handed over.
pub(crate) enum Command {
    /// A new request.
    Start(Request),
    /// An end before its time.
    Cancel(Cancel),
}

/// The list of commands, and the count of requests that bounds it.
pub(crate) struct Inbox {
    commands: Mutex<Vec<Command>>,
    outstanding: AtomicU32,
    depth: u32,
    waker: Waker,
}

impl Inbox {
    /// For at most `depth` requests at once.
    pub(crate) fn new(depth: u32, waker: Waker) -> Inbox {
        let commands = Mutex::new(Vec::with_capacity(depth as usize));
        Inbox { commands, outstanding: AtomicU32::new(0), depth, waker }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Command>> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves a place for a request; `false` if the depth is reached.
    pub(crate) fn reserve(&self) -> bool {
        let before = self.outstanding.fetch_add(1, Ordering::Relaxed);
        if before >= self.depth {
            self.outstanding.fetch_sub(1, Ordering::Relaxed);
            STATISTICS.refused.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        let now = u64::from(before) + 1;
        if now > STATISTICS.most_outstanding.load(Ordering::Relaxed) {
            STATISTICS.most_outstanding.fetch_max(now, Ordering::Relaxed);
        }
        true
    }

    /// Gives places back.
    pub(crate) fn release(&self, places: u32) {
        self.outstanding.fetch_sub(places, Ordering::Relaxed);
    }

    /// Hands over commands; those of one call stay together. Returns commands that nothing will take: the program has closed
    /// the engine's descriptors, and it cannot be woken.
    pub(crate) fn push(&self, commands: impl IntoIterator<Item = Command>) -> Vec<Command> {
        self.lock().extend(commands);
        if self.waker.wake() { Vec::new() } else { std::mem::take(&mut *self.lock()) }
    }

    /// Whether the engine is awake, or can be woken.
    pub(crate) fn is_reachable(&self) -> bool {
        self.waker.is_reachable()
    }

    /// Exchanges the list for an empty one.
    pub(crate) fn take(&self, empty: &mut Vec<Command>) {
        std::mem::swap(&mut *self.lock(), empty);
    }

    /// Whether nothing was handed over.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }
}
