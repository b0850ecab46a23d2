//! A sorted map from position to request, without an allocation per entry.
//!
//! Two levels of sorted arrays: leaves of at most 32 entries from a pool, and a sorted array of the leaves in
//! use. At queue depths of a hundred these are about six leaves in the first-level cache, where moving half a
//! leaf costs less than following the pointers of a balanced tree; with tens of thousands of entries the
//! upper array still has only about a thousand members.

use super::RequestId;
use alloc::vec::Vec;

/// Entries of a leaf.
const LEAF: usize = 32;

/// Two neighbours with this many entries together, or fewer, are joined into one leaf. Any two neighbours
/// therefore have more, which bounds the number of leaves (see [`SectorMap::reserve`]).
const SPARSE: usize = LEAF / 2;

/// Position, index and generation in one number, which sorts as `(pos, id)` does.
type Key = u128;

#[inline]
fn key(pos: u64, id: RequestId) -> Key {
    u128::from(pos) << 64 | u128::from(id.index) << 32 | u128::from(id.generation)
}

#[inline]
fn entry(key: Key) -> (u64, RequestId) {
    ((key >> 64) as u64, RequestId { index: (key >> 32) as u32, generation: key as u32 })
}

/// How many of four keys are smaller than `key`.
///
/// Searches count instead of bisecting: a bisection of random keys mispredicts every second branch (and the
/// optimiser turns selects back into branches), which costs more than the additional comparisons.
#[inline(always)]
fn below(keys: [Key; 4], key: Key) -> usize {
    let [a, b, c, d] = keys;
    (usize::from(a < key) + usize::from(b < key)) + (usize::from(c < key) + usize::from(d < key))
}

/// How many of the sorted `keys` are smaller than `key`, in rounds of four-way splits.
#[inline]
fn rank(keys: &[Key], key: Key) -> usize {
    rank_counted(keys, key, |_| ())
}

/// [`rank`], which tells `compared` the number of comparisons of each round.
#[inline(always)]
fn rank_counted(keys: &[Key], key: Key, mut compared: impl FnMut(usize)) -> usize {
    let at = |i: usize| keys.get(i).copied().unwrap_or(Key::MAX);
    let (mut base, mut len) = (0, keys.len());
    while len > 4 {
        let step = len.div_ceil(4);
        compared(4);
        base += step
            * below([at(base + step - 1), at(base + 2 * step - 1), at(base + 3 * step - 1), Key::MAX], key);
        len = step;
    }
    compared(4);
    base + below([at(base), at(base + 1), at(base + 2), at(base + 3)], key)
}

#[derive(Clone)]
struct Leaf {
    len: usize,
    /// Sorted; unused entries have the largest key.
    keys: [Key; LEAF],
}

impl Leaf {
    const EMPTY: Leaf = Leaf { len: 0, keys: [Key::MAX; LEAF] };

    #[inline]
    fn keys(&self) -> &[Key] {
        &self.keys[..self.len.min(LEAF)]
    }

    /// How many keys are smaller than `key`. Like [`rank`], but of a fixed size and without branches.
    #[inline]
    fn rank(&self, key: Key) -> usize {
        self.rank_counted(key, |_| ())
    }

    /// [`Leaf::rank`], which tells `compared` the number of comparisons of each round.
    #[inline(always)]
    fn rank_counted(&self, key: Key, mut compared: impl FnMut(usize)) -> usize {
        const { assert!(LEAF == 32, "the splits below are written for 32") };
        let k = &self.keys;
        compared(4);
        let mut at = 8 * below([k[7], k[15], k[23], Key::MAX], key);
        compared(1);
        at += 4 * usize::from(k[at + 3] < key);
        compared(4);
        at + below([k[at], k[at + 1], k[at + 2], k[at + 3]], key)
    }

    #[inline]
    fn insert(&mut self, at: usize, key: Key) {
        self.keys.copy_within(at..self.len, at + 1);
        self.keys[at] = key;
        self.len += 1;
    }

    #[inline]
    fn remove(&mut self, at: usize) {
        let last = (self.len - 1) % LEAF;
        if at < last {
            self.keys.copy_within(at + 1..last + 1, at);
        }
        self.keys[last] = Key::MAX;
        self.len = last;
    }

