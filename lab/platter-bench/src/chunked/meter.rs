//! When to begin and end a sample: lmbench's way of timing.
//!
//! A process first warms up and so determines how many requests take long enough for the clock. Each sample
//! then has that many requests, so that no sample ends early because it was slow. A process that has its
//! samples continues to issue requests until all others have theirs, so that each sample is taken under the
//! full load.
//!
//! A process with several requests in flight gets completions in bursts, and the time between two completions
//! means little: its samples have several times as many requests.
//!
//! Source: L. McVoy, C. Staelin, "lmbench: Portable Tools for Performance Analysis", USENIX 1996, and the timing
//! harness of lmbench 3.

use platter_block::time::{Span, Time};

/// Bursts of completions in a sample.
const BURSTS: u64 = 8;

/// The samples of one load element.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    enough: Span,
    wanted: usize,
    /// Fewest requests of a sample.
    fewest: u64,
    /// Requests of a sample, once that is known.
    repetitions: Option<u64>,
    /// Requests since `began`.
    count: u64,
    began: Time,
    /// Requests and nanoseconds of each sample.
    taken: Vec<(u64, u64)>,
}

impl Meter {
    /// A meter of an element with `depth` requests at once.
    pub(super) fn new(enough: Span, wanted: usize, depth: usize, now: Time) -> Meter {
        let fewest = if depth > 1 { BURSTS * depth as u64 } else { 1 };
        // Requests that complete together must not make a sample without any time.
        let enough = enough.max(Span(1));
        Meter {
            enough,
            wanted,
            fewest,
            repetitions: None,
            count: 0,
            began: now,
            taken: Vec::with_capacity(wanted),
        }
    }

    /// A request has completed. Whether that was the end of the last sample.
    pub(super) fn completed(&mut self, now: Time) -> bool {
        self.count += 1;
        let passed = now.since(self.began);
        match self.repetitions {
            None if passed >= self.enough && self.count >= self.fewest => self.repetitions = Some(self.count),
            Some(repetitions) if self.count >= repetitions && passed > Span::ZERO => {
                if self.taken.len() < self.wanted {
                    self.taken.push((self.count, passed.0));
                }
            }
            _ => return false,
        }
        (self.count, self.began) = (0, now);
        self.taken.len() == self.wanted
    }

    /// The samples, in MiB/s for requests of `bytes` bytes.
    pub(super) fn rates(&self, bytes: u64) -> impl Iterator<Item = f64> + '_ {
        let mib = bytes as f64 / f64::from(1 << 20);
        self.taken.iter().map(move |&(count, ns)| mib * count as f64 / (ns as f64 / 1e9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests that take 2 ms each, then 10 ms: samples keep the number of requests that was enough at first.
    #[test]
    fn samples_are_of_as_many_requests_as_were_enough() {
        let mut meter = Meter::new(Span::from_millis(5), 3, 1, Time(0));
        let mut now = Time(0);
        let mut step = |meter: &mut Meter, ms| {
            now += Span::from_millis(ms);
            meter.completed(now)
        };
        for _ in 0..6 {
            assert!(!step(&mut meter, 2));
        }
        let ends: Vec<bool> = (0..6).map(|_| step(&mut meter, 10)).collect();
        assert_eq!(ends, [false, false, false, false, false, true]);
        // 3 MiB in 6 ms, then twice in 30 ms.
        assert_eq!(meter.rates(1 << 20).collect::<Vec<_>>(), [500.0, 100.0, 100.0]);
    }

    #[test]
    fn a_request_that_is_long_enough_is_a_sample() {
        let mut meter = Meter::new(Span::ZERO, 2, 1, Time(7));
        assert_eq!([10, 20, 20, 40].map(|at| meter.completed(Time(at))), [false, false, false, true]);
        let mut deep = Meter::new(Span::ZERO, 1, 4, Time(0));
        assert_eq!((1..=64).position(|at| deep.completed(Time(at))), Some(63));
        // The third completed together with the second: it is in the next sample.
        assert_eq!(meter.taken, [(1, 10), (2, 20)]);
    }
}
