//! Caches to compare with. Each reports whether an access was a hit.

use super::super::{Probe, Replacement};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

/// A cache of pages that are accessed one by one.
pub(super) trait Cache {
    /// Accesses `page`, which is cached from here on. Returns whether it was cached.
    fn access(&mut self, page: u64) -> bool;
}

/// The policy under test.
pub(super) struct Ours {
    replacement: Replacement,
    frames: HashMap<u64, u32>,
    pages: Vec<u64>,
    uses: Vec<u8>,
}

impl Ours {
    pub(super) fn new(size: usize) -> Self {
        let (replacement, frames) = (Replacement::new(size as u32), HashMap::new());
        Ours { replacement, frames, pages: Vec::new(), uses: vec![0; size] }
    }

    pub(super) fn holds(&self, page: u64) -> bool {
        self.frames.contains_key(&page)
    }

    fn frame(&mut self) -> u32 {
        if self.pages.len() < self.uses.len() {
            self.pages.push(0);
            return self.pages.len() as u32 - 1;
        }
        let (uses, pages) = (&mut self.uses, &self.pages);
        let mut probe = |frame: u32| match &mut uses[frame as usize] {
            0 => Probe::Free(pages[frame as usize]),
            uses => {
                *uses -= 1;
                Probe::Used(*uses + 1)
            }
        };
        let frame = self.replacement.evict(&mut probe).expect("no frame is busy");
        self.frames.remove(&self.pages[frame as usize]);
        frame
    }
}

impl Cache for Ours {
    fn access(&mut self, page: u64) -> bool {
        if let Some(&frame) = self.frames.get(&page) {
            let uses = &mut self.uses[frame as usize];
            *uses = (*uses + 1).min(3);
            return true;
        }
        let frame = self.frame();
        (self.pages[frame as usize], self.uses[frame as usize]) = (page, 0);
        self.frames.insert(page, frame);
        self.replacement.insert(frame, page);
        false
    }
}

/// Pages in the order of their last use.
#[derive(Default)]
struct Recency {
    stamps: HashMap<u64, u64>,
    order: BTreeMap<u64, u64>,
    now: u64,
}

impl Recency {
    fn touch(&mut self, page: u64) {
        self.now += 1;
        if let Some(before) = self.stamps.insert(page, self.now) {
            self.order.remove(&before);
        }
        self.order.insert(self.now, page);
    }

    fn pop(&mut self) {
        if let Some((_, page)) = self.order.pop_first() {
            self.stamps.remove(&page);
        }
    }
}

/// Least recently used.
pub(super) struct Lru {
    size: usize,
    pages: Recency,
}

impl Lru {
    pub(super) fn new(size: usize) -> Self {
        Lru { size, pages: Recency::default() }
    }
}

impl Cache for Lru {
    fn access(&mut self, page: u64) -> bool {
        let hit = self.pages.stamps.contains_key(&page);
        if !hit && self.pages.stamps.len() == self.size {
            self.pages.pop();
        }
        self.pages.touch(page);
        hit
    }
}

/// CLOCK: a ring with one bit of use for each page.
pub(super) struct Clock {
    size: usize,
    ring: VecDeque<u64>,
    used: HashMap<u64, bool>,
}

impl Clock {
    pub(super) fn new(size: usize) -> Self {
        Clock { size, ring: VecDeque::new(), used: HashMap::new() }
    }
}

impl Cache for Clock {
    fn access(&mut self, page: u64) -> bool {
        if let Some(used) = self.used.get_mut(&page) {
            *used = true;
            return true;
        }
        while self.ring.len() == self.size {
            let oldest = self.ring.pop_front().expect("it is full");
            if std::mem::take(self.used.get_mut(&oldest).expect("it is in the ring")) {
                self.ring.push_back(oldest);
            } else {
                self.used.remove(&oldest);
            }
        }
        self.ring.push_back(page);
        self.used.insert(page, false);
        false
    }
}

