//! What a directory has before the program starts.

use crate::change::{Change, FileId, Kind, Place, ROOT};
use crate::tracee::{Node, node};
use std::collections::HashMap;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The contents of a directory.
pub(crate) struct Snapshot {
    /// The changes that make them.
    pub(crate) changes: Vec<Change>,
    /// Which file each inode is.
    pub(crate) ids: HashMap<Node, FileId>,
    /// The first number that no file has.
    pub(crate) next: FileId,
    /// The bytes of all files.
    pub(crate) bytes: u64,
}

/// Reads a directory with all below it.
///
/// # Errors
/// It cannot be read; it has more than `limit` bytes.
pub(crate) fn of(dir: &Path, limit: u64) -> io::Result<Snapshot> {
    let root = fs::metadata(dir)?;
    if !root.is_dir() {
        return Err(io::Error::from(io::ErrorKind::NotADirectory));
    }
    let ids = HashMap::from([(node(&root), ROOT)]);
    let mut all = Snapshot { changes: Vec::new(), ids, next: ROOT + 1, bytes: 0 };
    let mut open = vec![(dir.to_owned(), ROOT)];
    while let Some((path, id)) = open.pop() {
        // In the order of names, so that the same contents give the same recording.
        let mut paths: Vec<PathBuf> =
            fs::read_dir(&path)?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
        paths.sort();
        for path in paths {
            if let Some(dir) = all.add(&path, id, limit)? {
                open.push((path, dir));
            }
        }
    }
    Ok(all)
}

impl Snapshot {
    /// Adds one name. Returns the number of a directory.
    fn add(&mut self, path: &Path, dir: FileId, limit: u64) -> io::Result<Option<FileId>> {
        let name = path.file_name().unwrap_or_default().as_bytes().to_vec();
        let place = Place { dir, name };
        let found = fs::symlink_metadata(path)?;
        if let Some(id) = self.ids.get(&node(&found)) {
            self.changes.push(Change::Link { id: *id, place });
            return Ok(None);
        }
        let kind = match found.file_type() {
            kind if kind.is_dir() => Kind::Dir,
            kind if kind.is_file() => Kind::File,
            kind if kind.is_symlink() => Kind::Symlink(fs::read_link(path)?.into_os_string().into_vec()),
            // Sockets, pipes and devices have no contents here.
            _ => return Ok(None),
        };
        let id = self.next;
        self.next += 1;
        self.ids.insert(node(&found), id);
        let (is_dir, is_file) = (kind == Kind::Dir, kind == Kind::File);
        self.changes.push(Change::Create { id, place: Some(place), kind, mode: found.mode() & 0o7777 });
        if is_file {
            self.bytes += found.len();
            if self.bytes > limit {
                let what = format!("it has more than {limit} bytes; --limit allows more");
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
            }
            let data = fs::read(path)?;
            if !data.is_empty() {
                self.changes.push(Change::Write { id, at: 0, data });
            }
        }
        Ok(is_dir.then_some(id))
    }
}
