//! Locks on ranges: shared or exclusive, granted in the order in which they were requested.
//!
//! A lock waits for all earlier locks that overlap it unless both are shared, including those that wait themselves, so
//! a stream of shared locks cannot starve an exclusive one. Locks are kept in a tree ordered by their beginnings, in
//! which each node knows the largest end below it (a treap with an augmented interval). Locking and unlocking take
//! O(log n + k) steps for n locks, k of which overlap.

use crate::random::Random;
use std::ops::Range;

/// Whether other locks may overlap a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Only shared ones.
    Shared,
    /// None.
    Exclusive,
}

/// Identifies a lock; never used again after it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeKey {
    index: u32,
    generation: u32,
}

impl RangeKey {
    /// The key as a number; never 0.
    pub fn number(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// The key with a number. 0 is that of no lock.
    pub fn of_number(number: u64) -> RangeKey {
        RangeKey { index: number as u32, generation: (number >> 32) as u32 }
    }
}

/// No node.
const NONE: u32 = u32::MAX;

struct Node<T> {
    range: Range<u64>,
    mode: Mode,
    /// Its place in the order of requests.
    turn: u64,
    /// Earlier locks that it waits for.
    blockers: u32,
    generation: u32,
    value: Option<T>,
    left: u32,
    right: u32,
    /// Largest end of the node and all below it.
    max_end: u64,
    priority: u64,
}

/// Locks on ranges, each with a value of its owner.
pub struct RangeLocks<T> {
    nodes: Vec<Node<T>>,
    free: Vec<u32>,
    root: u32,
    turns: u64,
    random: Random,
    found: Vec<u32>,
}

impl<T> Default for RangeLocks<T> {
    fn default() -> RangeLocks<T> {
        let (nodes, free, found) = (Vec::new(), Vec::new(), Vec::new());
        RangeLocks { nodes, free, root: NONE, turns: 0, random: Random(0), found }
    }
}

impl<T> RangeLocks<T> {
    /// Whether there are no locks.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.root == NONE
    }

    /// Requests a lock on a range that is not empty. Returns whether it is granted at once; otherwise it waits, and an
    /// [`unlock`](RangeLocks::unlock) reports it.
    pub fn lock(&mut self, range: Range<u64>, mode: Mode, value: T) -> (RangeKey, bool) {
        let mut found = self.take_overlapping(&range);
        let blocks = |&at: &u32| conflict(self.nodes[at as usize].mode, mode);
        let blockers = found.iter().filter(|at| blocks(at)).count() as u32;
        found.clear();
        self.found = found;
        (self.insert(range, mode, value, blockers), blockers == 0)
    }

    /// Requests a lock that must not wait.
    ///
    /// # Errors
    /// The earliest lock that it would have to wait for.
    pub fn try_lock(&mut self, range: Range<u64>, mode: Mode, value: T) -> Result<RangeKey, RangeKey> {
        let found = self.take_overlapping(&range);
        let blocking = found.iter().filter(|&&at| conflict(self.nodes[at as usize].mode, mode));
        let first = blocking.min_by_key(|&&at| self.nodes[at as usize].turn).map(|&at| self.key(at));
        self.found = found;
        match first {
            Some(first) => Err(first),
            None => Ok(self.insert(range, mode, value, 0)),
        }
    }

    /// Ends a lock, or a request that still waits. Appends the locks that are granted by that, in the order of their
    /// requests. Returns the value; `None`: the lock has ended already.
    pub fn unlock(&mut self, key: RangeKey, granted: &mut Vec<RangeKey>) -> Option<T> {
        if !self.is_live(key) {
            return None;
        }
        let node = &mut self.nodes[key.index as usize];
        let (range, mode, turn) = (node.range.clone(), node.mode, node.turn);
        let value = node.value.take();
        node.generation = node.generation.wrapping_add(1).max(1);
        self.root = self.remove(self.root, (range.start, turn));
        self.free.push(key.index);
        let mut found = self.take_overlapping(&range);
        found.sort_unstable_by_key(|&at| self.nodes[at as usize].turn);
        for &at in &found {
            let other = &mut self.nodes[at as usize];
            if other.turn < turn || !conflict(other.mode, mode) {
                continue;
            }
            other.blockers -= 1;
            if other.blockers == 0 {
                granted.push(self.key(at));
            }
        }
        self.found = found;
        value
    }

    /// Whether a lock has not ended.
    #[inline]
    pub fn is_live(&self, key: RangeKey) -> bool {
        let node = self.nodes.get(key.index as usize);
        node.is_some_and(|node| node.generation == key.generation && node.value.is_some())
    }

