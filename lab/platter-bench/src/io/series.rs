//! A run over time: I/Os and latencies of each interval.
//!
//! A job records latencies in the histogram of the interval; at its end that is kept in short form ([`Point`]), added to the
//! whole, and emptied. So an I/O is recorded once, and an interval costs what its end costs: some 20 microseconds.

use core::time::Duration;

use platter_block::time::{Span, Time};

use crate::report::svg::{Axis, Format, LineChart, Scale, Style};
use crate::report::units;
use crate::stats::{Bucket, LatencyHistogram};
use crate::workload::JobOptions;

/// Reads, writes, trims.
pub(super) const DIRECTIONS: usize = 3;

/// Intervals of a run whose time is known in advance.
const PARTS: u32 = 120;
/// The shortest interval.
const SHORTEST: Duration = Duration::from_millis(10);
/// The interval of a run that ends with its last I/O.
const UNKNOWN: Duration = Duration::from_secs(1);

/// Most intervals of a job. When there are more, each two become one, which is twice as long: an I/O an hour for a year is
/// not nine million intervals of a second.
const MOST: usize = 1200;

/// How long an interval of this job is.
pub(super) fn interval(job: &JobOptions) -> Span {
    let interval = job.runtime.map_or(UNKNOWN, |runtime| (runtime / PARTS).max(SHORTEST));
    Span(u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX))
}

/// What completed in an interval.
#[derive(Debug, Clone, Default)]
pub(super) struct Point {
    ios: u64,
    latencies: Vec<Bucket>,
}

/// The intervals of a job.
#[derive(Debug, Clone)]
pub(super) struct Intervals {
    /// The end of the present one.
    next: Time,
    step: Span,
    /// I/Os before the present one.
    before: u64,
    whole: [LatencyHistogram; DIRECTIONS],
    points: Vec<Point>,
}

impl Default for Intervals {
    /// None is measured.
    fn default() -> Self {
        let whole = core::array::from_fn(|_| LatencyHistogram::new());
        Self { next: Time(u64::MAX), step: Span::ZERO, before: 0, whole, points: Vec::new() }
    }
}

impl Intervals {
    /// Measures intervals from now on, of a job that has completed this many I/Os before.
    pub(super) fn begin(now: Time, step: Span, before: u64) -> Intervals {
        Intervals { next: now + step, step, before, ..Intervals::default() }
    }

    /// Whether the present interval is over.
    #[inline]
    pub(super) fn is_over(&self, now: Time) -> bool {
        now >= self.next
    }

    /// Ends the intervals that are over, of a job that has completed `ios` I/Os. Takes the latencies.
    #[cold]
    pub(super) fn end(&mut self, now: Time, ios: u64, latency: &mut [LatencyHistogram; DIRECTIONS]) {
        while self.is_over(now) && self.step > Span::ZERO {
            let mut latencies = LatencyHistogram::new();
            latency.iter().for_each(|one| latencies.merge(one));
            self.points.push(Point { ios: ios - self.before, latencies: latencies.buckets().collect() });
            self.before = ios;
            self.keep(latency);
            if self.points.len() == MOST {
                self.coarsen();
            }
            self.next += self.step;
        }
    }

    /// Makes one interval of each two.
    fn coarsen(&mut self) {
        let pairs = std::mem::take(&mut self.points);
        let mut pairs = pairs.into_iter();
        while let Some(mut one) = pairs.next() {
            if let Some(other) = pairs.next() {
                one.ios += other.ios;
                one.latencies.extend(other.latencies);
            }
            self.points.push(one);
        }
        self.step = Span(self.step.0.saturating_mul(2));
    }

    fn keep(&mut self, latency: &mut [LatencyHistogram; DIRECTIONS]) {
        for (whole, part) in self.whole.iter_mut().zip(latency) {
            whole.merge(part);
            part.clear();
        }
    }

    /// The measurement is over: gives back all latencies. What is left of the last interval is in the whole only.
    pub(super) fn finish(&mut self, now: Time, ios: u64, latency: &mut [LatencyHistogram; DIRECTIONS]) {
        self.end(now, ios, latency);
        self.keep(latency);
        core::mem::swap(latency, &mut self.whole);
        self.next = Time(u64::MAX);
    }
}

/// A run over time, all jobs together. The part of an interval that was left at the end is not in it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// The length of an interval.
    pub interval: Duration,
    /// The intervals in their order.
    pub parts: Vec<Part>,
}

/// What completed in an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// I/Os per second.
    pub iops: f64,
    /// MiB per second.
    pub mib_per_s: f64,
    /// The median of the latencies, in ns; `None` if none were recorded.
    pub lat_p50_ns: Option<u64>,
    /// 99 % of them are not above it.
    pub lat_p99_ns: Option<u64>,
}

