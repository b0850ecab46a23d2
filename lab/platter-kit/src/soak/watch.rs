//! How long a run has really run: the time in which a loaded machine did not let its thread run does not count.

use super::Outcome;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Shortest time until the next look.
const LOOK: Duration = Duration::from_millis(100);

/// The thread of a run, under `/proc`.
#[derive(Default)]
pub(super) struct Watched(OnceLock<PathBuf>);

impl Watched {
    /// To be called by the thread.
    pub(super) fn is_this_thread(&self) {
        if let Ok(thread) = std::fs::read_link("/proc/thread-self") {
            let _ = self.0.set(PathBuf::from("/proc").join(thread));
        }
    }

    /// How long the thread has waited for a processor; zero where the kernel does not count that.
    fn queued(&self) -> Duration {
        let text = self.0.get().and_then(|thread| std::fs::read_to_string(thread.join("schedstat")).ok());
        let nanos = text.and_then(|text| text.split_whitespace().nth(1)?.parse().ok());
        Duration::from_nanos(nanos.unwrap_or(0))
    }

    /// Waits for the outcome. `None`: the thread has run or slept for `most` without one.
    pub(super) fn outcome(&self, outcome: &Receiver<Outcome>, most: Duration) -> Option<Outcome> {
        let began = Instant::now();
        let mut left = most;
        loop {
            match outcome.recv_timeout(left.max(LOOK)) {
                Ok(outcome) => return Some(outcome),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            left = most.saturating_sub(began.elapsed().saturating_sub(self.queued()));
            if left.is_zero() {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, mpsc};

    #[test]
    fn a_thread_that_sleeps_or_spins_for_ever_is_abandoned() {
        for sleeps in [true, false] {
            let (watched, over) = (Arc::new(Watched::default()), Arc::new(AtomicBool::new(false)));
            let (send, receive) = mpsc::channel::<Outcome>();
            let (its, end) = (Arc::clone(&watched), Arc::clone(&over));
            let thread = std::thread::spawn(move || {
                its.is_this_thread();
                while !end.load(Ordering::Relaxed) {
                    if sleeps {
                        std::thread::park_timeout(LOOK);
                    }
                }
                drop(send);
            });
            assert!(watched.outcome(&receive, LOOK).is_none());
            over.store(true, Ordering::Relaxed);
            thread.join().unwrap();
        }
    }

    #[test]
    fn an_outcome_that_comes_is_returned() {
        let (send, receive) = mpsc::channel();
        send.send(Outcome::default()).unwrap();
        assert!(Watched::default().outcome(&receive, Duration::ZERO).is_some());
    }
}
