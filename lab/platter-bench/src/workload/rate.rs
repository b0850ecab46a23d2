//! Open-loop pacing: scheduled starts of I/Os, independent of the completion of earlier ones.
//!
//! Latency is counted from the scheduled start. A stall of the device then shows in every I/O that should
//! have started meanwhile, and not only in the few that were in flight (the "coordinated omission" of closed
//! loops).

use crate::stats::Seeded;

/// The highest rate, in I/Os per second: one each nanosecond.
pub const MAX_RATE_IOPS: u64 = NS_PER_S;

const NS_PER_S: u64 = 1_000_000_000;
/// Random starts that are drawn to be counted.
const EXACT_STARTS: u64 = 1 << 16;

/// I/Os at equal distances: number n (from 0) is meant to start at `start + n / rate`, rounded down to a
/// nanosecond. The rounding does not add up. Several jobs of one rate [stand](Self::staggered) between each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacer {
    rate: u64,
    start_ns: u64,
}

impl Pacer {
    /// `rate_iops` I/Os per second, from `start_ns` on. `None` unless the rate is within
    /// `1..=`[`MAX_RATE_IOPS`].
    pub fn new(rate_iops: u64, start_ns: u64) -> Option<Self> {
        (1..=MAX_RATE_IOPS).contains(&rate_iops).then_some(Self { rate: rate_iops, start_ns })
    }

    /// That of job number `index` of `jobs`: their starts are at equal distances too, and not all at one instant.
    pub fn staggered(self, index: u32, jobs: u32) -> Self {
        let distance =
            u128::from(NS_PER_S) * u128::from(index) / (u128::from(self.rate) * u128::from(jobs.max(1)));
        // Less than a second.
        Self { start_ns: self.start_ns.saturating_add(distance as u64), ..self }
    }

    /// The scheduled start of I/O number `n`, in ns; `u64::MAX` if that is not representable.
    #[inline]
    pub fn intended(&self, n: u64) -> u64 {
        let after = u128::from(n) * u128::from(NS_PER_S) / u128::from(self.rate);
        self.start_ns.saturating_add(u64::try_from(after).unwrap_or(u64::MAX))
    }

    /// How many I/Os were meant to start by `now_ns`, those of this very nanosecond included.
    #[inline]
    pub fn due(&self, now_ns: u64) -> u64 {
        let Some(elapsed) = now_ns.checked_sub(self.start_ns) else { return 0 };
        // n is due when floor(n * 10^9 / rate) <= elapsed, that is when n * 10^9 < (elapsed + 1) * rate.
        let limit = (u128::from(elapsed) + 1) * u128::from(self.rate);
        // Never more than elapsed + 1, since the rate is at most 10^9.
        u64::try_from((limit - 1) / u128::from(NS_PER_S) + 1).unwrap_or(u64::MAX)
    }
}

/// I/Os at random distances whose mean is `1 / rate`: a Poisson process (fio's `rate_process=poisson`).
///
/// The exponential distances are drawn by von Neumann's comparison method ("Various Techniques Used in
/// Connection With Random Digits", 1951), which needs no logarithm, so the same seed gives the same
/// nanoseconds on every machine.
#[derive(Debug, Clone)]
pub struct Poisson {
    rng: Seeded,
    /// 1 / rate, in ns with 32 fractional bits.
    mean: u64,
    /// The intended start of the next I/O, in ns with 32 fractional bits.
    next: u128,
}

impl Poisson {
    /// `rate_iops` I/Os per second on average, the first a random distance after `start_ns`. `None` unless the
    /// rate is within `1..=`[`MAX_RATE_IOPS`].
    pub fn new(rate_iops: u64, start_ns: u64, rng: Seeded) -> Option<Self> {
        if !(1..=MAX_RATE_IOPS).contains(&rate_iops) {
            return None;
        }
        let mean = (NS_PER_S << 32) / rate_iops;
        let mut arrivals = Self { rng, mean, next: u128::from(start_ns) << 32 };
        arrivals.advance();
        Some(arrivals)
    }

