//! What calls of a program change in a directory, as data.

use std::fmt;

/// A file or directory of the recording, whatever its names are. It is never used again for another one.
pub type FileId = u32;

/// The recorded directory itself.
pub const ROOT: FileId = 0;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The directory.
    pub dir: FileId,
    /// The name in it.
    pub name: Vec<u8>,
}

/// What a name may stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link to this path.
    Symlink(Vec<u8>),
}

/// One change of the directory, or a point in the order of changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new file, directory or symbolic link, with its first name; without one for `O_TMPFILE`.
    Create {
        /// The new file.
        id: FileId,
        /// Its name.
        place: Option<Place>,
        /// What it is.
        kind: Kind,
        /// Permissions.
        mode: u32,
    },
    /// A further name.
    Link {
        /// The file.
        id: FileId,
        /// Its new name.
        place: Place,
    },
    /// A name is removed: `unlink`, `rmdir`.
    Remove {
        /// The name.
        place: Place,
    },
    /// A name changes; what had the new name before is replaced.
    Rename {
        /// The old name.
        from: Place,
        /// The new name.
        to: Place,
    },
    /// Two names are exchanged.
    Exchange {
        /// One name.
        from: Place,
        /// The other.
        to: Place,
    },
    /// Bytes of a file.
    Write {
        /// The file.
        id: FileId,
        /// The position of the first byte.
        at: u64,
        /// The bytes.
        data: Vec<u8>,
    },
    /// The length of a file.
    Resize {
        /// The file.
        id: FileId,
        /// The new length.
        len: u64,
    },
    /// Permissions.
    Mode {
        /// The file.
        id: FileId,
        /// Its new permissions.
        mode: u32,
    },
    /// A file or directory was made durable.
    Sync {
        /// The file.
        id: FileId,
    },
    /// A range of a file was made durable: `msync`.
    SyncRange {
        /// The file.
        id: FileId,
        /// The position of the first byte.
        at: u64,
        /// The number of bytes.
        len: u64,
    },
    /// The whole file system was made durable.
    SyncAll,
    /// The program has written to its standard output.
    Output {
        /// What it has written.
        text: Vec<u8>,
    },
}

/// One change, with the call that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The thread that made the call.
    pub thread: u32,
    /// The name of the system call.
    pub call: String,
    /// What it has changed.
    pub change: Change,
}

impl Change {
    /// The file whose contents or permissions it makes.
    pub(crate) fn file(&self) -> Option<FileId> {
        match self {
            Change::Create { id, .. }
            | Change::Write { id, .. }
            | Change::Resize { id, .. }
            | Change::Mode { id, .. } => Some(*id),
            _ => None,
        }
    }

    /// The names that it changes, and the other one of an exchange or a rename.
    pub(crate) fn places(&self) -> Vec<&Place> {
        match self {
            Change::Create { place, .. } => place.iter().collect(),
            Change::Link { place, .. } | Change::Remove { place } => vec![place],
            Change::Rename { from, to } | Change::Exchange { from, to } => vec![from, to],
            _ => Vec::new(),
        }
    }

    /// Bytes of memory that it takes, about.
    pub(crate) fn bytes(&self) -> u64 {
        let data = match self {
            Change::Write { data, .. } => data.len(),
            Change::Output { text } => text.len(),
            _ => 0,
        };
        (data + size_of::<Step>()) as u64
    }
}

/// Bytes of which a write survives wholly or not at all.
pub const SECTOR: u64 = 512;

/// Number of sectors that a range touches.
pub(crate) fn sectors(at: u64, len: usize) -> u32 {
    if len == 0 {
        return 0;
    }
    ((at + len as u64).div_ceil(SECTOR) - at / SECTOR) as u32
}

/// The part of the data of a write that lies in its sector number `index`.
pub(crate) fn sector_range(at: u64, len: usize, index: u32) -> std::ops::Range<usize> {
    let first = (at / SECTOR + u64::from(index)) * SECTOR;
    let start = first.max(at) - at;
    let end = (first + SECTOR).min(at + len as u64) - at;
    start as usize..end as usize
}

/// Bytes as text, on one line and of bounded length.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const MOST: usize = 80;
    let text = String::from_utf8_lossy(bytes);
    let mut line: String = text.trim_end_matches('\n').escape_debug().take(MOST).collect();
    if text.chars().count() > MOST {
        line.push('…');
    }
    line
}

impl Kind {
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Kind::File => "file",
            Kind::Dir => "directory",
            Kind::Symlink(_) => "symbolic link",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_divided_at_sectors() {
        assert_eq!((sectors(0, 0), sectors(0, 512), sectors(511, 2), sectors(100, 1024)), (0, 1, 2, 3));
        assert_eq!(sector_range(100, 1024, 0), 0..412);
        assert_eq!(sector_range(100, 1024, 1), 412..924);
        assert_eq!(sector_range(100, 1024, 2), 924..1024);
    }

    #[test]
    fn long_output_is_cut() {
        assert_eq!(shown(b"one\n"), "one");
        assert!(shown(&[b'x'; 300]).ends_with('…'));
    }
}