    fn truncate(&mut self, len: usize) {
        self.keys[len..].fill(Key::MAX);
        self.len = len;
    }

    /// Appends `keys`, which are all larger than those of the leaf.
    fn append(&mut self, keys: &[Key]) {
        self.keys[self.len..self.len + keys.len()].copy_from_slice(keys);
        self.len += keys.len();
    }
}

/// Entries that have not been sorted yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Unsorted(Vec<Key>);

impl Unsorted {
    pub(super) const fn new() -> Unsorted {
        Unsorted(Vec::new())
    }

    pub(super) fn reserve(&mut self, entries: usize) {
        self.0.reserve(entries.saturating_sub(self.0.len()));
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub(super) fn push(&mut self, pos: u64, id: RequestId) {
        self.0.push(key(pos, id));
    }
}

/// A sorted multimap from position to [`RequestId`]; entries at one position are sorted by id.
///
/// Every operation takes time logarithmic in the number of entries, plus the time to move at most one leaf
/// (half a KiB). Memory is at most about 64 bytes per entry.
#[derive(Clone, Default)]
pub struct SectorMap {
    /// Leaves in use, in order, as indices into the pool.
    branches: Vec<u32>,
    /// For each leaf in use except the first: a lower bound of its keys that is larger than all keys before
    /// it.
    bounds: Vec<Key>,
    pool: Vec<Leaf>,
    free: Vec<u32>,
    len: usize,
    /// Branch and index in its leaf of the entry that the last removal returned, unless the map has changed since. A sweep
    /// removes that one next.
    next: (usize, usize),
}

impl SectorMap {
    /// An empty map.
    pub const fn new() -> SectorMap {
        SectorMap {
            branches: Vec::new(),
            bounds: Vec::new(),
            pool: Vec::new(),
            free: Vec::new(),
            len: 0,
            next: (0, 0),
        }
    }