    /// Whether a lock is granted.
    pub fn is_granted(&self, key: RangeKey) -> bool {
        self.is_live(key) && self.nodes[key.index as usize].blockers == 0
    }

    /// The value of a lock that has not ended.
    pub fn get_mut(&mut self, key: RangeKey) -> Option<&mut T> {
        let node = self.nodes.get_mut(key.index as usize)?;
        node.value.as_mut().filter(|_| node.generation == key.generation)
    }

    /// The first lock over a position, in the order of their beginnings, and its value.
    pub fn at(&self, pos: u64) -> Option<(RangeKey, &T)> {
        let at = self.first_over(self.root, pos)?;
        self.nodes[at as usize].value.as_ref().map(|value| (self.key(at), value))
    }

    /// Calls `each` with the value of every lock over a position.
    pub fn each_at(&mut self, pos: u64, mut each: impl FnMut(&mut T)) {
        if self.root == NONE {
            return;
        }
        let found = self.take_overlapping(&(pos..pos.saturating_add(1)));
        for &at in &found {
            self.nodes[at as usize].value.iter_mut().for_each(&mut each);
        }
        self.found = found;
    }

    fn key(&self, index: u32) -> RangeKey {
        RangeKey { index, generation: self.nodes[index as usize].generation }
    }

    /// The locks that overlap a range, in a list to be given back.
    fn take_overlapping(&mut self, range: &Range<u64>) -> Vec<u32> {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        self.collect(self.root, range, &mut found);
        found
    }

    fn collect(&self, at: u32, range: &Range<u64>, found: &mut Vec<u32>) {
        if at == NONE || self.nodes[at as usize].max_end <= range.start {
            return;
        }
        let node = &self.nodes[at as usize];
        self.collect(node.left, range, found);
        if node.range.start >= range.end {
            return;
        }
        if node.range.end > range.start {
            found.push(at);
        }
        self.collect(node.right, range, found);
    }

    fn first_over(&self, at: u32, pos: u64) -> Option<u32> {
        if at == NONE || self.nodes[at as usize].max_end <= pos {
            return None;
        }
        let node = &self.nodes[at as usize];
        let own = || node.range.contains(&pos).then_some(at);
        self.first_over(node.left, pos).or_else(own).or_else(|| match node.range.start > pos {
            true => None,
            false => self.first_over(node.right, pos),
        })
    }

    fn insert(&mut self, range: Range<u64>, mode: Mode, value: T, blockers: u32) -> RangeKey {
        self.turns += 1;
        let (turn, priority, max_end) = (self.turns, self.random.next(), range.end);
        let start = range.start;
        let index = self.free.pop().unwrap_or(self.nodes.len() as u32);
        let generation = self.nodes.get(index as usize).map_or(1, |node| node.generation);
        let (left, right, value) = (NONE, NONE, Some(value));
        let node = Node { range, mode, turn, blockers, generation, value, left, right, max_end, priority };
        match self.nodes.get_mut(index as usize) {
            Some(place) => *place = node,
            None => self.nodes.push(node),
        }
        let (before, after) = self.split(self.root, (start, turn));
        let before = self.merge(before, index);
        self.root = self.merge(before, after);
        RangeKey { index, generation }
    }

    fn order(&self, at: u32) -> (u64, u64) {
        let node = &self.nodes[at as usize];
        (node.range.start, node.turn)
    }

    /// Recomputes the largest end of a node after a change below it.
    fn update(&mut self, at: u32) {
        let node = &self.nodes[at as usize];
        let below = [node.left, node.right].map(|at| self.nodes.get(at as usize).map_or(0, |n| n.max_end));
        let max_end = node.range.end.max(below[0]).max(below[1]);
        self.nodes[at as usize].max_end = max_end;
    }

    /// Splits a tree into the nodes before a place and the others.
    fn split(&mut self, at: u32, place: (u64, u64)) -> (u32, u32) {
        if at == NONE {
            return (NONE, NONE);
        }
        if self.order(at) < place {
            let (before, after) = self.split(self.nodes[at as usize].right, place);
            self.nodes[at as usize].right = before;
            self.update(at);
            (at, after)
        } else {
            let (before, after) = self.split(self.nodes[at as usize].left, place);
            self.nodes[at as usize].left = after;
            self.update(at);
            (before, at)
        }
    }

    /// Joins two trees, the first of which lies before the second.
    fn merge(&mut self, one: u32, other: u32) -> u32 {
        if one == NONE || other == NONE {
            return if one == NONE { other } else { one };
        }
        if self.nodes[one as usize].priority > self.nodes[other as usize].priority {
            let right = self.merge(self.nodes[one as usize].right, other);
            self.nodes[one as usize].right = right;
            self.update(one);
            one
        } else {
            let left = self.merge(one, self.nodes[other as usize].left);
            self.nodes[other as usize].left = left;
            self.update(other);
            other
        }
    }

