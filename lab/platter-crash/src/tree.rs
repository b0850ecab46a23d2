//! The contents of a directory: names, lengths and bytes.

use crate::change::{Change, FileId, Kind, Place, ROOT, SECTOR, sector_range, sectors, shown};
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{ffi::OsStr, fs};

/// Longest file that a tree can have, in bytes.
pub(crate) const LONGEST: u64 = 1 << 40;
/// A sector of zeroes.
const ZEROES: [u8; SECTOR as usize] = [0; SECTOR as usize];

/// Bytes of a page of memory.
const PAGE: u64 = 4096;
/// Bytes of a file that are compared at once.
const PIECE: usize = 1 << 20;

/// One sector of a file.
type Sector = [u8; SECTOR as usize];

/// A file or directory.
#[derive(Clone, Debug)]
struct Node {
    kind: Kind,
    mode: u32,
    /// Length of a file.
    len: u64,
    /// Sectors of a file that are not zeroes; trees share them until they change.
    sectors: Arc<BTreeMap<u64, Sector>>,
    entries: BTreeMap<Vec<u8>, FileId>,
}

impl Node {
    fn new(kind: Kind, mode: u32) -> Node {
        Node { kind, mode, len: 0, sectors: Arc::default(), entries: BTreeMap::new() }
    }
}

/// A directory with all below it. Files without a name are kept, because a later change may give them one.
#[derive(Clone, Debug)]
pub struct Tree {
    nodes: BTreeMap<FileId, Node>,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree { nodes: BTreeMap::from([(ROOT, Node::new(Kind::Dir, 0o700))]) }
    }
}