impl Series {
    /// Adds up the jobs, interval by interval.
    pub(super) fn of<'t>(jobs: impl Iterator<Item = &'t Intervals> + Clone, bs: u64) -> Series {
        let step = jobs.clone().map(|job| job.step).max().unwrap_or(Span::ZERO);
        // Jobs whose intervals are shorter than those of others get as long ones.
        let alike = jobs.map(|job| {
            let mut job = job.clone();
            while job.step < step && job.step > Span::ZERO {
                job.coarsen();
            }
            job
        });
        let jobs: Vec<Intervals> = alike.collect();
        let count = jobs.iter().map(|job| job.points.len()).max().unwrap_or(0);
        let part = |at: usize| {
            let (mut ios, mut latencies) = (0, LatencyHistogram::new());
            for point in jobs.iter().filter_map(|job| job.points.get(at)) {
                ios += point.ios;
                let middle = |bucket: &Bucket| bucket.low + (bucket.high - bucket.low) / 2;
                point
                    .latencies
                    .iter()
                    .for_each(|bucket| latencies.record_times(middle(bucket), bucket.count));
            }
            Part {
                iops: ios as f64 / (step.0 as f64 / 1e9),
                mib_per_s: units::mib_per_s(ios.saturating_mul(bs), step.0),
                lat_p50_ns: latencies.percentile(50.0),
                lat_p99_ns: latencies.percentile(99.0),
            }
        };
        Series { interval: Duration::from_nanos(step.0), parts: (0..count).map(part).collect() }
    }

    fn points<'s>(
        &'s self,
        value: impl Fn(&Part) -> Option<f64> + 's,
    ) -> impl Iterator<Item = (f64, f64)> + 's {
        let middle = |at: usize| (at as f64 + 0.5) * self.interval.as_nanos() as f64;
        self.parts.iter().enumerate().filter_map(move |(at, part)| Some((middle(at), value(part)?)))
    }

    /// The run over time as charts: the rate, and the latencies if there are any.
    pub fn charts(&self) -> Vec<LineChart> {
        let time = || Axis::new("time since the start").format(Format::Nanoseconds);
        let rate = LineChart::new("I/Os over time", time(), Axis::new("I/Os per second").from_zero());
        let mut charts = vec![rate.series("all jobs", Style::Line, self.points(|part| Some(part.iops)))];
        if self.parts.iter().any(|part| part.lat_p50_ns.is_some()) {
            let axis = Axis::new("latency").scale(Scale::Log10).format(Format::Nanoseconds);
            let median = self.points(|part| part.lat_p50_ns.map(|ns| ns as f64));
            let high = self.points(|part| part.lat_p99_ns.map(|ns| ns as f64));
            let chart = LineChart::new("Latency over time", time(), axis);
            charts.push(chart.series("p50", Style::Line, median).series("p99", Style::Line, high));
        }
        charts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Span = Span::from_millis(10);

    type Latencies = [LatencyHistogram; DIRECTIONS];

    /// A job whose I/Os complete at these times, in ms, with these latencies, and its latencies as a whole.
    fn job_of(completions: &[(u64, u64)], end: u64) -> (Intervals, Latencies) {
        let mut intervals = Intervals::begin(Time(0), STEP, 0);
        let mut latency: Latencies = core::array::from_fn(|_| LatencyHistogram::new());
        for (&(at_ms, ns), ios) in completions.iter().zip(0..) {
            intervals.end(Time(at_ms * 1_000_000), ios, &mut latency);
            latency[0].record(ns);
        }
        intervals.finish(Time(end * 1_000_000), completions.len() as u64, &mut latency);
        (intervals, latency)
    }

    #[test]
    fn each_interval_has_what_completed_in_it_and_the_whole_has_all() {
        let one = job_of(&[(1, 100), (9, 100), (31, 50)], 47);
        let two = job_of(&[(2, 20), (45, 70)], 47);
        let series = Series::of([&one.0, &two.0].into_iter(), 4096);
        let ios: Vec<f64> = series.parts.iter().map(|part| part.iops / 100.0).collect();
        assert_eq!(ios, [3.0, 0.0, 0.0, 1.0], "the rest of the last interval is left out");
        assert_eq!(series.parts[0].lat_p50_ns, Some(100));
        assert_eq!((series.parts[1].lat_p99_ns, series.parts[3].lat_p99_ns), (None, Some(50)));
        assert_eq!((one.1[0].count(), two.1[0].count()), (3, 2));
        assert_eq!(one.1[0].max(), Some(100));
    }

    /// One I/O in each of 3,000 intervals, and one beside it that begins late: both have intervals four times as long in the end.
    #[test]
    fn a_long_run_has_longer_intervals_and_not_more() {
        let completions: Vec<(u64, u64)> = (0..3000).map(|at| (at * 10 + 5, 100)).collect();
        let (long, short) = (job_of(&completions, 30_000), job_of(&[(5, 50), (15, 50)], 30));
        let series = Series::of([&long.0, &short.0].into_iter(), 1);
        assert!(series.parts.len() <= MOST && series.parts.len() >= MOST / 2, "{}", series.parts.len());
        assert_eq!(series.interval, Duration::from_millis(40));
        let ios = |part: &Part| part.iops * 0.04;
        assert_eq!((ios(&series.parts[0]).round(), ios(&series.parts[1]).round()), (6.0, 4.0));
        assert_eq!(long.1[0].count(), 3000);
    }

    #[test]
    fn without_intervals_there_is_no_series() {
        let none = Intervals::default();
        assert!(!none.is_over(Time(1 << 40)));
        assert!(Series::of([&none].into_iter(), 1).parts.is_empty());
    }
}
