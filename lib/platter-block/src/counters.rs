//! Counters and histograms: cells with a single writer, summed when they are read.

use crate::bio::{Bio, Op};
pub use crate::cell::Cell;
use crate::fault::Kind;
use alloc::boxed::Box;

mod snapshot;

/// Buckets of the histogram of the number of requests in flight: powers of two, 1 to 2^15 and above.
pub const DEPTH_BUCKETS: usize = 16;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of one queue.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: Cell,)*
            /// Dispatches by the number of requests then in flight, in powers of two.
            pub depth: [Cell; DEPTH_BUCKETS],
            /// Time from start to completion of each request, by operation, in ns.
            pub latency: [Histogram; Op::ALL.len()],
            /// Bios that failed, by operation and kind.
            pub errors: [[Cell; Kind::ALL.len()]; Op::ALL.len()],
            /// Bios without a request: they wait behind a barrier, for a free request or for the end of a pause
            /// after an error.
            pub held: Cell,
        }

        snapshot::snapshot! { $($(#[$doc])* $name,)* }
    };
}

counters! {
    /// Bios taken in (trace event Q).
    bios,
    /// Bios completed, with or without an error.
    bios_completed,
    /// Bios that failed.
    bios_failed,
    /// Bios joined to the end of a request (M).
    back_merges,
    /// Bios joined to the start of a request (F).
    front_merges,
    /// Requests joined to a neighbour.
    request_merges,
    /// Pieces that bios were split into beyond the first (X).
    splits,
    /// Requests allocated (G).
    requests,
    /// Bios that had to wait for a free request (S).
    request_waits,
    /// Requests given to the driver (D).
    dispatches,
    /// Requests returned by the driver (C).
    completions,
    /// Requests put back to be started again (R).
    requeues,
    /// Requests that the driver had no room for.
    refusals,
    /// Requests made to retry a bio.
    restarts,
    /// Requests dismantled before they started because one of their bios was withdrawn.
    dismantled,
    /// Bytes read from the device.
    bytes_read,
    /// Bytes written to the device.
    bytes_written,
    /// Bytes copied through bounce buffers.
    bytes_bounced,
    /// Commands whose data the device transferred from or to the submitter's memory.
    commands_mapped,
    /// Commands whose data was copied through bounce buffers.
    commands_copied,
    /// Flushes sent to the device.
    flushes,
    /// Flush requests that shared a flush with another.
    flushes_coalesced,
    /// Barriers passed.
    barriers,
    /// Barriers sent as ordered tags, without waiting for the requests before them.
    barriers_tagged,
    /// Barriers sent as ordered tags that had to be carried out again, after the requests before them had ended.
    barriers_redone,
    /// Barriers that failed because another lane did not report its requests.
    barriers_stalled,
    /// Times the device was plugged (P).
    plugs,
    /// Unplugs by count, sync bio or waiter (U).
    unplugs,
    /// Unplugs by timer (UT).
    unplugs_timer,
    /// Bios that timed out.
    timeouts,
    /// Requests that the driver was asked to abort, because it had them for too long.
    aborts,
    /// Bytes of write-zeroes carried out as writes, for devices that do not support the operation.
    zeroes_written,
    /// Times the queue's lock was taken.
    lock_acquisitions,
    /// Times the lock was held by another thread.
    lock_contended,
    /// Time spent waiting for the lock, in ns.
    lock_wait_ns,
    /// Time the lock was held, in ns (where lock stamps are on).
    lock_hold_ns,
}

impl Counters {
    /// Counts a dispatch; `in_flight` includes the dispatched request.
    #[inline]
    pub fn dispatched(&self, in_flight: u32) {
        self.dispatches.add(1);
        let bucket = (u32::BITS - 1 - (in_flight | 1).leading_zeros()) as usize;
        self.depth[bucket.min(DEPTH_BUCKETS - 1)].add(1);
    }

    /// Counts `count` dispatches in a row; before them, `in_flight` requests were with the driver.
    #[inline]
    pub fn dispatched_in_a_row(&self, in_flight: u32, count: u32) {
        if count == 1 {
            return self.dispatched(in_flight + 1);
        }
        self.dispatched_together(in_flight, count);
    }

    #[inline(never)]
    fn dispatched_together(&self, in_flight: u32, count: u32) {
        self.dispatches.add(u64::from(count));
        let (mut next, last) = (in_flight + 1, in_flight + count);
        while next <= last {
            let bucket = u32::BITS - 1 - next.leading_zeros();
            let end = last.min(2u32.wrapping_shl(bucket).wrapping_sub(1));
            self.depth[(bucket as usize).min(DEPTH_BUCKETS - 1)].add(u64::from(end - next + 1));
            next = end + 1;
        }
    }

    /// Counts a bio that is returned to its submitter.
    #[inline]
    pub fn completed(&self, bio: &Bio) {
        self.bios_completed.add(1);
        if bio.status().is_err() {
            self.failed(bio);
        }
    }

    #[cold]
    fn failed(&self, bio: &Bio) {
        self.bios_failed.add(1);
        if let Err(fault) = bio.status() {
            self.timeouts.add(u64::from(fault.kind == Kind::TimedOut));
            self.errors[bio.op() as usize][fault.kind as usize].add(1);
        }
    }

    /// Counts a bio that is returned to its submitter without having entered a queue.
    #[cold]
    pub fn refused(&self, bio: &Bio) {
        self.bios.add(1);
        self.completed(bio);
    }

    /// Requests with the driver.
    pub fn in_flight(&self) -> u64 {
        let returned = self.completions.get() + self.refusals.get();
        // Another thread may change the counts between the two loads.
        self.dispatches.get().saturating_sub(returned)
    }

    /// Requests that have not started.
    pub fn queued(&self) -> u64 {
        let made = self.requests.get() + self.restarts.get() + self.refusals.get();
        made.saturating_sub(self.request_merges.get() + self.dismantled.get() + self.dispatches.get())
    }

    /// The latency histogram of an operation.
    #[inline]
    pub fn latency_of(&self, op: Op) -> &Histogram {
        &self.latency[op as usize]
    }
}

/// Linear steps per power of two: values are resolved to one part in sixteen.
pub(crate) const SUB_BITS: u32 = 4;
pub(crate) const SUB: u64 = 1 << SUB_BITS;
/// Values up to 2^40 ns (18 minutes) are resolved; larger ones share the last bucket.
const TOP_BITS: u32 = 40;
pub(crate) const BUCKETS: usize = ((TOP_BITS - SUB_BITS + 1) as usize) << SUB_BITS;

/// A log-linear histogram of u64 values, 592 buckets, for latencies in nanoseconds. Sum and extremes are exact.
#[derive(Debug)]
pub struct Histogram {
    pub(crate) buckets: Box<[Cell; BUCKETS]>,
    pub(crate) sum: Cell,
    /// The complement of the smallest value, and the largest one: 0 where there is none.
    pub(crate) low: Cell,
    pub(crate) high: Cell,
}

#[inline]
pub(crate) fn bucket_of(value: u64) -> usize {
    if value < SUB {
        return value as usize;
    }
    let exponent = u64::BITS - 1 - value.leading_zeros();
    let step = (value >> (exponent - SUB_BITS)) - SUB;
    ((((exponent - SUB_BITS + 1) as usize) << SUB_BITS) + step as usize).min(BUCKETS - 1)
}

impl Histogram {
    /// Counts a value. Only one thread at a time may record.
    pub fn record(&self, value: u64) {
        self.record_many(value, 1);
    }

    /// Counts a value that occurred `count` times. Only one thread at a time may record.
    #[inline]
    pub fn record_many(&self, value: u64, count: u64) {
        self.buckets[bucket_of(value)].add(count);
        self.sum.add(value.wrapping_mul(count));
        self.high.raise(value);
        self.low.raise(!value);
    }
}
