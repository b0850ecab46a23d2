//! Background work: its rate, its progress, and a pause.

use super::core::Below;
use super::wait::Event;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use platter_block::fault::Status;
use platter_block::time::{Span, Time};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The state of background work, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes done.
    pub done: u64,
    /// Bytes to do in total.
    pub total: u64,
    /// The work is paused.
    pub is_paused: bool,
    /// The result, when the work has ended.
    pub result: Option<Status>,
}

/// Paces background work of a layer. The work calls [`next`](Pace::next) before each piece; operators pause it and ask for
/// its progress.
pub struct Pace {
    below: Below,
    /// Bytes per second; 0: no limit.
    rate: AtomicU64,
    done: AtomicU64,
    total: AtomicU64,
    paused: AtomicBool,
    resumed: Arc<Event>,
    state: Mutex<(Time, Option<Status>)>,
}

impl Pace {
    /// At most `rate` bytes per second; 0: no limit.
    pub fn new(below: &Below, rate: u64) -> Arc<Pace> {
        let (done, total, paused) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        let (resumed, state) = (Event::new(below), Mutex::default());
        Arc::new(Pace {
            below: below.clone(),
            rate: AtomicU64::new(rate),
            done,
            total,
            paused,
            resumed,
            state,
        })
    }

    /// Begins the work, with the number of bytes to do.
    pub fn begin(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
        *lock(&self.state) = (self.below.now(), None);
    }

    /// Waits until the next `bytes` may be done: until the work is not paused, and the rate allows it.
    pub async fn next(&self, bytes: u64) {
        while self.paused.load(Ordering::Relaxed) {
            self.resumed.wait().await;
        }
        let rate = self.rate.load(Ordering::Relaxed);
        if rate == 0 {
            return;
        }
        let start = {
            let now = self.below.now();
            let mut state = lock(&self.state);
            // Time in which nothing was done is not made up for.
            let start = state.0.max(now);
            let span = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
            state.0 = start + Span(u64::try_from(span).unwrap_or(u64::MAX));
            start
        };
        self.below.sleep_until(start).await;
    }

    /// Adds bytes that were done.
    pub fn advance(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The work has ended.
    pub fn end(&self, result: Status) {
        lock(&self.state).1 = Some(result);
    }

    /// Pauses or resumes the work: a piece that was begun is finished.
    pub fn pause(&self, pause: bool) {
        self.paused.store(pause, Ordering::Relaxed);
        if !pause {
            self.resumed.happen();
        }
    }

    /// What was done.
    pub fn progress(&self) -> Progress {
        Progress {
            done: self.done.load(Ordering::Relaxed),
            total: self.total.load(Ordering::Relaxed),
            is_paused: self.paused.load(Ordering::Relaxed),
            result: lock(&self.state).1,
        }
    }
}
