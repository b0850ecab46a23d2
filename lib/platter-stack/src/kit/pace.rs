//! Background work: its rate, its progress, and a pause.

use super::core::Below;
use super::wait::Event;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use platter_block::fault::Status;
use platter_block::params::{self, Param, ParamError, Unit};
use platter_block::status::Item;
use platter_block::time::{Span, Time};
use std::future::Future;
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

/// How background work of a layer appears in its status, and its parameters.
#[derive(Clone, Copy, Debug)]
pub struct WorkTable {
    /// Name of the item with the state: a word.
    pub state: &'static str,
    /// Name of the item with the bytes done.
    pub done: &'static str,
    /// Name of the item with the bytes to do.
    pub total: &'static str,
    /// Name of the item with the error that ended the work.
    pub failure: &'static str,
    /// The parameters: the rate in bytes per second (0: no limit), and whether the work is paused.
    pub params: [Param; 2],
}

/// The longest that work sleeps before it looks at its rate again, which may have been changed.
const LOOK: Span = Span::from_millis(100);

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

    /// Carries out work in pieces until there is none left or one fails: `next` chooses a piece and says how many bytes it has,
    /// and `carry_out` does it when the rate allows.
    ///
    /// # Errors
    /// That of a piece. [`end`](Pace::end) is left to the caller, who may have something to do after the last piece.
    pub async fn run<P, F: Future<Output = Status>>(
        &self,
        total: u64,
        mut next: impl FnMut() -> Option<(u64, P)>,
        mut carry_out: impl FnMut(P) -> F,
    ) -> Status {
        self.begin(total);
        while let Some((bytes, piece)) = next() {
            self.next(bytes).await;
            carry_out(piece).await?;
            self.advance(bytes);
        }
        Ok(())
    }

    /// Waits until the next `bytes` may be done: until the work is not paused, and the rate allows it.
    pub async fn next(&self, bytes: u64) {
        self.while_paused().await;
        let from = self.below.now();
        while let Some(next) = self.wait_until(from, bytes) {
            self.below.sleep_until(next).await;
            self.while_paused().await;
        }
    }

    async fn while_paused(&self) {
        loop {
            // From before the check: another thread may resume the work in between.
            let resumed = self.resumed.wait();
            if !self.paused.load(Ordering::Relaxed) {
                return;
            }
            resumed.await;
        }
    }

    /// Until when to wait before `bytes` may be done; `None`: they may be done now, and are counted. `from` is when the work
    /// became ready: earlier time, in which nothing was done, is not made up for.
    fn wait_until(&self, from: Time, bytes: u64) -> Option<Time> {
        let rate = self.rate.load(Ordering::Relaxed);
        if rate == 0 {
            return None;
        }
        let now = self.below.now();
        let mut state = lock(&self.state);
        let due = state.0.max(from);
        if due > now {
            return Some(due.min(now + LOOK));
        }
        let span = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
        state.0 = due + Span(u64::try_from(span).unwrap_or(u64::MAX));
        None
    }

    /// Sets the rate, in bytes per second; 0: no limit. It applies within a tenth of a second.
    pub fn set_rate(&self, rate: u64) {
        self.rate.store(rate, Ordering::Relaxed);
        lock(&self.state).0 = Time(0);
    }

    /// The status of the work.
    pub fn status(&self, table: &WorkTable) -> Vec<Item> {
        let Progress { done, total, is_paused, result } = self.progress();
        let word = match result {
            Some(Ok(())) => "done",
            Some(Err(_)) => "failed",
            None if is_paused => "paused",
            None => "running",
        };
        let mut items = Vec::from([
            Item::text(table.state, word, "state of the work: running, paused, done or failed"),
            Item::number(table.done, Unit::Bytes, done, "bytes done since the device was opened"),
            Item::number(table.total, Unit::Bytes, total, "bytes to do when the device was opened"),
        ]);
        if let Some(Err(fault)) = result {
            items.push(Item::text(table.failure, fault.to_string(), "the error that ended the work"));
        }
        items
    }

    /// The parameters of the work, and their values.
    pub fn params(&self, table: &WorkTable) -> Vec<(Param, i64)> {
        let rate = i64::try_from(self.rate.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
        let paused = i64::from(self.paused.load(Ordering::Relaxed));
        table.params.into_iter().zip([rate, paused]).collect()
    }

    /// Sets a parameter of the work.
    ///
    /// # Errors
    /// The name is unknown or the value out of range; `owner` names the layer in the message.
    pub fn set_param(
        &self,
        table: &WorkTable,
        owner: &str,
        name: &str,
        value: i64,
    ) -> Result<(), ParamError> {
        match params::check(owner, &table.params, name, value)? {
            0 => self.set_rate(value.unsigned_abs()),
            _ => self.pause(value != 0),
        }
        Ok(())
    }

    /// Adds bytes that were done.
    pub fn advance(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The work has ended.
    pub fn end(&self, result: Status) {
        lock(&self.state).1 = Some(result);
    }

    /// Pauses or resumes the work: a piece that was begun is finished. To be followed by
    /// [`Frame::announce`](super::Frame::announce), which has the work run also if the device has no I/O; a parameter is.
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