impl Tree {
    /// Carries a change out.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Create { id, place, kind, mode } => {
                self.create(*id, kind, *mode);
                if let Some(place) = place {
                    self.set(place, Some(*id));
                }
            }
            Change::Link { id, place } => self.set(place, Some(*id)),
            Change::Remove { place } => self.set(place, None),
            Change::Rename { from, to } => self.rename(from, to),
            Change::Exchange { from, to } => {
                let (one, other) = (self.get(from), self.get(to));
                self.set(from, other);
                self.set(to, one);
            }
            Change::Write { id, at, data } => {
                (0..sectors(*at, data.len())).for_each(|index| self.write_sector(*id, *at, data, index));
                self.extend(*id, at + data.len() as u64);
            }
            Change::Resize { id, len } => self.resize(*id, *len),
            Change::Mode { id, mode } => self.mode(*id, *mode),
            Change::Sync { .. } | Change::SyncRange { .. } | Change::SyncAll | Change::Output { .. } => {}
        }
    }

    fn rename(&mut self, from: &Place, to: &Place) {
        let moved = self.get(from);
        if moved.is_some() && moved != self.get(to) {
            self.set(from, None);
            self.set(to, moved);
        }
    }

    /// A file without a name.
    pub(crate) fn create(&mut self, id: FileId, kind: &Kind, mode: u32) {
        self.nodes.insert(id, Node::new(kind.clone(), mode));
    }

    pub(crate) fn mode(&mut self, id: FileId, mode: u32) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.mode = mode;
        }
    }

    /// What a name stands for.
    pub(crate) fn get(&self, place: &Place) -> Option<FileId> {
        self.nodes.get(&place.dir)?.entries.get(&place.name).copied()
    }

    /// Whether this is a directory.
    pub(crate) fn is_dir(&self, id: FileId) -> bool {
        self.nodes.get(&id).is_some_and(|node| node.kind == Kind::Dir)
    }

    fn set(&mut self, place: &Place, id: Option<FileId>) {
        let Some(dir) = self.nodes.get_mut(&place.dir) else { return };
        match id {
            Some(id) => dir.entries.insert(place.name.clone(), id),
            None => dir.entries.remove(&place.name),
        };
    }

    /// Length of a file.
    pub(crate) fn len(&self, id: FileId) -> u64 {
        self.nodes.get(&id).map_or(0, |node| node.len)
    }

    /// Makes a file at least this long.
    pub(crate) fn extend(&mut self, id: FileId, len: u64) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.len = node.len.max(len.min(LONGEST));
        }
    }

    /// Sets the length of a file. What lies behind it is gone.
    pub(crate) fn resize(&mut self, id: FileId, len: u64) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.len = len.min(LONGEST);
        let data = Arc::make_mut(&mut node.sectors);
        data.split_off(&len.div_ceil(SECTOR));
        if let Some(last) = data.get_mut(&(len / SECTOR)) {
            last[(len % SECTOR) as usize..].fill(0);
        }
    }

    /// Writes the part of some data that lies in its sector number `index`. The length does not change.
    pub(crate) fn write_sector(&mut self, id: FileId, at: u64, data: &[u8], index: u32) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let range = sector_range(at, data.len(), index);
        let start = ((at + range.start as u64) % SECTOR) as usize;
        let number = at / SECTOR + u64::from(index);
        let sector = Arc::make_mut(&mut node.sectors).entry(number).or_insert(ZEROES);
        sector[start..start + range.len()].copy_from_slice(&data[range]);
    }

    /// Bytes of a file, which ends at its length.
    fn sector(&self, id: FileId, number: u64) -> &[u8] {
        let Some(node) = self.nodes.get(&id) else { return &[] };
        let left = node.len.saturating_sub(number * SECTOR).min(SECTOR) as usize;
        &node.sectors.get(&number).unwrap_or(&ZEROES)[..left]
    }

    /// Every name that can be reached, with what it stands for, parents first.
    pub(crate) fn names(&self) -> Vec<(PathBuf, FileId)> {
        let mut found = Vec::new();
        let mut open = vec![(PathBuf::new(), ROOT)];
        let mut seen = vec![ROOT];
        while let Some((path, dir)) = open.pop() {
            for (name, id) in self.nodes.get(&dir).into_iter().flat_map(|node| &node.entries) {
                let path = path.join(OsStr::from_bytes(name));
                if self.is_dir(*id) {
                    // A directory has one name. This only matters for a recording that was made up.
                    if seen.contains(id) {
                        continue;
                    }
                    seen.push(*id);
                    open.push((path.clone(), *id));
                }
                if self.nodes.contains_key(id) {
                    found.push((path, *id));
                }
            }
        }
        found
    }

    /// A number that is the same for the same contents.
    pub(crate) fn fingerprint(&self) -> u128 {
        let mut hashers = [0u8, 1].map(|salt| {
            let mut hasher = DefaultHasher::new();
            salt.hash(&mut hasher);
            hasher
        });
        let mut numbers: HashMap<FileId, usize> = HashMap::new();
        for (path, id) in self.names() {
            let next = numbers.len();
            let number = *numbers.entry(id).or_insert(next);
            for hasher in &mut hashers {
                path.hash(hasher);
                number.hash(hasher);
            }
            if number == next {
                hashers.iter_mut().for_each(|hasher| self.hash_node(id, hasher));
            }
        }
        let [low, high] = hashers.map(|hasher| u128::from(hasher.finish()));
        high << 64 | low
    }

    fn hash_node(&self, id: FileId, hasher: &mut DefaultHasher) {
        let Some(node) = self.nodes.get(&id) else { return };
        (node.mode, node.len, node.kind.word()).hash(hasher);
        if let Kind::Symlink(target) = &node.kind {
            target.hash(hasher);
        }
        for number in node.sectors.keys() {
            let bytes = self.sector(id, *number);
            if bytes.iter().any(|byte| *byte != 0) {
                (number, bytes).hash(hasher);
            }
        }
    }

    /// Writes the contents into an empty directory.
    ///
    /// # Errors
    /// Those of the file system, with the path.
    pub fn write_to(&self, dir: &Path) -> io::Result<()> {
        let mut made: HashMap<FileId, PathBuf> = HashMap::new();
        let names = self.names();
        for (name, id) in &names {
            let path = dir.join(name);
            let Some(node) = self.nodes.get(id) else { continue };
            let result = match (&node.kind, made.get(id)) {
                (_, Some(first)) => fs::hard_link(first, &path),
                (Kind::Dir, None) => fs::create_dir(&path),
                (Kind::Symlink(target), None) => symlink(OsStr::from_bytes(target), &path),
                (Kind::File, None) => self.write_file(*id, node, &path),
            };
            result.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
            made.insert(*id, path);
        }
        // Last, because a directory may forbid what is done in it.
        for (name, id) in names.iter().rev().filter(|(_, id)| self.is_dir(*id)) {
            if let Some(node) = self.nodes.get(id) {
                fs::set_permissions(dir.join(name), fs::Permissions::from_mode(node.mode | 0o700))?;
            }
        }
        Ok(())
    }

    fn write_file(&self, id: FileId, node: &Node, path: &Path) -> io::Result<()> {
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.set_len(node.len)?;
        let mut run: (u64, Vec<u8>) = (0, Vec::new());
        for number in node.sectors.keys() {
            if run.0 + run.1.len() as u64 != number * SECTOR {
                file.write_all_at(&run.1, run.0)?;
                run = (number * SECTOR, Vec::new());
            }
            run.1.extend(self.sector(id, *number));
        }
        file.write_all_at(&run.1, run.0)?;
        file.set_permissions(fs::Permissions::from_mode(node.mode))
    }

    /// The first difference between these contents and a directory of the file system, other than permissions; `None` if
    /// there is none. Sockets, pipes and devices do not count.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn difference(&self, dir: &Path) -> io::Result<Option<String>> {
        let names = self.names();
        for (name, id) in &names {
            if let Some(why) = self.differs(*id, &dir.join(name))? {
                return Ok(Some(format!("{} {why}", name.display())));
            }
        }
        let known: std::collections::HashSet<&PathBuf> = names.iter().map(|(name, _)| name).collect();
        let mut open = vec![PathBuf::new()];
        while let Some(at) = open.pop() {
            for entry in fs::read_dir(dir.join(&at))? {
                let entry = entry?;
                let (path, kind) = (at.join(entry.file_name()), entry.file_type()?);
                if !(kind.is_dir() || kind.is_file() || kind.is_symlink()) {
                    continue;
                }
                if !known.contains(&path) {
                    return Ok(Some(format!("{} exists, and no recorded call made it", path.display())));
                }
                if kind.is_dir() {
                    open.push(path);
                }
            }
        }
        Ok(None)
    }

    fn differs(&self, id: FileId, path: &Path) -> io::Result<Option<String>> {
        let Some(node) = self.nodes.get(&id) else { return Ok(None) };
        let found = match fs::symlink_metadata(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Some("is gone, and no recorded call removed it".to_owned()));
            }
            Err(error) => return Err(error),
        };
        let same = match &node.kind {
            Kind::Dir => found.is_dir(),
            Kind::File => found.is_file(),
            Kind::Symlink(target) => {
                found.is_symlink() && fs::read_link(path)?.into_os_string().into_vec() == *target
            }
        };
        if !same {
            return Ok(Some(format!("is not the {} that the recorded calls made", node.kind)));
        }
        if node.kind != Kind::File {
            return Ok(None);
        }
        if found.size() != node.len {
            let (is, was) = (found.size(), node.len);
            return Ok(Some(format!("has {is} bytes; by the recorded calls it has {was}")));
        }
        self.differing_byte(id, path)
    }

    fn differing_byte(&self, id: FileId, path: &Path) -> io::Result<Option<String>> {
        let file = fs::File::open(path)?;
        let changed = self.changed(id, &file)?;
        let Some((start, data)) = changed.first() else { return Ok(None) };
        let expected = self.sector(id, start / SECTOR);
        let first = data.iter().zip(expected).position(|(is, was)| is != was).unwrap_or(0);
        Ok(Some(format!("has a byte at {} that no recorded call wrote", start + first as u64)))
    }

    /// The parts of a file of the file system that differ from this one, in pieces that cross no page.
    pub(crate) fn changed(&self, id: FileId, file: &fs::File) -> io::Result<Vec<(u64, Vec<u8>)>> {
        let len = self.len(id).min(file.metadata()?.size());
        let mut pages = vec![0; PIECE];
        let mut found: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut at = 0;
        while at < len {
            let piece = &mut pages[..(len - at).min(PIECE as u64) as usize];
            file.read_exact_at(piece, at)?;
            for (index, bytes) in piece.chunks(SECTOR as usize).enumerate() {
                let number = at / SECTOR + index as u64;
                if self.sector(id, number)[..bytes.len()] == *bytes {
                    continue;
                }
                match found.last_mut() {
                    Some((start, data))
                        if *start + data.len() as u64 == number * SECTOR
                            && !(number * SECTOR).is_multiple_of(PAGE) =>
                    {
                        data.extend_from_slice(bytes);
                    }
                    _ => found.push((number * SECTOR, bytes.to_vec())),
                }
            }
            at += PIECE as u64;
        }
        Ok(found)
    }

    /// The paths that a change is about, for people.
    pub(crate) fn path_of(&self, place: &Place) -> String {
        let dirs = self.names();
        let dir = dirs.iter().find(|(_, id)| *id == place.dir).map(|(path, _)| path.as_path());
        let name = shown(&place.name);
        match dir {
            Some(dir) => format!("{}/{name}", dir.display()),
            None => name,
        }
    }

    /// The first name of a file, for people.
    pub(crate) fn name_of(&self, id: FileId) -> String {
        if id == ROOT {
            return ".".to_owned();
        }
        let found = self.names().into_iter().find(|(_, other)| *other == id);
        found.map_or_else(|| "(a file without a name)".to_owned(), |(path, _)| path.display().to_string())
    }
}