/// Full 2Q (Johnson, Shasha: "2Q: a low overhead high performance buffer management replacement algorithm",
/// VLDB 1994), with the sizes that they propose: a quarter in `A1in`, half as many ghosts as pages.
pub(super) struct TwoQ {
    size: usize,
    fresh: VecDeque<u64>,
    fresh_set: HashSet<u64>,
    ghosts: VecDeque<u64>,
    ghost_set: HashSet<u64>,
    main: Recency,
}

impl TwoQ {
    pub(super) fn new(size: usize) -> Self {
        let (fresh, fresh_set) = (VecDeque::new(), HashSet::new());
        let (ghosts, ghost_set) = (VecDeque::new(), HashSet::new());
        TwoQ { size, fresh, fresh_set, ghosts, ghost_set, main: Recency::default() }
    }

    fn make_room(&mut self) {
        if self.fresh.len() + self.main.stamps.len() < self.size {
            return;
        }
        if self.fresh.len() <= self.size / 4 && !self.main.stamps.is_empty() {
            return self.main.pop();
        }
        let oldest = self.fresh.pop_front().expect("the cache is full and the main queue is not all of it");
        self.fresh_set.remove(&oldest);
        self.ghosts.push_back(oldest);
        self.ghost_set.insert(oldest);
        if self.ghosts.len() > self.size / 2 {
            let gone = self.ghosts.pop_front().expect("it is not empty");
            self.ghost_set.remove(&gone);
        }
    }
}

impl Cache for TwoQ {
    fn access(&mut self, page: u64) -> bool {
        if self.main.stamps.contains_key(&page) {
            self.main.touch(page);
            return true;
        }
        if self.fresh_set.contains(&page) {
            return true;
        }
        let known = self.ghost_set.remove(&page);
        if known {
            self.ghosts.retain(|&ghost| ghost != page);
        }
        self.make_room();
        if known {
            self.main.touch(page);
        } else {
            self.fresh.push_back(page);
            self.fresh_set.insert(page);
        }
        false
    }
}

/// SIEVE (Zhang, Yang, Yue, Vigfusson, Rashmi: "SIEVE is simpler than LRU", NSDI 2024).
pub(super) struct Sieve {
    size: usize,
    order: BTreeMap<u64, u64>,
    used: HashMap<u64, bool>,
    hand: u64,
    now: u64,
}

impl Sieve {
    pub(super) fn new(size: usize) -> Self {
        Sieve { size, order: BTreeMap::new(), used: HashMap::new(), hand: 0, now: 0 }
    }
}

impl Cache for Sieve {
    fn access(&mut self, page: u64) -> bool {
        if let Some(used) = self.used.get_mut(&page) {
            *used = true;
            return true;
        }
        while self.used.len() == self.size {
            let next = self.order.range(self.hand..).next().or_else(|| self.order.iter().next());
            let (stamp, victim) = next.map(|(&stamp, &victim)| (stamp, victim)).expect("it is full");
            // The oldest follows the newest, even if another page is added meanwhile.
            self.hand = self.order.range(stamp + 1..).next().map_or(0, |(&newer, _)| newer);
            if !std::mem::take(self.used.get_mut(&victim).expect("it is in the order")) {
                self.order.remove(&stamp);
                self.used.remove(&victim);
            }
        }
        self.now += 1;
        self.order.insert(self.now, page);
        self.used.insert(page, false);
        false
    }
}

/// Hits of the optimal policy, which knows all future accesses (Belady: "A study of replacement algorithms
/// for a virtual-storage computer", 1966).
pub(super) fn best(trace: &[u64], size: usize) -> usize {
    let mut next = vec![usize::MAX; trace.len()];
    let mut seen = HashMap::new();
    for (at, &page) in trace.iter().enumerate().rev() {
        next[at] = seen.insert(page, at).unwrap_or(usize::MAX);
    }
    let (mut held, mut by_next, mut hits) = (HashMap::new(), BTreeSet::new(), 0);
    for (&page, &next) in trace.iter().zip(&next) {
        match held.insert(page, next) {
            Some(due) => {
                hits += 1;
                by_next.remove(&(due, page));
            }
            None if by_next.len() == size => {
                let (_, victim) = by_next.pop_last().expect("it is full");
                held.remove(&victim);
            }
            None => {}
        }
        by_next.insert((next, page));
    }
    hits
}
