//! The activity of disks over time: when they have requests.

use platter_block::backend::Backend;
use platter_block::time::{Span, Time};
use platter_block::trace::{Action, Event, Sink};
use platter_disk::device::Device;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Parts in which a run is shown.
pub const BUCKETS: usize = 96;

/// How busy disks were: a disk is busy while it has at least one request.
#[derive(Clone, Debug, PartialEq)]
pub struct Busy {
    /// Time of each part of the timeline, in seconds.
    pub bucket_s: f64,
    /// Percent of the time in which each disk was busy.
    pub mean_pct: Vec<f64>,
    /// The same in each part of the run, by disk.
    pub timeline_pct: Vec<Vec<f64>>,
}

/// The requests that a disk has, and when it had any.
#[derive(Default)]
struct State {
    out: u32,
    since: Time,
    spans: Vec<(Time, Time)>,
}

type Shared = Arc<Mutex<State>>;

fn lock(state: &Shared) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

struct BusySink(Shared);

impl Sink for BusySink {
    fn event(&mut self, event: &Event) {
        let mut state = lock(&self.0);
        match event.action {
            Action::Issue => {
                if state.out == 0 {
                    state.since = event.time;
                }
                state.out += 1;
            }
            Action::Complete | Action::Requeue if state.out > 0 => {
                state.out -= 1;
                if state.out == 0 {
                    let span = (state.since, event.time);
                    match state.spans.last_mut() {
                        // Issued again at the moment of the completion: never idle.
                        Some(last) if last.1 == span.0 => last.1 = span.1,
                        _ => state.spans.push(span),
                    }
                }
            }
            _ => {}
        }
    }
}

/// Watches disks from [`start`](Watch::start) to [`finish`](Watch::finish).
pub(super) struct Watch {
    disks: Vec<(Arc<dyn Backend>, Shared)>,
    began: Time,
}

impl Watch {
    /// Starts to watch the lanes that are opened from now on.
    pub(super) fn start(disks: &[Device]) -> Watch {
        let began = disks.first().map_or(Time(0), |disk| disk.clock().now());
        let watch = |disk: &Device| {
            let state = Shared::default();
            let shared = Arc::clone(&state);
            let sink = move || Box::new(BusySink(Arc::clone(&shared))) as Box<dyn Sink>;
            disk.backend().trace(Some(Arc::new(sink)));
            (Arc::clone(disk.backend()), state)
        };
        Watch { disks: disks.iter().map(watch).collect(), began }
    }

    /// The activity until `end`.
    pub(super) fn finish(self, end: Time) -> Busy {
        let bucket = (end.since(self.began).0 / BUCKETS as u64).max(1);
        let mut busy = Busy { bucket_s: bucket as f64 / 1e9, mean_pct: Vec::new(), timeline_pct: Vec::new() };
        for (disk, state) in &self.disks {
            disk.trace(None);
            let mut state = lock(state);
            if state.out > 0 {
                let since = state.since;
                state.spans.push((since, end));
            }
            let timeline = timeline(&state.spans, self.began, Span(bucket));
            busy.mean_pct.push(timeline.iter().sum::<f64>() / BUCKETS as f64);
            busy.timeline_pct.push(timeline);
        }
        busy
    }
}

/// Percent of each bucket that spans, in order of time, cover.
fn timeline(spans: &[(Time, Time)], began: Time, bucket: Span) -> Vec<f64> {
    let mut covered = vec![0; BUCKETS];
    for &(from, to) in spans {
        let (mut at, to) = (from.since(began).0, to.since(began).0.min(bucket.0 * BUCKETS as u64));
        while at < to {
            let number = at / bucket.0;
            let stop = ((number + 1) * bucket.0).min(to);
            covered[number as usize] += stop - at;
            at = stop;
        }
    }
    covered.into_iter().map(|ns| ns as f64 / bucket.0 as f64 * 100.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_fill_buckets() {
        let spans = [(Time(100), Time(125)), (Time(195), Time(200)), (Time(100 + 95 * 10), Time(9999))];
        let parts = timeline(&spans, Time(100), Span(10));
        assert_eq!(parts.len(), BUCKETS);
        assert_eq!(parts[..4], [100.0, 100.0, 50.0, 0.0]);
        assert_eq!((parts[9], parts[10], parts[95]), (50.0, 0.0, 100.0));
    }
}
