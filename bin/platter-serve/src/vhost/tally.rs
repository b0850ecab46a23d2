//! Counts of one queue since they were last added to those of its client, which all queues share.

use crate::clients::Counts;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
pub(super) struct Tally {
    reads: u64,
    read_bytes: u64,
    writes: u64,
    written_bytes: u64,
    pub(super) flushes: u64,
    pub(super) discards: u64,
    pub(super) errors: u64,
    begun: u64,
    ended: u64,
}

impl Tally {
    #[inline]
    pub(super) fn read(&mut self, bytes: u64) {
        self.reads += 1;
        self.read_bytes += bytes;
    }

    #[inline]
    pub(super) fn wrote(&mut self, bytes: u64) {
        self.writes += 1;
        self.written_bytes += bytes;
    }

    #[inline]
    pub(super) fn begun(&mut self) {
        self.begun += 1;
    }

    #[inline]
    pub(super) fn ended(&mut self) {
        self.ended += 1;
    }

    /// Adds everything to the counts of the client, once for a batch of requests.
    #[inline]
    pub(super) fn add_to(&mut self, counts: &Counts) {
        if self.begun == 0 && self.ended == 0 {
            return;
        }
        let Tally { reads, read_bytes, writes, written_bytes, flushes, discards, errors, begun, ended } =
            std::mem::take(self);
        add(&counts.reads, reads);
        add(&counts.read_bytes, read_bytes);
        add(&counts.writes, writes);
        add(&counts.written_bytes, written_bytes);
        add(&counts.flushes, flushes);
        add(&counts.discards, discards);
        add(&counts.errors, errors);
        // The difference may be negative, and wraps around to the right sum.
        add(&counts.in_flight, begun.wrapping_sub(ended));
    }
}

#[inline]
fn add(count: &AtomicU64, by: u64) {
    if by != 0 {
        count.fetch_add(by, Ordering::Relaxed);
    }
}