    /// Makes room for `entries` in total: up to that number, no operation allocates.
    pub fn reserve(&mut self, entries: usize) {
        // Any two neighbouring leaves hold more than SPARSE entries, and one leaf may be without a neighbour.
        let leaves = 2 * (entries / (SPARSE + 1)) + 1;
        if leaves > self.pool.len() {
            let first = self.pool.len() as u32;
            self.pool.resize(leaves, Leaf::EMPTY);
            self.free.reserve(leaves - self.free.len());
            self.free.extend(first..leaves as u32);
            self.branches.reserve(leaves - self.branches.len());
            self.bounds.reserve(leaves - self.bounds.len());
        }
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an entry; `false` if it was already there.
    #[inline]
    pub fn insert(&mut self, pos: u64, id: RequestId) -> bool {
        let key = key(pos, id);
        let Some(branch) = self.branch_of(key) else {
            self.add_branch(0, &[key]);
            self.len = 1;
            return true;
        };
        let leaf = self.leaf_mut(branch);
        let at = leaf.rank(key);
        if leaf.keys().get(at) == Some(&key) {
            return false;
        }
        if leaf.len < LEAF {
            leaf.insert(at, key);
        } else {
            self.insert_into_full(branch, at, key);
        }
        self.len += 1;
        true
    }

    /// Removes an entry; `false` if it was not there.
    #[inline]
    pub fn remove(&mut self, pos: u64, id: RequestId) -> bool {
        self.remove_then_next(pos, id).0
    }

    /// Removes an entry and returns whether it was there, and the entry that follows it:
    /// [`remove`](Self::remove) and [`successor`](Self::successor) with one search.
    #[inline]
    pub fn remove_then_next(&mut self, pos: u64, id: RequestId) -> (bool, Option<(u64, RequestId)>) {
        let key = key(pos, id);
        let (branch, at) = match self.is_next(key) {
            true => self.next,
            false => match self.search(key) {
                Ok(place) => place,
                Err(next) => return (false, next.map(entry)),
            },
        };
        self.next = (branch, at);
        let leaf = self.leaf_mut(branch);
        leaf.remove(at);
        let left = leaf.len;
        let next = if at < left { Some(leaf.keys[at % LEAF]) } else { self.edge(branch + 1, false) };
        self.len -= 1;
        // The last leaf stays, for the next entry.
        if left <= SPARSE && self.branches.len() > 1 {
            self.shrink(branch);
        }
        (true, next.map(entry))
    }

    /// Whether `key` is the entry that the last removal returned.
    #[inline]
    fn is_next(&self, key: Key) -> bool {
        let (branch, at) = self.next;
        let Some(&leaf) = self.branches.get(branch) else { return false };
        let leaf = &self.pool[leaf as usize];
        at < leaf.len && leaf.keys[at % LEAF] == key
    }

    /// The branch of `key` and its index in the leaf; if it is not there, the key that follows it.
    #[inline(never)]
    fn search(&self, key: Key) -> Result<(usize, usize), Option<Key>> {
        let branch = self.branch_of(key).ok_or(None)?;
        let (keys, at) = (self.leaf(branch).keys(), self.leaf(branch).rank(key));
        match keys.get(at) {
            Some(&other) if other == key => Ok((branch, at)),
            other => Err(other.copied().or_else(|| self.edge(branch + 1, false))),
        }
    }

    /// Adds entries that are not there, and empties the list of them.
    #[cold]
    pub(super) fn insert_all(&mut self, Unsorted(keys): &mut Unsorted) {
        if self.len > 0 || keys.len() > LEAF {
            for key in keys.drain(..) {
                let (pos, id) = entry(key);
                self.insert(pos, id);
            }
            return;
        }
        // Into an empty map they go as they are, once they are sorted.
        if keys.len() > 1 {
            keys.sort_unstable();
        }
        if self.branches.is_empty() {
            self.add_branch(0, &[]);
        }
        self.len = keys.len();
        self.leaf_mut(0).append(keys);
        keys.clear();
    }

    /// Whether the entry is there.
    #[inline]
    pub fn contains(&self, pos: u64, id: RequestId) -> bool {
        let key = key(pos, id);
        self.branch_of(key).is_some_and(|branch| {
            let leaf = self.leaf(branch);
            leaf.keys().get(leaf.rank(key)) == Some(&key)
        })
    }

    /// The number of keys that a search for `(pos, id)` compares at present: what an insertion or a removal costs, beside
    /// moving at most one leaf. For experiments that count the work of elevators.
    pub fn comparisons(&self, pos: u64, id: RequestId) -> usize {
        let (key, mut total) = (key(pos, id), 0);
        if !self.branches.is_empty() {
            let branch = rank_counted(&self.bounds, key, |compared| total += compared);
            self.leaf(branch).rank_counted(key, |compared| total += compared);
        }
        total
    }

    /// The first entry after `(pos, id)`, which need not be in the map.
    #[inline]
    pub fn successor(&self, pos: u64, id: RequestId) -> Option<(u64, RequestId)> {
        // Nothing follows the largest possible key.
        self.at_or_after(key(pos, id).checked_add(1)?)
    }

    /// The last entry before `(pos, id)`, which need not be in the map.
    #[inline]
    pub fn predecessor(&self, pos: u64, id: RequestId) -> Option<(u64, RequestId)> {
        let key = key(pos, id);
        let branch = self.branch_of(key)?;
        let leaf = self.leaf(branch);
        let before = match leaf.rank(key).checked_sub(1) {
            Some(at) => leaf.keys().get(at).copied(),
            None => self.edge(branch.checked_sub(1)?, true),
        };
        before.map(entry)
    }

    /// The first entry at position `pos` or after it.
    #[inline]
    pub fn first_at_or_after(&self, pos: u64) -> Option<(u64, RequestId)> {
        self.at_or_after(u128::from(pos) << 64)
    }

    /// The first entry that is not before `(pos, id)`, which need not be in the map.
    #[inline]
    pub fn first_from(&self, pos: u64, id: RequestId) -> Option<(u64, RequestId)> {
        self.at_or_after(key(pos, id))
    }

    /// The last entry before position `pos`.
    #[inline]
    pub fn last_before(&self, pos: u64) -> Option<(u64, RequestId)> {
        self.predecessor(pos, RequestId { index: 0, generation: 0 })
    }

    /// The entry with the lowest position.
    #[inline]
    pub fn first(&self) -> Option<(u64, RequestId)> {
        self.edge(0, false).map(entry)
    }

    /// The entry with the highest position.
    #[inline]
    pub fn last(&self) -> Option<(u64, RequestId)> {
        self.edge(self.branches.len().checked_sub(1)?, true).map(entry)
    }

    /// All entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, RequestId)> + '_ {
        (0..self.branches.len()).flat_map(|branch| self.leaf(branch).keys()).map(|&key| entry(key))
    }

