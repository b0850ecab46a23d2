//! What the queues of a device have counted, for programs: failures, latencies, and what is in the queues.

use crate::bio::Op;
use crate::counters::Counters;
use crate::fault::Kind;
use crate::histogram::floor_of;
use alloc::vec::Vec;

/// What the queues of a device have counted since it was opened, closed lanes included, and what they have at the moment.
/// Of a stack these are the queues of all disks below.
///
/// A queue reads the clock once for a batch, so latencies are no finer than the time between two runs of a lane.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    errors: [[u64; Kind::ALL.len()]; Op::ALL.len()],
    latency: [Vec<u64>; Op::ALL.len()],
    /// What is in the queues.
    pub gauges: Gauges,
}

/// What is in the queues of a device, as of the last time each of them was run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Requests with the driver, those in quarantine included.
    pub in_flight: u64,
    /// Requests that have not started.
    pub queued: u64,
    /// Bios that have no request: they wait behind a barrier, for a free request, for the end of a pause after an error, or
    /// for a range in doubt.
    pub held: u64,
    /// Requests with the driver whose bios have all timed out.
    pub quarantined: u64,
    /// Ranges that requests whose bios have timed out may still change.
    pub in_doubt: u64,
}

impl Statistics {
    /// Adds what a queue has counted. Its requests in quarantine and ranges in doubt are known to the device alone.
    pub fn add(&mut self, counters: &Counters) {
        for (sums, cells) in self.errors.iter_mut().flatten().zip(counters.errors.iter().flatten()) {
            *sums += cells.get();
        }
        self.latency.iter_mut().zip(&counters.latency).for_each(|(sums, histogram)| histogram.add_to(sums));
        self.gauges.in_flight += counters.in_flight();
        self.gauges.queued += counters.queued();
        self.gauges.held += counters.held.get();
    }

    /// Adds what other queues have counted.
    pub fn merge(&mut self, other: &Statistics) {
        for (sum, count) in self.errors.iter_mut().flatten().zip(other.errors.iter().flatten()) {
            *sum += count;
        }
        for (sums, counts) in self.latency.iter_mut().zip(&other.latency) {
            sums.resize(sums.len().max(counts.len()), 0);
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        let (sum, gauges) = (&mut self.gauges, &other.gauges);
        sum.in_flight += gauges.in_flight;
        sum.queued += gauges.queued;
        sum.held += gauges.held;
        sum.quarantined += gauges.quarantined;
        sum.in_doubt += gauges.in_doubt;
    }

    /// Operation, kind and number of the bios that failed, where there were any.
    pub fn errors(&self) -> impl Iterator<Item = (Op, Kind, u64)> + '_ {
        let of_op = move |op: Op| Kind::ALL.into_iter().map(move |kind| (op, kind, self.failed(op, kind)));
        Op::ALL.into_iter().flat_map(of_op).filter(|&(_, _, count)| count > 0)
    }

    /// How many bios of an operation failed in one way.
    pub fn failed(&self, op: Op, kind: Kind) -> u64 {
        self.errors[op as usize][kind as usize]
    }

    /// How many requests of an operation the disk took how long for, from start to completion: the smallest latency of a
    /// bucket in ns, and its count. Buckets without requests are left out; one is at most a sixteenth of its smallest latency
    /// wide.
    pub fn latency(&self, op: Op) -> impl Iterator<Item = (u64, u64)> + '_ {
        let counts = self.latency[op as usize].iter().enumerate();
        counts.filter(|&(_, &count)| count > 0).map(|(bucket, &count)| (floor_of(bucket), count))
    }

    /// How many requests of an operation have completed, well or not.
    pub fn requests(&self, op: Op) -> u64 {
        self.latency[op as usize].iter().sum()
    }
}
