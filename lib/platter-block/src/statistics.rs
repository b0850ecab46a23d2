//! Statistics of the queues of a device for programs: failures, latencies and gauges.

use crate::bio::Op;
use crate::counters::Counters;
use crate::fault::Kind;
use crate::histogram::{Histogram, Sum, floor_of};

/// What the queues of a device have counted since it was opened, including closed lanes, and their present contents.
/// For a stack these are the queues of all disks below.
///
/// A queue reads the clock once per batch, so latencies are no finer than the time between two runs of a lane.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    errors: [[u64; Kind::ALL.len()]; Op::ALL.len()],
    latency: [Sum; Op::ALL.len()],
    /// The present contents of the queues.
    pub gauges: Gauges,
}

/// The contents of the queues of a device, as of the last run of each queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Requests with the driver.
    pub in_flight: u64,
    /// Requests that have not started.
    pub queued: u64,
    /// Bios without a request: they wait behind a barrier, for a free request, or for the end of a pause after an error.
    pub held: u64,
}

impl Statistics {
    /// Adds the counts of a queue.
    pub fn add(&mut self, counters: &Counters) {
        for (sums, cells) in self.errors.iter_mut().flatten().zip(counters.errors.iter().flatten()) {
            *sums += cells.get();
        }
        self.latency.iter_mut().zip(&counters.latency).for_each(|(sum, histogram)| sum.add(histogram));
        self.gauges.in_flight += counters.in_flight();
        self.gauges.queued += counters.queued();
        self.gauges.held += counters.held.get();
    }

    /// Adds other statistics.
    pub fn merge(&mut self, other: &Statistics) {
        for (sum, count) in self.errors.iter_mut().flatten().zip(other.errors.iter().flatten()) {
            *sum += count;
        }
        self.latency.iter_mut().zip(&other.latency).for_each(|(sum, more)| sum.merge(more));
        let (sum, gauges) = (&mut self.gauges, &other.gauges);
        sum.in_flight += gauges.in_flight;
        sum.queued += gauges.queued;
        sum.held += gauges.held;
    }

    /// Operation, kind and number of failed bios; combinations without failures are left out.
    pub fn errors(&self) -> impl Iterator<Item = (Op, Kind, u64)> + '_ {
        let of_op = move |op: Op| Kind::ALL.into_iter().map(move |kind| (op, kind, self.failed(op, kind)));
        Op::ALL.into_iter().flat_map(of_op).filter(|&(_, _, count)| count > 0)
    }

    /// Number of bios of an operation that failed with a kind.
    pub fn failed(&self, op: Op, kind: Kind) -> u64 {
        self.errors[op as usize][kind as usize]
    }

    /// Histogram of the disk's latency per request of an operation, from start to completion: the smallest latency of
    /// a bucket in ns, and the bucket's count. Empty buckets are left out; a bucket is at most a sixteenth of its
    /// smallest latency wide.
    pub fn latency(&self, op: Op) -> impl Iterator<Item = (u64, u64)> + '_ {
        let counts = self.latency[op as usize].counts.iter().enumerate();
        counts.filter(|&(_, &count)| count > 0).map(|(bucket, &count)| (floor_of(bucket), count))
    }

    /// Number of requests of an operation that have completed, with or without an error.
    pub fn requests(&self, op: Op) -> u64 {
        self.latency[op as usize].counts.iter().sum()
    }

    /// The sum of the latencies of an operation in ns, exact.
    pub fn total_latency(&self, op: Op) -> u64 {
        self.latency[op as usize].total
    }

    /// The smallest and the largest latency of an operation in ns, exact, since the extremes were
    /// [restarted](crate::backend::Backend::restart_extremes); `None` if nothing has completed.
    pub fn latency_extremes(&self, op: Op) -> Option<(u64, u64)> {
        self.latency[op as usize].extremes()
    }

    /// Has the extremes of latencies begin again.
    pub fn restart_extremes(&mut self) {
        self.latency.iter_mut().for_each(Sum::restart_extremes);
    }
}

impl Counters {
    /// Has the extremes of latencies begin again; may be called while others record.
    pub fn restart_extremes(&self) {
        self.latency.iter().for_each(Histogram::restart_extremes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bio::Bio;
    use crate::fault::{Fault, Stage};

    #[test]
    fn every_kind_of_failure_is_counted() {
        let none = Statistics::default();
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number, "{kind:?}");
            assert!(Op::ALL.into_iter().all(|op| none.failed(op, kind) == 0), "{kind:?}");
        }
        // The last kind, by name: a list of all that lacked it would pass the loop.
        assert_eq!(none.failed(Op::Read, Kind::Broken), 0);
        let counters = Counters::default();
        let mut bio = Bio::flush();
        bio.fail(Fault::new(Kind::Broken, Stage::Layer));
        counters.completed(&bio);
        let mut one = Statistics::default();
        one.add(&counters);
        assert!(one.errors().eq([(Op::Flush, Kind::Broken, 1)]), "{one:?}");
    }
}
