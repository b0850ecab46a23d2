//! A rate, by the generic cell rate algorithm, in integers.

use platter_block::time::{Span, Time};

/// Binary places below a nanosecond: rates of many gigabytes per second are exact to a millionth.
const FRACTION: u32 = 32;
const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Allows `rate` units per second, and idle time of up to `burst` to be caught up on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pacer {
    rate: u64,
    burst: Span,
    /// When all that was taken would have been taken at exactly the rate, in 2^-32 ns.
    free_at: u128,
}

impl Pacer {
    /// Changes the rate; 0: no limit. What was taken before stays taken.
    pub(super) fn set(&mut self, rate: u64, burst: Span) {
        (self.rate, self.burst) = (rate, burst);
        if rate == 0 {
            self.free_at = 0;
        }
    }

    /// The earliest time at which something may be taken.
    pub(super) fn ready(&self) -> Time {
        Self::time(self.free_at.saturating_sub(u128::from(self.burst.0) << FRACTION))
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
            self.free_at = self.free_at.max(u128::from(now.0) << FRACTION) + cost;
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
        pacer.set(3_000_000_007, Span::ZERO);
        let mut now = Time(5);
        for _ in 0..1_000_000 {
            now = pacer.ready().max(now);
            pacer.take(now, 512);
        }
        let exact = 512_000_000u128 * NANOS_PER_SECOND / 3_000_000_007;
        // The asker's clock counts whole nanoseconds, which the catching up of half of one would need.
        let error = u128::from(now.0 - 5).abs_diff(exact);
        assert!(error <= 1_000_000, "{error} ns of {exact}");
        pacer.set(3_000_000_007, Span(1));
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
        pacer.set(1000, Span::from_millis(5));
        let now = Time(1_000_000_000);
        let mut taken = 0;
        while pacer.ready() <= now {
            pacer.take(now, 1);
            taken += 1;
        }
        assert_eq!(taken, 6, "one, and five that 5 ms allow at 1000 per second");
        assert_eq!(pacer.ready(), Time(1_001_000_000));
        assert_eq!(pacer.ready_after(now, 2), Time(1_003_000_000));
        pacer.set(0, Span::ZERO);
        assert_eq!(pacer.ready(), Time(0));
    }
}