    /// The scheduled start of the next I/O, in ns; `u64::MAX` if that is not representable.
    #[inline]
    pub fn intended(&self) -> u64 {
        u64::try_from(self.next >> 32).unwrap_or(u64::MAX)
    }

    /// How many I/Os from the next one on were meant to start before `end_ns`: the first 65,536 exactly, the rest by the
    /// mean distance.
    fn before(&self, end_ns: u64) -> u64 {
        let mut ahead = self.clone();
        for n in 0..EXACT_STARTS {
            if ahead.intended() >= end_ns {
                return n;
            }
            ahead.advance();
        }
        let rest = (u128::from(end_ns) << 32).saturating_sub(ahead.next) / u128::from(self.mean);
        EXACT_STARTS.saturating_add(u64::try_from(rest).unwrap_or(u64::MAX))
    }

    /// Advances to the next I/O.
    #[inline]
    pub fn advance(&mut self) {
        let distance = (u128::from(self.exponential()) * u128::from(self.mean)) >> 32;
        self.next = self.next.saturating_add(distance);
    }

    /// An exponentially distributed number of mean 1, with 32 fractional bits.
    fn exponential(&mut self) -> u64 {
        let mut whole = 0u64;
        loop {
            // The length of a falling run of uniform numbers that begins with u is odd with probability
            // e^-u: then u is the fraction. Otherwise (probability 1/e) the number is one larger.
            let first = self.rng.next_u64();
            let mut last = first;
            let mut odd = true;
            loop {
                let u = self.rng.next_u64();
                if u >= last {
                    break;
                }
                last = u;
                odd = !odd;
            }
            if odd {
                return (whole << 32) | (first >> 32);
            }
            whole += 1;
        }
    }
}

/// The intended starts of an open loop, one after the other.
#[derive(Debug, Clone)]
pub enum Arrivals {
    /// Equal distances, and the number of I/Os already taken.
    Linear(Pacer, u64),
    /// Random distances.
    Poisson(Poisson),
}

impl Arrivals {
    /// The scheduled start of the next I/O, in ns: the time to wait for when [`take`](Self::take) returns
    /// none.
    #[inline]
    pub fn peek(&self) -> u64 {
        match self {
            Self::Linear(pacer, taken) => pacer.intended(*taken),
            Self::Poisson(poisson) => poisson.intended(),
        }
    }

    /// The intended start of the next I/O if it is due at `now_ns`. Its latency counts from there.
    #[inline]
    pub fn take(&mut self, now_ns: u64) -> Option<u64> {
        let intended = self.peek();
        if intended > now_ns {
            return None;
        }
        match self {
            Self::Linear(_, taken) => *taken += 1,
            Self::Poisson(poisson) => poisson.advance(),
        }
        Some(intended)
    }

