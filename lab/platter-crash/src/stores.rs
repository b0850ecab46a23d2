//! Files that are mapped to be written to: no call is made for a store, so the files are looked at when it counts.

use crate::change::{Change, FileId};
use crate::tree::Tree;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// The mapped files, each with its contents as they were last seen.
#[derive(Default)]
pub(crate) struct Stores {
    files: BTreeMap<FileId, (File, Tree)>,
}

impl Stores {
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// A file is mapped.
    pub(crate) fn map(&mut self, id: FileId, path: &Path) -> io::Result<()> {
        if let Entry::Vacant(place) = self.files.entry(id) {
            let data = fs::read(path)?;
            let mut tree = Tree::default();
            tree.create(id, &crate::change::Kind::File, 0);
            tree.apply(&Change::Write { id, at: 0, data });
            place.insert((File::open(path)?, tree));
        }
        Ok(())
    }

    /// A call has changed something.
    pub(crate) fn apply(&mut self, change: &Change) {
        if let Some((_, tree)) = change.file().and_then(|id| self.files.get_mut(&id)) {
            tree.apply(change);
        }
    }

    /// What was stored since the last time.
    pub(crate) fn changed(&self) -> io::Result<Vec<Change>> {
        let mut all = Vec::new();
        for (id, (file, tree)) in &self.files {
            let id = *id;
            all.extend(tree.changed(id, file)?.into_iter().map(|(at, data)| Change::Write { id, at, data }));
        }
        Ok(all)
    }
}
