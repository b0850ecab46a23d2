//! The places of all units on a disk that was filled and then overwritten at random for a long time, as a
//! formula.
//!
//! Greedy garbage collection under uniform random writes collects blocks roughly in the order in which they
//! were filled, and the valid part of a block falls exponentially with its age (Desnoyers, "Analytic modeling
//! of SSD write performance", 2012). So block `k` of `n`, newest first, holds `(1 - q)^k` of its units, with
//! `q` such that all of them together hold the disk. The units are distributed by a fixed permutation.

use super::params::Shape;
use std::ops::Range;

/// Erased blocks of each die in a steady state.
const ERASED: u32 = 3;

/// A unit at a place of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lying {
    pub(super) place: u32,
    pub(super) unit: u32,
}

/// The state before the first command.
#[derive(Clone, Debug)]
pub(super) struct Initial {
    shape: Shape,
    /// Blocks of each die that hold data; the first ones.
    blocks: u32,
    /// Valid units before each of them, die by die, and all of them last.
    before: Vec<u32>,
    /// The unit at position `p` of all valid ones is `p * factor + shift` modulo the units.
    factor: u64,
    inverse: u64,
    shift: u64,
}

/// Fraction bits of shares.
const FRACTION: u32 = 32;

impl Initial {
    /// All is erased.
    pub(super) fn erased(shape: Shape) -> Initial {
        Initial { shape, blocks: 0, before: vec![0], factor: 1, inverse: 1, shift: 0 }
    }

    /// All is written, at random.
    pub(super) fn steady(shape: Shape, seed: u64) -> Initial {
        let blocks = shape.blocks - ERASED;
        let units = u64::from(shape.units);
        let mut before = vec![0];
        let dies = u64::from(shape.dies);
        let oldest = aged(units / dies, blocks, shape.block_units()).last().copied().unwrap_or(0);
        for die in 0..shape.dies {
            let share = units / dies + u64::from(u64::from(die) < units % dies);
            let left = oldest / shape.rows * (shape.rows - shape.stagger(die));
            let others = aged(share - u64::from(left), blocks - 1, shape.block_units());
            for valid in others.into_iter().chain([left]) {
                let sum = before.last().copied().unwrap_or(0) + valid;
                before.push(sum);
            }
        }
        let (factor, inverse) = scatter(units, seed);
        Initial { shape, blocks, before, factor, inverse, shift: seed % units }
    }

    /// Number of blocks of each die that hold data.
    pub(super) fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Valid units of a block.
    pub(super) fn valid(&self, die: u32, block: u32) -> u32 {
        if block >= self.blocks {
            return 0;
        }
        let at = (die * self.blocks + block) as usize;
        self.before[at + 1] - self.before[at]
    }

    /// The first place of a block that may be valid, and the number of places from there on.
    fn part(&self, die: u32, block: u32) -> (u64, u64) {
        let copied = if block + 1 == self.blocks { self.shape.stagger(die) } else { 0 };
        let from = u64::from(copied) * u64::from(self.shape.row_units);
        (from, u64::from(self.shape.block_units()) - from)
    }

    /// The place of a unit: die, block, place in the block.
    pub(super) fn place(&self, unit: u32) -> Option<(u32, u32, u32)> {
        if self.blocks == 0 {
            return None;
        }
        let units = u64::from(self.shape.units);
        let position = ((u64::from(unit) + units - self.shift) % units * self.inverse % units) as u32;
        let at = self.before.partition_point(|&before| before <= position) as u32 - 1;
        let (die, block) = (at / self.blocks, at % self.blocks);
        let within = position - self.before[at as usize];
        let (from, all) = self.part(die, block);
        let place = from + u64::from(within) * all / u64::from(self.valid(die, block));
        Some((die, block, place as u32))
    }

    /// The number of a block that holds data, over all dies.
    pub(super) fn number(&self, die: u32, block: u32) -> u32 {
        die * self.blocks + block
    }

