//! A disk's volatile cache: the versions of each sector that a power cut may leave.

use super::{Medium, SECTOR};
use crate::power::{CutReport, Judge};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A sector's contents; `None` is zeroes.
pub(crate) type Contents = Option<Box<[u8; SECTOR]>>;

/// Most versions in a cache (32 MiB); beyond that the oldest become durable.
const CAPACITY: usize = 65_536;

/// One version of a sector.
struct Layer {
    /// Numbers versions in order of arrival, over all sectors.
    number: u64,
    /// The command that wrote it.
    write: u64,
    contents: Contents,
}

/// The versions of one sector.
struct Pile {
    durable: Contents,
    layers: VecDeque<Layer>,
}

/// The volatile part of a medium. The medium itself holds the newest version of each sector.
pub(crate) struct Volatile {
    piles: BTreeMap<u64, Pile>,
    /// Sectors by the age of their versions; entries that have become durable meanwhile are skipped.
    ages: VecDeque<(u64, u64)>,
    held: usize,
    number: u64,
    /// The number before the last write.
    last: u64,
    capacity: usize,
    /// Writes of which a power cut takes all or nothing.
    atomic: BTreeSet<u64>,
}

impl Default for Volatile {
    fn default() -> Volatile {
        Volatile {
            piles: BTreeMap::new(),
            ages: VecDeque::new(),
            held: 0,
            number: 0,
            last: 0,
            capacity: CAPACITY,
            atomic: BTreeSet::new(),
        }
    }
}

/// Splits the data of a write into sectors; `data` empty: zeroes.
fn contents(data: &[u8], index: u64) -> Contents {
    let at = index as usize * SECTOR;
    data.get(at..at + SECTOR)?.try_into().ok().map(Box::new)
}

impl Volatile {
    /// The mark for [`Volatile::flushed`]: everything until now.
    pub(crate) fn mark(&self) -> u64 {
        self.number
    }

    /// As `mark`, without the last write.
    pub(crate) fn mark_before_last(&self) -> u64 {
        self.last
    }

    /// Sectors that have more than one version.
    pub(crate) fn len(&self) -> usize {
        self.piles.len()
    }

    /// The write of this number, which is about to be recorded, is atomic.
    pub(crate) fn keep_whole(&mut self, write: u64) {
        if self.held == 0 {
            self.atomic.clear();
        }
        self.atomic.insert(write);
    }

    /// A write is about to go to the medium.
    pub(crate) fn record(&mut self, medium: &mut Medium, write: u64, sector: u64, count: u64, data: &[u8]) {
        self.last = self.number;
        if data.is_empty() {
            // Zeroes over zeroes have nothing to lose, and a large range of them would fill the cache.
            let mut changed = medium.stored(sector, count);
            changed.extend(self.piles.range(sector..sector + count).map(|(&at, _)| at));
            changed.into_iter().for_each(|at| self.push(medium, write, at, None));
        } else {
            (0..count).for_each(|index| self.push(medium, write, sector + index, contents(data, index)));
        }
        while self.held > self.capacity {
            let Some((number, at)) = self.ages.pop_front() else { break };
            self.settle(at, number);
        }
        if self.ages.len() > 2 * self.capacity {
            let piles = &self.piles;
            self.ages.retain(|&(number, at)| piles.get(&at).is_some_and(|pile| pile.has(number)));
        }
    }

    /// Adds a version of a sector.
    fn push(&mut self, medium: &Medium, write: u64, at: u64, contents: Contents) {
        self.number += 1;
        let pile = self.piles.entry(at).or_insert_with(|| Pile::over(medium, at));
        pile.layers.push_back(Layer { number: self.number, write, contents });
        self.ages.push_back((self.number, at));
        self.held += 1;
    }

    /// Marks these sectors as durable, with their contents on the medium.
    pub(crate) fn durable(&mut self, sector: u64, count: u64) {
        let all: Vec<u64> = self.piles.range(sector..sector + count).map(|(&at, _)| at).collect();
        for at in all {
            self.settle(at, u64::MAX);
        }
    }

    /// A flush has completed: all versions up to its mark are durable.
    pub(crate) fn flushed(&mut self, mark: u64) {
        while let Some(&(number, at)) = self.ages.front().filter(|(number, _)| *number <= mark) {
            self.ages.pop_front();
            self.settle(at, number);
        }
    }

    /// Versions of a sector up to `number` are durable.
    fn settle(&mut self, at: u64, number: u64) {
        let Some(pile) = self.piles.get_mut(&at) else { return };
        while pile.layers.front().is_some_and(|layer| layer.number <= number) {
            if let Some(layer) = pile.layers.pop_front() {
                pile.durable = layer.contents;
                self.held -= 1;
            }
        }
        if pile.layers.is_empty() {
            self.piles.remove(&at);
        }
    }

    /// Power has failed: leaves the versions on the medium that the judge selects, and drops the rest.
    pub(crate) fn cut(&mut self, medium: &mut Medium, judge: &mut Judge<'_>, report: &mut CutReport) {
        let mut items: Vec<(u64, u64)> = Vec::with_capacity(self.held);
        for (&at, pile) in &self.piles {
            items.extend(pile.layers.iter().map(|layer| (layer.write, at)));
        }
        items.sort_unstable();
        items.dedup();
        let mut lost: BTreeSet<(u64, u64)> = BTreeSet::new();
        for write in items.chunk_by(|a, b| a.0 == b.0) {
            let mut gone: Vec<(u64, u64)> = Vec::new();
            for &(number, at) in write {
                report.could.add(report.disk, number, at);
                if judge.loses(number, at) {
                    gone.push((number, at));
                }
            }
            if !gone.is_empty() && self.atomic.contains(&write[0].0) {
                gone = write.to_vec();
            }
            gone.iter().for_each(|&(number, at)| report.lost.add(report.disk, number, at));
            lost.extend(gone);
        }
        report.torn += torn(&items, &lost);
        for (at, pile) in std::mem::take(&mut self.piles) {
            let kept = pile.layers.into_iter().rev().find(|layer| !lost.contains(&(layer.write, at)));
            medium.put(at, kept.map_or(pile.durable, |layer| layer.contents));
        }
        self.ages.clear();
        self.atomic.clear();
        self.held = 0;
    }
}

/// Writes of which some but not all sectors were lost.
fn torn(items: &[(u64, u64)], lost: &BTreeSet<(u64, u64)>) -> u64 {
    let writes = items.chunk_by(|a, b| a.0 == b.0);
    let is_torn = |write: &&[(u64, u64)]| {
        let gone = write.iter().filter(|item| lost.contains(item)).count();
        gone > 0 && gone < write.len()
    };
    writes.filter(is_torn).count() as u64
}

impl Pile {
    fn has(&self, number: u64) -> bool {
        self.layers.front().is_some_and(|oldest| oldest.number <= number)
    }

    fn over(medium: &Medium, at: u64) -> Pile {
        Pile { durable: medium.get(at), layers: VecDeque::new() }
    }
}

#[cfg(test)]
mod tests;
