//! How many other blocks are accessed between two accesses to a block, and with it how often a cache that keeps the last used
//! blocks would miss. Memory is bounded by SHARDS (Waldspurger, Park, Garthwaite, Ahmad, FAST '15): only blocks whose hash is
//! below a limit are followed, and the limit falls so that there are at most [`SAMPLES`] of them.

use std::collections::{BTreeSet, HashMap};

/// Blocks that are followed at most.
pub(super) const SAMPLES: usize = 1 << 14;
/// Places for accesses in order of time, before they are numbered anew.
const PLACES: usize = SAMPLES * 4;
/// Powers of two of distances.
const POWERS: usize = 64;

/// The accesses to blocks.
pub(super) struct Distances {
    /// Each block that is followed, with the place of its last access.
    last: HashMap<u64, usize>,
    /// The same blocks, by hash.
    by_hash: BTreeSet<u64>,
    /// Blocks with a hash from here on are not followed.
    limit: u64,
    /// Sums over the places that hold a last access (a Fenwick tree).
    sums: Vec<u32>,
    next: usize,
    /// Accesses by the power of two of their distance, and those without an earlier one.
    found: [f64; POWERS],
    cold: f64,
}

impl Default for Distances {
    fn default() -> Distances {
        Distances {
            last: HashMap::new(),
            by_hash: BTreeSet::new(),
            limit: u64::MAX,
            sums: Vec::new(),
            next: 0,
            found: [0.0; POWERS],
            cold: 0.0,
        }
    }
}

impl Distances {
    /// The share of blocks that is followed.
    pub(super) fn rate(&self) -> f64 {
        self.limit as f64 / u64::MAX as f64
    }

    pub(super) fn access(&mut self, hash: u64) {
        if hash >= self.limit {
            return;
        }
        if self.next == PLACES {
            self.number_anew();
        }
        self.sums.resize(PLACES + 1, 0);
        let weight = 1.0 / self.rate();
        let place = self.next;
        self.next += 1;
        match self.last.insert(hash, place) {
            Some(before) => {
                let between = self.last.len() as u64 - 1 - self.sum(before);
                let distance = between as f64 / self.rate();
                // A cache of 2^n blocks has it if that is more than the blocks between.
                let power = u64::BITS - (distance as u64).leading_zeros();
                self.found[(power as usize).min(POWERS - 1)] += weight;
                self.change(before, false);
            }
            None => {
                self.cold += weight;
                self.by_hash.insert(hash);
            }
        }
        self.change(place, true);
        while self.last.len() > SAMPLES
            && let Some(largest) = self.by_hash.pop_last()
        {
            self.limit = largest;
            if let Some(place) = self.last.remove(&largest) {
                self.change(place, false);
            }
        }
    }

    /// Last accesses before a place.
    fn sum(&self, place: usize) -> u64 {
        let (mut at, mut sum) = (place, 0);
        while at > 0 {
            sum += u64::from(self.sums[at]);
            at &= at - 1;
        }
        sum
    }

    fn change(&mut self, place: usize, holds: bool) {
        let mut at = place + 1;
        while at <= PLACES {
            self.sums[at] = if holds { self.sums[at] + 1 } else { self.sums[at] - 1 };
            at += at & at.wrapping_neg();
        }
    }

    fn number_anew(&mut self) {
        let mut order: Vec<(usize, u64)> = self.last.iter().map(|(hash, place)| (*place, *hash)).collect();
        order.sort_unstable();
        self.sums = vec![0; PLACES + 1];
        self.next = order.len();
        for (place, (_, hash)) in order.into_iter().enumerate() {
            self.last.insert(hash, place);
            self.change(place, true);
        }
    }

    /// The share of accesses that had none before, in percent; `None` without accesses.
    pub(super) fn cold_pct(&self) -> Option<f64> {
        let all = self.cold + self.found.iter().sum::<f64>();
        (all > 0.0).then(|| 100.0 * self.cold / all)
    }

    /// For caches of 2^n blocks, the share of accesses that miss, in percent: up to the size at which only first accesses do.
    pub(super) fn misses(&self) -> Vec<(u64, f64)> {
        let all = self.cold + self.found.iter().sum::<f64>();
        let last = self.found.iter().rposition(|count| *count > 0.0).unwrap_or(0);
        let mut missed = all;
        let mut rows = Vec::new();
        for power in 0..=last {
            missed -= self.found[power];
            rows.push((1u64 << power.min(50), 100.0 * missed.max(0.0) / all.max(1.0)));
        }
        rows
    }

    /// The least power of two of blocks that a cache needs for half of the accesses that are not first ones.
    pub(super) fn median(&self) -> Option<u64> {
        let half = self.found.iter().sum::<f64>() / 2.0;
        let mut sum = 0.0;
        let at = self.found.iter().position(|count| {
            sum += count;
            sum > 0.0 && sum >= half
        })?;
        Some(1u64 << at.min(50))
    }
}

#[cfg(test)]
mod tests;