    /// How many I/Os were meant to start before `end_ns` and have not been taken.
    pub fn missed(&self, end_ns: u64) -> u64 {
        match self {
            Self::Linear(pacer, taken) => {
                end_ns.checked_sub(1).map_or(0, |last| pacer.due(last)).saturating_sub(*taken)
            }
            Self::Poisson(poisson) => poisson.before(end_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_out_of_range_are_refused() {
        for rate in [0, MAX_RATE_IOPS + 1, u64::MAX] {
            assert_eq!(Pacer::new(rate, 0), None);
            assert!(Poisson::new(rate, 0, Seeded::new(1)).is_none());
        }
    }

    #[test]
    fn equal_distances_do_not_drift() {
        let pacer = Pacer::new(3, 1000).unwrap();
        assert_eq!([0, 1, 2, 3].map(|n| pacer.intended(n)), [1000, 333_334_333, 666_667_666, 1_000_001_000]);
        assert_eq!(pacer.intended(3_000_000), 1_000_000 * NS_PER_S + 1000);
        assert_eq!(pacer.intended(u64::MAX), 6_148_914_691_236_517_205u64.saturating_mul(NS_PER_S));
        assert_eq!((pacer.due(999), pacer.due(1000), pacer.due(333_334_332)), (0, 1, 1));
        assert_eq!(pacer.due(333_334_333), 2);
    }

    #[test]
    fn a_stall_is_caught_up_with_the_intended_starts() {
        let mut arrivals = Arrivals::Linear(Pacer::new(1000, 0).unwrap(), 0);
        assert_eq!(arrivals.take(0), Some(0));
        assert_eq!((arrivals.take(999_999), arrivals.peek()), (None, 1_000_000));
        // No I/O was taken for 5 ms: all five starts are due, with their own times.
        let late: Vec<u64> = core::iter::from_fn(|| arrivals.take(5_000_000)).collect();
        assert_eq!(late, [1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000]);
    }

    #[test]
    fn starts_that_were_not_taken_are_counted() {
        let mut linear = Arrivals::Linear(Pacer::new(1000, 0).unwrap(), 0);
        assert_eq!([0, 1, 1_000_000, 1_000_001].map(|end| linear.missed(end)), [0, 1, 1, 2]);
        assert_eq!(linear.take(0), Some(0));
        assert_eq!([1, 1_000_000, 5_000_001].map(|end| linear.missed(end)), [0, 0, 5]);
        let mut poisson = Arrivals::Poisson(Poisson::new(1_000_000, 0, Seeded::new(1)).unwrap());
        let missed = poisson.missed(1_000_000);
        let taken = core::iter::from_fn(|| poisson.take(999_999)).count() as u64;
        assert_eq!((missed, poisson.missed(1_000_000)), (taken, 0));
        let many = poisson.missed(10 * NS_PER_S);
        assert!(many.abs_diff(10_000_000) < 20_000, "{many}");
    }

    #[test]
    fn poisson_distances_are_exponential() {
        let mut arrivals = Arrivals::Poisson(Poisson::new(1_000_000, 7, Seeded::new(1)).unwrap());
        let n = 200_000usize;
        let mut last = 7;
        let mut distances = Vec::with_capacity(n);
        for _ in 0..n {
            let at = arrivals.take(u64::MAX).unwrap();
            distances.push(at - last);
            last = at;
        }
        let mean = (last - 7) as f64 / n as f64;
        assert!((mean - 1000.0).abs() < 10.0, "{mean}");
        // A share of e^-x of the distances is longer than x means.
        for x in [0.1f64, 0.5, 1.0, 2.0, 4.0] {
            let longer = distances.iter().filter(|&&d| d as f64 > x * 1000.0).count() as f64 / n as f64;
            assert!((longer - (-x).exp()).abs() < 0.005, "{x}: {longer}");
        }
    }

    #[test]
    fn times_past_the_end_saturate() {
        let pacer = Pacer::new(1, u64::MAX - 5).unwrap();
        assert_eq!(pacer.intended(1), u64::MAX);
        assert_eq!(Pacer::new(MAX_RATE_IOPS, 0).unwrap().due(u64::MAX), u64::MAX);
        let mut poisson = Poisson::new(1, u64::MAX, Seeded::new(1)).unwrap();
        poisson.advance();
        assert_eq!(poisson.intended(), u64::MAX);
    }

    proptest! {
        #[test]
        fn due_counts_exactly_what_is_intended(
            rate in 1..=MAX_RATE_IOPS, start in 0u64..1 << 60, n in 0u64..1 << 40,
        ) {
            let pacer = Pacer::new(rate, start).unwrap();
            let at = pacer.intended(n);
            prop_assume!(at < u64::MAX);
            prop_assert!(pacer.due(at) > n);
            if at > start {
                prop_assert!(pacer.due(at - 1) <= n);
            }
            prop_assert!(pacer.intended(pacer.due(at)) > at);
        }
    }
}
