//! Whether a disk can be reached: what all of its channels know, and when one of them tries to connect again.
//!
//! A channel that has lost its connection holds its I/O for `reconnect` and tries to connect meanwhile, with pauses that double from 10 ms
//! to 1 s. When that time is over the disk is *down*: new I/O fails until a connection works. A disk that *failed* is not used any more at
//! all, because it came back as another one or a change of it may still be under way.

use crate::trouble::Trouble;
use platter_block::time::{Span, Time};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// What all channels of a disk know.
#[derive(Default)]
pub(crate) struct Reach {
    /// Connections have been missing for longer than I/O is held.
    down: AtomicBool,
    /// Why the disk must not be used any more.
    failed: OnceLock<String>,
    trouble: Trouble,
    /// Whether that may be the cause of failures now.
    is_troubled: AtomicBool,
}

impl Reach {
    /// The disk must not be used any more.
    pub(crate) fn fail(&self, why: String) {
        self.report(&why);
        // The first reason counts.
        let _ = self.failed.set(why);
    }

    pub(crate) fn failure(&self) -> Option<&str> {
        self.failed.get().map(String::as_str)
    }

    /// Remembers the last trouble.
    pub(crate) fn report(&self, trouble: &str) {
        self.trouble.report(trouble);
        self.is_troubled.store(true, Ordering::SeqCst);
    }

    /// I/O was held as long as it may be.
    pub(crate) fn note_down(&self) {
        self.down.store(true, Ordering::SeqCst);
    }

    /// A connection works again.
    pub(crate) fn note_up(&self) {
        self.down.store(false, Ordering::SeqCst);
        self.recover();
    }

    /// The last trouble is over.
    pub(crate) fn recover(&self) {
        self.is_troubled.store(false, Ordering::SeqCst);
    }

    /// Whether new I/O fails.
    pub(crate) fn is_gone(&self) -> bool {
        self.failure().is_some() || self.down.load(Ordering::SeqCst)
    }

    /// The trouble that may be the cause of a failure that has just happened.
    pub(crate) fn cause(&self) -> Option<String> {
        self.is_troubled.load(Ordering::SeqCst).then(|| self.trouble.last())
    }

    /// The last trouble, over or not.
    pub(crate) fn trouble(&self) -> &Trouble {
        &self.trouble
    }
}

/// The first pause between two attempts to connect.
const FIRST_PAUSE: Span = Span::from_millis(10);

/// The longest one.
pub(crate) const LONGEST_PAUSE: Span = Span::from_secs(1);

/// The attempts of a channel to connect again.
pub(crate) struct Retries {
    pause: Span,
    /// Until when I/O is held; `None` while a connection works.
    outage: Option<Time>,
    /// The address that is tried next.
    place: usize,
}

impl Default for Retries {
    fn default() -> Retries {
        Retries { pause: FIRST_PAUSE, outage: None, place: 0 }
    }
}

impl Retries {
    /// The connection is lost. I/O is held until this time.
    pub(crate) fn lost(&mut self, until: Time) {
        (self.pause, self.outage) = (FIRST_PAUSE, Some(until));
    }

    /// The index of the address to try next. There are `count` addresses.
    pub(crate) fn next_place(&mut self, count: usize) -> usize {
        let place = self.place % count;
        self.place += 1;
        place
    }

    /// Whether I/O has been held for long enough, or never.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        self.outage.is_none_or(|until| now >= until)
    }

    /// An attempt has failed. Returns when to make the next one.
    pub(crate) fn failed(&mut self, now: Time) -> Time {
        let retry = now + self.pause;
        self.pause = Span(2 * self.pause.0).min(LONGEST_PAUSE);
        retry
    }

    /// A connection works.
    pub(crate) fn succeeded(&mut self) {
        (self.pause, self.outage) = (FIRST_PAUSE, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pauses are 10, 20, 40, ..., 640, 1000, 1000 ms; I/O is held for 1 s.
    #[test]
    fn pauses_double_and_io_is_held_for_its_time() {
        let mut retries = Retries::default();
        retries.lost(Time(0) + Span::from_secs(1));
        let (mut now, mut pauses, mut held) = (Time(0), Vec::new(), Vec::new());
        for _ in 0..9 {
            held.push(!retries.is_over(now));
            let retry = retries.failed(now);
            pauses.push(retry.since(now).as_millis());
            now = retry;
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert_eq!(held, [true, true, true, true, true, true, true, false, false]);
        retries.succeeded();
        assert_eq!((retries.is_over(now), retries.failed(now)), (true, now + Span::from_millis(10)));
        assert_eq!([retries.next_place(2), retries.next_place(2), retries.next_place(2)], [0, 1, 0]);
    }

    #[test]
    fn a_disk_that_failed_stays_gone_for_the_first_reason() {
        let reach = Reach::default();
        reach.report("a connection was lost");
        reach.note_down();
        assert_eq!((reach.is_gone(), reach.cause().as_deref()), (true, Some("a connection was lost")));
        reach.recover();
        assert_eq!((reach.is_gone(), reach.cause()), (true, None), "other trouble is over");
        reach.note_up();
        assert_eq!((reach.is_gone(), reach.cause()), (false, None));
        reach.fail("another disk".to_owned());
        reach.fail("too late".to_owned());
        reach.note_up();
        assert_eq!((reach.is_gone(), reach.failure()), (true, Some("another disk")));
    }
}
