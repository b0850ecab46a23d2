//! When to retry calls for which the system had no resources.

use platter_block::time::{Span, Time};

/// The first pause. Long compared with a system call, short compared with a disk.
const FIRST: Span = Span::from_micros(50);
/// The longest pause.
const LONGEST: Span = Span::from_millis(10);

/// A pause that doubles each time in a row that the system has no resources (memory for requests, threads).
#[derive(Debug, Default)]
pub(super) struct Pause {
    until: Option<Time>,
    span: Span,
}

impl Pause {
    /// The system had no resources at `now`.
    #[cold]
    pub(super) fn begin(&mut self, now: Time) {
        self.span = Span((self.span.0 * 2).clamp(FIRST.0, LONGEST.0));
        self.until = Some(now + self.span);
    }

    /// The system had resources.
    #[inline]
    pub(super) fn end(&mut self) {
        if self.until.is_some() {
            *self = Pause::default();
        }
    }

    /// Whether there is no pause, or it has ended.
    pub(super) fn is_over(&self, now: Time) -> bool {
        self.until.is_none_or(|at| now >= at)
    }

    /// When the pause ends.
    pub(super) fn until(&self) -> Option<Time> {
        self.until
    }

    /// `timeout`, or the rest of the pause if that is shorter.
    pub(super) fn limit(&self, now: Time, timeout: Option<Span>) -> Option<Span> {
        let left = self.until.map(|at| at.since(now));
        timeout.into_iter().chain(left).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound_and_begin_anew() {
        let mut pause = Pause::default();
        assert!(pause.is_over(Time(0)) && pause.limit(Time(0), None).is_none());
        let spans: Vec<u64> = (0..10)
            .map(|_| {
                pause.begin(Time(1000));
                pause.limit(Time(1000), None).unwrap().0 / 1000
            })
            .collect();
        assert_eq!(spans, [50, 100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        assert!(!pause.is_over(Time(1000)) && pause.is_over(Time(10_001_000)));
        assert_eq!(pause.limit(Time(10_000_000), Some(Span(7))), Some(Span(7)));
        pause.end();
        pause.begin(Time(0));
        assert_eq!(pause.until(), Some(Time(50_000)));
    }
}
