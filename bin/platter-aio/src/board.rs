//! Where completions are announced and threads wait for them.
//!
//! All waiting threads share one counter, so none has to register with the requests that it waits for: a handler of a
//! signal can wait, and a thread can wait for any number of requests without memory for it. The price is that every
//! announcement wakes every waiting thread.

use crate::sync::{AtomicU32, Futex, Ordering, Woken};
use platter_block::time::Time;

/// Counts announcements.
pub(crate) struct Board {
    posts: Futex,
    waiting: AtomicU32,
}

/// Why a wait ended before the condition held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The deadline has passed.
    TimedOut,
    /// A handler of a signal has run.
    Interrupted,
}

impl Board {
    /// A board made of these, which are zero.
    pub(crate) const fn new(posts: Futex, waiting: AtomicU32) -> Board {
        Board { posts, waiting }
    }

    /// Announces completions whose results have been stored before.
    pub(crate) fn post(&self) {
        self.posts.add();
        // In the one order of these accesses, a thread that is not counted yet reads the counter after this.
        if self.waiting.load(Ordering::SeqCst) != 0 {
            self.posts.wake_all();
        }
    }

    /// Waits until `is_done`, which is asked at the beginning and after each announcement.
    ///
    /// # Errors
    /// It is not, and the deadline has passed or a handler of a signal has run.
    pub(crate) fn wait(
        &self,
        mut is_done: impl FnMut() -> bool,
        deadline: Option<Time>,
    ) -> Result<(), Ended> {
        let mut ended = None;
        loop {
            if is_done() {
                return Ok(());
            }
            if let Some(ended) = ended {
                return Err(ended);
            }
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let seen = self.posts.load();
            let woken = if is_done() { Woken::Perhaps } else { self.posts.wait(seen, deadline) };
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            ended = match woken {
                Woken::Perhaps => None,
                Woken::TimedOut => Some(Ended::TimedOut),
                Woken::Interrupted => Some(Ended::Interrupted),
            };
        }
    }
}
