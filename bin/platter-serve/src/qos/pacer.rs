//! A rate, by the generic cell rate algorithm, in integers.

use platter_block::time::{Span, Time};

/// Binary places below a nanosecond: rates of many gigabytes per second are exact to a millionth.
const FRACTION: u32 = 32;
const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Nanoseconds, with the binary places.
fn fixed(nanos: u64) -> u128 {
    u128::from(nanos) << FRACTION
}

/// Allows `rate` units per second, and idle time of up to `burst` to be caught up on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pacer {
    rate: u64,
    burst: Span,
    /// When all that was taken would have been taken at exactly the rate, in 2^-32 ns.
    free_at: u128,
}

impl Pacer {
    /// Changes the rate; 0: no limit. What was taken before stays taken: a larger burst is no credit for time that was not
    /// idle, a smaller one is not waited for, and what is owed is waited for at the faster of the two rates. `now` may be in
    /// the past: then what is owed is as if a faster rate had held since.
    pub(super) fn set(&mut self, now: Time, rate: u64, burst: Span) {
        let old = std::mem::replace(self, Pacer { rate, burst, free_at: 0 });
        if rate == 0 || old.rate == 0 {
            return;
        }
        // What stays is the time at which something may be taken.
        let free_at = (old.free_at + fixed(burst.0)).saturating_sub(fixed(old.burst.0));
        let owed = free_at.saturating_sub(fixed(now.0) + fixed(burst.0));
        let still_owed = match rate > old.rate {
            // The product of the two could be too large.
            true => owed / u128::from(rate) * u128::from(old.rate),
            false => owed,
        };
        self.free_at = free_at - owed + still_owed;
    }

    /// The earliest time at which something may be taken.
    pub(super) fn ready(&self) -> Time {
        Self::time(self.free_at.saturating_sub(fixed(self.burst.0)))
    }

    /// The earliest time at which something may be taken if `units` are taken first as soon as that is allowed.
    pub(super) fn ready_after(&self, now: Time, units: u64) -> Time {
        let mut then = *self;
        then.take(now, units);
        then.ready()
    }

    /// Takes `units`, at `now` or later.
    pub(super) fn take(&mut self, now: Time, units: u64) {
        if self.rate > 0 {
            let cost = ((u128::from(units) * NANOS_PER_SECOND) << FRACTION) / u128::from(self.rate);
            self.free_at = self.free_at.max(fixed(now.0)) + cost;
        }
    }

    /// Rounded up to a nanosecond.
    fn time(at: u128) -> Time {
        Time(u64::try_from(at.div_ceil(1 << FRACTION)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_does_not_divide_a_second_is_exact() {
        let mut pacer = Pacer::default();
        pacer.set(Time(0), 3_000_000_007, Span::ZERO);
        let mut now = Time(5);
        for _ in 0..1_000_000 {
            now = pacer.ready().max(now);
            pacer.take(now, 512);
        }
        let exact = 512_000_000u128 * NANOS_PER_SECOND / 3_000_000_007;
        // The asker's clock counts whole nanoseconds, which the catching up of half of one would need.
        let error = u128::from(now.0 - 5).abs_diff(exact);
        assert!(error <= 1_000_000, "{error} ns of {exact}");
        pacer.set(now, 3_000_000_007, Span(1));
        let begin = pacer.ready().max(now);
        let mut now = begin;
        for _ in 0..1_000_000 {
            now = pacer.ready().max(now);
            pacer.take(now, 512);
        }
        let error = u128::from(now.0 - begin.0).abs_diff(exact);
        assert!(error <= 1_000, "{error} ns of {exact} although a nanosecond may be caught up on");
    }

    #[test]
    fn idle_time_is_caught_up_on_up_to_the_burst() {
        let mut pacer = Pacer::default();
        let now = Time(1_000_000_000);
        pacer.set(now, 1000, Span::from_millis(5));
        let mut taken = 0;
        while pacer.ready() <= now {
            pacer.take(now, 1);
            taken += 1;
        }
        assert_eq!(taken, 6, "one, and five that 5 ms allow at 1000 per second");
        assert_eq!(pacer.ready(), Time(1_001_000_000));
        assert_eq!(pacer.ready_after(now, 2), Time(1_003_000_000));
        pacer.set(now, 0, Span::ZERO);
        assert_eq!(pacer.ready(), Time(0));
    }

    #[test]
    fn what_is_owed_is_waited_for_at_the_faster_rate() {
        let second = |seconds: u64| Time(seconds * 1_000_000_000);
        let mut pacer = Pacer::default();
        pacer.set(second(0), 1, Span::ZERO);
        pacer.take(second(0), 1000);
        assert_eq!(pacer.ready(), second(1000));
        pacer.set(second(100), 1000, Span::ZERO);
        assert_eq!(pacer.ready(), Time(100_900_000_000), "900 units at 1000 per second");
        pacer.set(second(100), 1, Span::ZERO);
        assert_eq!(pacer.ready(), Time(100_900_000_000), "they were taken at 1000 per second");
        pacer.set(second(200), 1000, Span::ZERO);
        assert_eq!(pacer.ready(), Time(100_900_000_000), "nothing is owed");
    }

    #[test]
    fn another_burst_changes_nothing_for_one_that_was_not_idle() {
        let mut pacer = Pacer::default();
        let begin = Time(7_200_000_000_000);
        let (short, long) = (Span::from_millis(10), Span::from_secs(3600));
        pacer.set(begin, 1000, long);
        pacer.take(begin, 3_600_000);
        assert_eq!(pacer.ready(), begin, "the whole burst was taken");
        for burst in [short, long, Span::ZERO, short] {
            pacer.set(begin, 1000, burst);
            assert_eq!(pacer.ready(), begin, "{burst:?}");
        }
        pacer.take(begin, 1);
        assert_eq!(pacer.ready(), begin + Span::from_millis(1));
        // Now it is idle for an hour, of which it may catch up on the burst.
        let later = begin + long;
        pacer.set(later, 1000, short);
        for _ in 0..11 {
            assert!(pacer.ready() <= later);
            pacer.take(later, 1);
        }
        assert_eq!(pacer.ready(), later + Span::from_millis(1));
    }
}
