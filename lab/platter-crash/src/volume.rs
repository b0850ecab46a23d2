//! What a power cut may leave of the changes before it, by the rules of a file system.

use crate::change::{Change, FileId, Place, SECTOR, sectors};
use crate::recording::Recording;
use crate::tree::Tree;
use std::collections::{BTreeSet, HashMap};

mod ordered;

/// Which changes are durable, and which may be lost together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Semantics {
    /// Only what POSIX promises: the contents of a file after `fsync` of the file, a name after `fsync` of its directory.
    Strict,
    /// ext4 with its default `data=ordered`: names and lengths in the order of the calls.
    Ext4Ordered,
    /// As LazyFS: names are durable at once, contents that were not synced are lost as a whole.
    Lazyfs,
}

impl Semantics {
    /// All, as the command lists them.
    pub const ALL: [Semantics; 3] = [Semantics::Strict, Semantics::Ext4Ordered, Semantics::Lazyfs];

    /// Its name as an argument.
    pub fn name(self) -> &'static str {
        match self {
            Semantics::Strict => "strict",
            Semantics::Ext4Ordered => "ext4-ordered",
            Semantics::Lazyfs => "lazyfs",
        }
    }
}

/// Parts of changes that a power cut takes: the number of the step, and the part of its change. The sectors of a write are its
/// first parts; the last one is the length that the file gets by it. Every other change has one part.
pub type Lost = BTreeSet<(usize, u32)>;

/// A change that is not durable.
#[derive(Clone, Debug)]
pub(crate) struct Pending<'r> {
    pub(crate) step: usize,
    pub(crate) change: &'r Change,
    /// Directories that have to be synced for it to be durable.
    owed: BTreeSet<FileId>,
    /// A directory that it gives another name.
    moved: Option<FileId>,
    /// The file that gets the name of another one.
    pub(crate) replacing: Option<FileId>,
    /// Length of the file beyond which its data takes new blocks.
    pub(crate) allocated: u64,
    /// Data behind this position was cut off by a later change that is durable.
    pub(crate) end: u64,
    /// Sectors of it that are durable.
    settled: BTreeSet<u32>,
}

/// Number of parts of a change.
pub(crate) fn parts(change: &Change) -> u32 {
    match change {
        Change::Write { at, data, .. } => sectors(*at, data.len()) + 1,
        _ => 1,
    }
}

impl Pending<'_> {
    pub(crate) fn is_name(&self) -> bool {
        !self.change.places().is_empty()
    }

    pub(crate) fn is_data_of(&self, id: FileId) -> bool {
        !self.is_name() && self.change.file() == Some(id)
    }

    pub(crate) fn all_parts(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        let left = (0..parts(self.change)).filter(|part| !self.settled.contains(part));
        left.map(|part| (self.step, part))
    }

    fn shares_name(&self, other: &Pending<'_>) -> bool {
        let mine = self.change.places();
        other.change.places().iter().any(|place| mine.contains(place))
    }

    /// Whether this change needs an earlier one: it is of the same name, or in a directory that the earlier one moved.
    fn needs(&self, earlier: &Pending<'_>) -> bool {
        let inside = |dir| self.change.places().iter().any(|place| place.dir == dir);
        self.shares_name(earlier) || earlier.moved.is_some_and(|dir| self.moved == Some(dir) || inside(dir))
    }

    /// Carries out what is not lost of it.
    fn apply(&self, tree: &mut Tree, semantics: Semantics, lost: &Lost) {
        let kept = |part| !self.settled.contains(&part) && !lost.contains(&(self.step, part));
        let Change::Write { id, at, data } = self.change else {
            if kept(0) {
                apply_one(tree, self.change);
            }
            return;
        };
        let data = &data[..self.end.saturating_sub(*at).min(data.len() as u64) as usize];
        let count = sectors(*at, data.len());
        for part in (0..count).filter(|part| kept(*part)) {
            tree.write_sector(*id, *at, data, part);
            if semantics == Semantics::Ext4Ordered && self.is_new_block(*at, part) {
                let end = (at / SECTOR + u64::from(part) + 1) * SECTOR;
                tree.extend(*id, end.min(at + data.len() as u64));
            }
        }
        if kept(parts(self.change) - 1) {
            tree.extend(*id, (at + data.len() as u64).min(self.end));
        }
    }

    /// Whether a sector of a write takes a new block.
    pub(crate) fn is_new_block(&self, at: u64, part: u32) -> bool {
        (at / SECTOR + u64::from(part)) * SECTOR >= self.allocated
    }
}