    /// The units at these places of a block, in order.
    pub(super) fn units_in(&self, die: u32, block: u32, places: Range<u32>) -> impl Iterator<Item = Lying> {
        let (from, all) = self.part(die, block);
        let valid = u64::from(self.valid(die, block));
        // Unit `n` lies at place `n * all / valid`. The next unit lies `whole` places further, and one more whenever the sum of the
        // remainders `part` reaches `valid`. Example: 5 places, 2 units: units at 0 and 2, remainders 0 and 1.
        let (whole, part) = (all / valid.max(1), all % valid.max(1));
        let mut within = (u64::from(places.start).saturating_sub(from) * valid).div_ceil(all.max(1));
        let mut place = from + within * all / valid.max(1);
        let mut rest = within * all % valid.max(1);
        let units = u64::from(self.shape.units);
        let before = if valid == 0 { 0 } else { self.before[self.number(die, block) as usize] };
        let mut unit = ((u64::from(before) + within) * self.factor + self.shift) % units;
        let factor = self.factor;
        std::iter::from_fn(move || {
            if within >= valid || place >= u64::from(places.end) {
                return None;
            }
            let lying = Lying { place: place as u32, unit: unit as u32 };
            (within, place, rest, unit) = (within + 1, place + whole, rest + part, unit + factor);
            if rest >= valid {
                (place, rest) = (place + 1, rest - valid);
            }
            if unit >= units {
                unit -= units;
            }
            Some(lying)
        })
    }
}

/// How `units` lie in `blocks` blocks of `most` units each, newest first.
fn aged(units: u64, blocks: u32, most: u32) -> Vec<u32> {
    let shares = |loss: u64| {
        let mut share = u64::from(most) << FRACTION;
        let mut next = move || {
            let now = (share >> FRACTION) as u32;
            share -= ((u128::from(share) * u128::from(loss)) >> FRACTION) as u64;
            now
        };
        (0..blocks).map(move |_| next())
    };
    let sum = |loss: u64| shares(loss).map(u64::from).sum::<u64>();
    // The largest loss that leaves enough.
    let (mut low, mut high) = (0, 1 << FRACTION);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if sum(middle) >= units { low = middle } else { high = middle }
    }
    let mut valid: Vec<u32> = shares(low).collect();
    let mut excess = sum(low).saturating_sub(units) as u32;
    for block in valid.iter_mut().rev() {
        let less = excess.min(*block);
        *block -= less;
        excess -= less;
    }
    valid
}

/// A factor without a common divisor with `units`, near the golden section of it, and its inverse.
fn scatter(units: u64, seed: u64) -> (u64, u64) {
    let golden = ((u128::from(units) * 0x9e37_79b9_7f4a_7c15) >> 64) as u64 + seed % 64;
    let factor = (golden..).find(|&factor| inverse(factor % units.max(2), units).is_some()).unwrap_or(1);
    (factor % units.max(2), inverse(factor % units.max(2), units).unwrap_or(1))
}

/// The inverse of `a` modulo `m`, by Euclid's algorithm.
fn inverse(a: u64, m: u64) -> Option<u64> {
    let (mut r0, mut r1, mut t0, mut t1) = (i128::from(m), i128::from(a), 0i128, 1i128);
    while r1 != 0 {
        let q = r0 / r1;
        (r0, r1) = (r1, r0 - q * r1);
        (t0, t1) = (t1, t0 - q * t1);
    }
    (r0 == 1).then(|| t0.rem_euclid(i128::from(m)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        Shape { units: 9001, dies: 3, blocks: 60, slc_blocks: 0, rows: 10, slc_rows: 3, row_units: 8 }
    }

    #[test]
    fn each_unit_has_one_place_and_comes_back_from_it() {
        for seed in [0, 1, 77] {
            let initial = Initial::steady(shape(), seed);
            let mut found = 0;
            for die in 0..3 {
                let valid: Vec<u32> = (0..60).map(|block| initial.valid(die, block)).collect();
                assert!(valid.windows(2).all(|pair| pair[0] >= pair[1]), "{valid:?}");
                assert_eq!(&valid[57..], [0; 3]);
                for block in 0..57 {
                    let all: Vec<Lying> = initial.units_in(die, block, 0..80).collect();
                    for &Lying { place, unit } in &all {
                        assert_eq!(initial.place(unit), Some((die, block, place)));
                        found += 1;
                    }
                    let rows = (0..10).flat_map(|row| initial.units_in(die, block, 8 * row..8 * row + 8));
                    assert_eq!(rows.collect::<Vec<Lying>>(), all);
                }
                assert_eq!(initial.units_in(die, 57, 0..80).next(), None);
            }
            assert_eq!(found, 9001);
        }
        assert_eq!(Initial::erased(shape()).place(5), None);
    }

    #[test]
    fn what_is_valid_falls_with_age_to_what_greedy_collection_finds() {
        // 30 % more flash than data: the oldest block holds 1 - 1/2.36 of its units (Xiang and Kurkoski, "An
        // improved analytic expression for write amplification in NAND flash", 2011).
        let valid = aged(1_000_000, 1300, 1000);
        assert_eq!(valid.iter().map(|&v| u64::from(v)).sum::<u64>(), 1_000_000);
        let oldest = valid[1290];
        assert!((570..585).contains(&oldest), "{oldest}");
    }
}
