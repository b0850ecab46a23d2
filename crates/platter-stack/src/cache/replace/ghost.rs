//! Fingerprints of pages that went lately.

/// Bits of the hash of a page.
const HASH_BITS: u32 = 28;
/// Entries among which a fingerprint has its place.
const WAYS: usize = 8;
/// Low bits of an entry: when it was made, in steps.
const TIME_BITS: u32 = 12;
const TIME: u32 = (1 << TIME_BITS) - 1;
/// Low bits of the hash that an entry holds.
const TAG: u32 = (1 << (32 - TIME_BITS)) - 1;
/// Steps in which as many pages go as are remembered.
const STEPS: u64 = 64;

/// A hash of a page's number, of [`HASH_BITS`] bits: the finalizer of SplitMix64 (Steele, Lea, Flood:
/// "Fast splittable pseudorandom number generators", OOPSLA 2014).
pub(super) fn hash(page: u64) -> u32 {
    let mut x = page.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> (64 - HASH_BITS)) as u32
}

/// A table of fingerprints, 4 bytes for each frame. An entry holds part of a page's hash and the time at which the
/// page went, counted in pages that went. It is valid as long as fewer have gone since than are to be remembered,
/// and may be lost sooner when too many fall into one bucket. Two pages are taken for one with a
/// probability of entries / 2^28: 0.3 % with a million frames.
pub(super) struct Ghosts {
    entries: Box<[u32]>,
    /// Pages that went.
    gone: u64,
    /// Pages that go in one step of time.
    step: u64,
    /// Steps after which an entry is forgotten.
    window: u32,
}

impl Ghosts {
    pub(super) fn new(frames: u32) -> Self {
        let remembered = (u64::from(frames) * 9 / 10).max(1);
        let step = remembered.div_ceil(STEPS);
        let window = (remembered / step) as u32;
        let entries = vec![0; (frames as usize).div_ceil(WAYS).max(1) * WAYS].into();
        // Entries of time 0 are too old at the start.
        Ghosts { entries, gone: step * u64::from(window + 1), step, window }
    }

    /// Remembers a page that goes; in a full bucket the oldest entry makes room.
    pub(super) fn add(&mut self, hash: u32) {
        self.gone += 1;
        let now = self.now();
        let entry = ((hash & TAG) << TIME_BITS) | now;
        let bucket = self.bucket(hash);
        if let Some(oldest) = bucket.iter_mut().max_by_key(|entry| age(**entry, now)) {
            *oldest = entry;
        }
    }

    /// Whether a page is remembered; it is not from here on.
    pub(super) fn take(&mut self, hash: u32) -> bool {
        let (now, window) = (self.now(), self.window);
        let known = |entry: &&mut u32| **entry >> TIME_BITS == hash & TAG && age(**entry, now) < window;
        let Some(entry) = self.bucket(hash).iter_mut().find(known) else { return false };
        *entry = now.wrapping_sub(window) & TIME;
        true
    }

    fn now(&self) -> u32 {
        (self.gone / self.step) as u32 & TIME
    }

    fn bucket(&mut self, hash: u32) -> &mut [u32] {
        let buckets = (self.entries.len() / WAYS) as u64;
        let first = ((u64::from(hash) * buckets) >> HASH_BITS) as usize * WAYS;
        &mut self.entries[first..first + WAYS]
    }
}

/// Steps since an entry was made.
fn age(entry: u32, now: u32) -> u32 {
    now.wrapping_sub(entry) & TIME
}