/// Carries a change of names or of a length out. A new file exists already, without a name.
fn apply_one(tree: &mut Tree, change: &Change) {
    match change {
        Change::Create { id, place: Some(place), .. } => {
            tree.apply(&Change::Link { id: *id, place: place.clone() });
        }
        change => tree.apply(change),
    }
}

/// A directory at some point of its history: what is durable of it, and what is not.
#[derive(Clone, Debug)]
pub struct Volume<'r> {
    semantics: Semantics,
    durable: Tree,
    /// With all changes, durable or not.
    live: Tree,
    pub(crate) pending: Vec<Pending<'r>>,
    allocated: HashMap<FileId, u64>,
    steps: usize,
}

/// Bytes of a block of the file system.
pub(crate) const BLOCK: u64 = 4096;

impl<'r> Volume<'r> {
    /// The directory before the program started.
    pub fn new(recording: &'r Recording, semantics: Semantics) -> Volume<'r> {
        let mut durable = Tree::default();
        recording.initial.iter().for_each(|change| durable.apply(change));
        let live = durable.clone();
        Volume { semantics, durable, live, pending: Vec::new(), allocated: HashMap::new(), steps: 0 }
    }

    /// The directory after some steps of a recording.
    pub fn after(recording: &'r Recording, semantics: Semantics, steps: usize) -> Volume<'r> {
        let mut volume = Volume::new(recording, semantics);
        recording.steps.iter().take(steps).for_each(|step| volume.advance(&step.change));
        volume
    }

    /// The directory as the program sees it.
    pub fn live(&self) -> &Tree {
        &self.live
    }

    /// The next step.
    pub fn advance(&mut self, change: &'r Change) {
        if let Change::Create { id, kind, mode, .. } = change {
            self.durable.create(*id, kind, *mode);
            self.allocated.insert(*id, 0);
        }
        match change {
            Change::Sync { id } => self.sync(*id),
            Change::SyncRange { id, at, len } => self.sync_range(*id, *at, *len),
            Change::SyncAll => self.settle(|_| true),
            Change::Mode { id, mode } => self.durable.mode(*id, *mode),
            Change::Output { .. } | Change::Create { place: None, .. } => {}
            change if self.semantics == Semantics::Lazyfs && !matches!(change, Change::Write { .. }) => {
                apply_one(&mut self.durable, change);
                if let Change::Resize { id, len } = change {
                    clip(&mut self.pending, *id, *len);
                }
            }
            change => self.push(change),
        }
        self.live.apply(change);
        self.steps += 1;
    }

    fn push(&mut self, change: &'r Change) {
        let dir_at = |place: &Place| self.live.get(place).filter(|id| self.live.is_dir(*id));
        let (moved, replacing) = match change {
            Change::Rename { from, to } => {
                let replaced = self.live.get(to).is_some();
                (dir_at(from), self.live.get(from).filter(|_| replaced))
            }
            Change::Exchange { from, to } => (dir_at(from).or(dir_at(to)), None),
            _ => (None, None),
        };
        let file = change.file().unwrap_or_default();
        let allocated = match self.allocated.get(&file) {
            Some(end) => *end,
            None => self.durable.len(file).next_multiple_of(BLOCK),
        };
        if let Change::Resize { len, .. } = change {
            self.allocated.insert(file, allocated.min(len.next_multiple_of(BLOCK)));
        }
        let owed = change.places().into_iter().map(|place| place.dir).collect();
        let step = self.steps;
        let (end, settled) = (u64::MAX, BTreeSet::new());
        self.pending.push(Pending { step, change, owed, moved, replacing, allocated, end, settled });
    }

    fn sync(&mut self, id: FileId) {
        if self.semantics == Semantics::Ext4Ordered {
            return ordered::sync(self, id);
        }
        if !self.durable.is_dir(id) {
            return self.settle(|pending| pending.is_data_of(id));
        }
        let mut ready: Vec<bool> = Vec::new();
        for pending in &mut self.pending {
            pending.owed.remove(&id);
            ready.push(pending.is_name() && pending.owed.is_empty());
        }
        // What was done to the same name before cannot come after it.
        for later in (0..ready.len()).rev().filter(|at| self.pending[*at].is_name()) {
            let needed = |earlier: &usize| self.pending[later].shares_name(&self.pending[*earlier]);
            let needed: Vec<usize> =
                if ready[later] { (0..later).filter(needed).collect() } else { Vec::new() };
            needed.into_iter().for_each(|earlier| ready[earlier] = true);
        }
        let steps: BTreeSet<usize> = self
            .pending
            .iter()
            .zip(ready)
            .filter(|(_, ready)| *ready)
            .map(|(pending, _)| pending.step)
            .collect();
        self.settle(|pending| steps.contains(&pending.step));
    }

    fn sync_range(&mut self, id: FileId, at: u64, len: u64) {
        if self.semantics == Semantics::Ext4Ordered {
            ordered::commit(self);
        }
        // The length of the file is durable with its data. First, because it cuts off what was written before.
        self.settle(|pending| matches!(pending.change, Change::Resize { id: file, .. } if *file == id));
        let end = at.saturating_add(len);
        for pending in &mut self.pending {
            let Change::Write { id: file, at: from, data } = pending.change else { continue };
            let data = &data[..pending.end.saturating_sub(*from).min(data.len() as u64) as usize];
            let first = from / SECTOR;
            let inside = |part: &u32| {
                let sector = (first + u64::from(*part)) * SECTOR;
                *file == id && sector >= at / SECTOR * SECTOR && sector < end
            };
            let new: Vec<u32> = (0..sectors(*from, data.len())).filter(inside).collect();
            for part in new {
                if !pending.settled.insert(part) {
                    continue;
                }
                self.durable.write_sector(id, *from, data, part);
                let written = ((first + u64::from(part) + 1) * SECTOR).min(from + data.len() as u64);
                self.durable.extend(id, written);
            }
        }
    }

    /// Makes changes durable.
    pub(crate) fn settle(&mut self, which: impl Fn(&Pending<'_>) -> bool) {
        let (done, left): (Vec<_>, Vec<_>) = self.pending.drain(..).partition(|pending| which(pending));
        self.pending = left;
        for pending in done {
            pending.apply(&mut self.durable, self.semantics, &Lost::new());
            match pending.change {
                Change::Write { id, .. } => {
                    let end = self.durable.len(*id).next_multiple_of(BLOCK);
                    let known = self.allocated.entry(*id).or_insert(end);
                    *known = (*known).max(end);
                }
                Change::Resize { id, len } => {
                    let earlier = |other: &&mut Pending<'_>| other.step < pending.step;
                    let cut = self.pending.iter_mut().filter(earlier).filter(|other| other.is_data_of(*id));
                    cut.for_each(|other| other.end = other.end.min(*len));
                }
                _ => {}
            }
        }
    }

    /// Everything that may be lost.
    pub fn everything(&self) -> Lost {
        self.pending.iter().flat_map(Pending::all_parts).collect()
    }

    /// Adds what cannot survive without the parts that are lost, by the rules of the file system.
    pub fn close(&self, lost: &mut Lost) {
        match self.semantics {
            Semantics::Strict => self.close_names(lost),
            Semantics::Ext4Ordered => ordered::close(&self.pending, lost),
            Semantics::Lazyfs => *lost = self.everything(),
        }
    }

    fn close_names(&self, lost: &mut Lost) {
        let names: Vec<&Pending<'_>> = self.pending.iter().filter(|pending| pending.is_name()).collect();
        for (at, later) in names.iter().enumerate() {
            let is_lost = |earlier: &&&Pending<'_>| lost.contains(&(earlier.step, 0)) && later.needs(earlier);
            if names[..at].iter().any(|earlier| is_lost(&earlier)) {
                lost.insert((later.step, 0));
            }
        }
    }

    /// What a power cut leaves that takes these parts, closed by [`Volume::close`].
    pub fn without(&self, lost: &Lost) -> Tree {
        let mut tree = self.durable.clone();
        self.pending.iter().for_each(|pending| pending.apply(&mut tree, self.semantics, lost));
        tree
    }
}

/// Drops what lies behind the new end of a file.
fn clip(pending: &mut [Pending<'_>], id: FileId, len: u64) {
    pending.iter_mut().filter(|other| other.is_data_of(id)).for_each(|other| other.end = other.end.min(len));
}

#[cfg(test)]
mod tests;