    /// Removes the node at a place; returns the root of the rest.
    fn remove(&mut self, at: u32, place: (u64, u64)) -> u32 {
        if at == NONE {
            return NONE;
        }
        let (left, right) = (self.nodes[at as usize].left, self.nodes[at as usize].right);
        match place.cmp(&self.order(at)) {
            std::cmp::Ordering::Equal => return self.merge(left, right),
            std::cmp::Ordering::Less => self.nodes[at as usize].left = self.remove(left, place),
            std::cmp::Ordering::Greater => self.nodes[at as usize].right = self.remove(right, place),
        }
        self.update(at);
        at
    }
}

fn conflict(one: Mode, other: Mode) -> bool {
    one == Mode::Exclusive || other == Mode::Exclusive
}

#[cfg(test)]
mod tests {
    use super::*;
    use Mode::{Exclusive, Shared};

    #[test]
    fn locks_are_granted_in_order() {
        let mut locks = RangeLocks::default();
        let (read, granted) = locks.lock(0..10, Shared, 'a');
        assert!(granted);
        let (write, granted) = locks.lock(5..6, Exclusive, 'b');
        assert!(!granted && !locks.is_granted(write));
        // It does not pass the exclusive lock that waits, and one beside it is free.
        let (late, granted) = locks.lock(5..20, Shared, 'c');
        assert!(!granted);
        assert!(locks.lock(6..7, Shared, 'd').1);
        assert_eq!(locks.try_lock(4..7, Shared, 'e'), Err(write));
        let mut next = Vec::new();
        assert_eq!((locks.unlock(read, &mut next), &next[..]), (Some('a'), &[write][..]));
        next.clear();
        assert_eq!((locks.unlock(write, &mut next), &next[..]), (Some('b'), &[late][..]));
        assert_eq!((locks.unlock(write, &mut next), locks.is_live(write)), (None, false));
        *locks.get_mut(late).unwrap() = 'x';
        assert_eq!(locks.at(19), Some((late, &'x')));
        let mut seen = String::new();
        locks.each_at(6, |value| seen.push(*value));
        assert_eq!((seen.as_str(), locks.at(20)), ("xd", None));
    }

    /// The same as a list that is searched from front to back.
    #[test]
    fn it_agrees_with_a_plain_list() {
        struct Entry {
            key: RangeKey,
            range: Range<u64>,
            mode: Mode,
        }
        let mut random = Random(7);
        let (mut locks, mut list) = (RangeLocks::default(), Vec::<Entry>::new());
        let waits = |list: &[Entry], at: usize| {
            list[..at].iter().any(|other| {
                let entry = &list[at];
                let overlaps = other.range.start < entry.range.end && entry.range.start < other.range.end;
                overlaps && conflict(other.mode, entry.mode)
            })
        };
        for round in 0..20_000u64 {
            if random.below(2) == 0 || list.is_empty() {
                let start = random.below(200);
                let range = start..start + 1 + random.below(40);
                let mode = if random.below(3) == 0 { Exclusive } else { Shared };
                let (key, granted) = locks.lock(range.clone(), mode, round);
                list.push(Entry { key, range, mode });
                assert_eq!(granted, !waits(&list, list.len() - 1));
            } else {
                let before: Vec<bool> = (0..list.len()).map(|at| waits(&list, at)).collect();
                let at = random.below(list.len() as u64) as usize;
                let mut granted = Vec::new();
                assert!(locks.unlock(list[at].key, &mut granted).is_some());
                list.remove(at);
                let freed = (0..list.len()).filter(|&i| before[i + usize::from(i >= at)] && !waits(&list, i));
                assert_eq!(granted, freed.map(|i| list[i].key).collect::<Vec<_>>());
            }
            let pos = random.below(250);
            let over = list.iter().filter(|entry| entry.range.contains(&pos));
            assert_eq!(locks.at(pos).is_some(), over.clone().next().is_some());
            let mut count = 0;
            locks.each_at(pos, |_| count += 1);
            assert_eq!(count, over.count());
        }
    }

    #[test]
    fn the_tree_stays_shallow() {
        let mut locks = RangeLocks::default();
        for at in 0..1 << 14 {
            locks.lock(at..at + 1, Exclusive, ());
        }
        fn depth<T>(locks: &RangeLocks<T>, at: u32) -> u32 {
            let Some(node) = locks.nodes.get(at as usize) else { return 0 };
            1 + depth(locks, node.left).max(depth(locks, node.right))
        }
        assert!(depth(&locks, locks.root) < 64, "14 at best");
    }
}