    /// Removes all entries and keeps the memory.
    pub fn clear(&mut self) {
        for &leaf in &self.branches {
            self.pool[leaf as usize].truncate(0);
        }
        self.free.append(&mut self.branches);
        self.bounds.clear();
        self.len = 0;
    }

    /// The branch that `key` belongs to; `None` if the map has no leaf.
    #[inline]
    fn branch_of(&self, key: Key) -> Option<usize> {
        match self.branches.len() {
            0 => None,
            1 => Some(0),
            _ => Some(rank(&self.bounds, key)),
        }
    }

    #[inline]
    fn leaf(&self, branch: usize) -> &Leaf {
        &self.pool[self.branches[branch] as usize]
    }

    #[inline]
    fn leaf_mut(&mut self, branch: usize) -> &mut Leaf {
        &mut self.pool[self.branches[branch] as usize]
    }

    #[inline]
    fn at_or_after(&self, key: Key) -> Option<(u64, RequestId)> {
        let branch = self.branch_of(key)?;
        let leaf = self.leaf(branch);
        let here = leaf.keys().get(leaf.rank(key)).copied();
        here.or_else(|| self.edge(branch + 1, false)).map(entry)
    }

    /// First or last key of a branch.
    #[inline]
    fn edge(&self, branch: usize, last: bool) -> Option<Key> {
        let leaf = *self.branches.get(branch)?;
        let keys = self.pool[leaf as usize].keys();
        if last { keys.last().copied() } else { keys.first().copied() }
    }

    /// Inserts a new leaf with `keys` at index `branch`.
    fn add_branch(&mut self, branch: usize, keys: &[Key]) {
        let leaf = self.free.pop().unwrap_or_else(|| {
            self.pool.push(Leaf::EMPTY);
            self.pool.len() as u32 - 1
        });
        self.pool[leaf as usize].append(keys);
        self.branches.insert(branch, leaf);
    }

    #[cold]
    fn insert_into_full(&mut self, branch: usize, at: usize, key: Key) {
        if at == LEAF && branch + 1 == self.branches.len() {
            // A rising sequence: leave full leaves behind instead of half full ones.
            self.bounds.push(self.leaf(branch).keys[LEAF - 1]);
            self.add_branch(branch + 1, &[key]);
            return;
        }
        let leaf = self.leaf_mut(branch);
        let bound = leaf.keys[LEAF / 2 - 1];
        let upper: [Key; LEAF / 2] = core::array::from_fn(|i| leaf.keys[LEAF / 2 + i]);
        leaf.truncate(LEAF / 2);
        self.bounds.insert(branch, bound);
        self.add_branch(branch + 1, &upper);
        if at < LEAF / 2 {
            self.leaf_mut(branch).insert(at, key);
        } else {
            self.leaf_mut(branch + 1).insert(at - LEAF / 2, key);
        }
    }

    /// After a removal: frees an empty leaf, or joins the leaf with a neighbour if both are sparse.
    fn shrink(&mut self, branch: usize) {
        let len = self.leaf(branch).len;
        if len == 0 {
            self.drop_branch(branch);
        } else if branch + 1 < self.branches.len() && len + self.leaf(branch + 1).len <= SPARSE {
            self.join(branch);
        } else if branch > 0 && len + self.leaf(branch - 1).len <= SPARSE {
            self.join(branch - 1);
        }
    }

    /// Moves the entries of the leaf after `branch` into the leaf at `branch`.
    fn join(&mut self, branch: usize) {
        let (to, from) = (self.branches[branch] as usize, self.branches[branch + 1] as usize);
        if let Ok([to, from]) = self.pool.get_disjoint_mut([to, from]) {
            to.append(from.keys());
            self.drop_branch(branch + 1);
        }
    }

    fn drop_branch(&mut self, branch: usize) {
        let leaf = self.branches.remove(branch);
        self.pool[leaf as usize].truncate(0);
        self.free.push(leaf);
        if !self.bounds.is_empty() {
            self.bounds.remove(branch.saturating_sub(1));
        }
    }
}

impl core::fmt::Debug for SectorMap {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests;
