//! Fingerprints of recently evicted pages.

use crate::memory::Table;

/// Entries per bucket.
const WAYS: usize = 8;
/// Low bits of an entry: the time step in which it was made.
const TIME_BITS: u32 = 12;
const TIME: u32 = (1 << TIME_BITS) - 1;
/// Low bits of the hash, which an entry holds.
const TAG: u32 = (1 << (32 - TIME_BITS)) - 1;
/// Number of time steps after which a fingerprint expires.
const STEPS: u64 = 64;

/// A hash of a page number: the finalizer of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom
/// number generators", OOPSLA 2014). The upper half selects the bucket and the lower half is the tag: they
/// must not share bits.
fn hash(page: u64) -> u64 {
    let mut x = page.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A table of fingerprints, 4 bytes per frame. An entry holds part of a page's hash and the time at which the page was
/// evicted, counted in evictions. It expires after as many evictions as pages are to be remembered, and may be lost
/// sooner if many pages fall into one bucket. A page is mistaken for another one with a probability of at most
/// [`WAYS`] / 2^20, 8 in a million, whatever the size of the table (up to 2^35 entries).
pub(super) struct Ghosts {
    entries: Table<u32>,
    /// Number of evictions.
    gone: u64,
    /// Evictions per time step.
    step: u64,
    /// Steps after which an entry expires.
    window: u32,
}

impl Ghosts {
    /// For as many frames. `None`: the system refuses the addresses.
    pub(super) fn new(frames: u32) -> Option<Self> {
        let remembered = (u64::from(frames) * 9 / 10).max(1);
        let step = remembered.div_ceil(STEPS);
        let window = (remembered / step) as u32;
        let entries = Table::new((frames as usize).div_ceil(WAYS).max(1) * WAYS)?;
        // Entries of time 0 have expired at the start.
        Some(Ghosts { entries, gone: step * u64::from(window + 1), step, window })
    }

    /// Records an evicted page; in a full bucket it replaces the oldest entry.
    pub(super) fn add(&mut self, page: u64) {
        self.gone += 1;
        let now = self.now();
        let (bucket, tag) = self.bucket(page);
        let entry = (tag << TIME_BITS) | now;
        if let Some(oldest) = bucket.iter_mut().max_by_key(|entry| age(**entry, now)) {
            *oldest = entry;
        }
    }

    /// Whether a page is recorded; removes its entry.
    pub(super) fn take(&mut self, page: u64) -> bool {
        let (now, window) = (self.now(), self.window);
        let (bucket, tag) = self.bucket(page);
        let known = |entry: &&mut u32| **entry >> TIME_BITS == tag && age(**entry, now) < window;
        let Some(entry) = bucket.iter_mut().find(known) else { return false };
        *entry = now.wrapping_sub(window) & TIME;
        true
    }

    fn now(&self) -> u32 {
        (self.gone / self.step) as u32 & TIME
    }

    /// The bucket of a page among `buckets`, and its tag there.
    pub(super) fn place(page: u64, buckets: u64) -> (u64, u32) {
        let hash = hash(page);
        (((hash >> 32) * buckets) >> 32, hash as u32 & TAG)
    }

    fn bucket(&mut self, page: u64) -> (&mut [u32], u32) {
        let (bucket, tag) = Ghosts::place(page, (self.entries.len() / WAYS) as u64);
        let first = bucket as usize * WAYS;
        (&mut self.entries[first..first + WAYS], tag)
    }
}

/// Age of an entry in steps.
fn age(entry: u32, now: u32) -> u32 {
    now.wrapping_sub(entry) & TIME
}
