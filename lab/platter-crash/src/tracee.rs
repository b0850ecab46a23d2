//! What a stopped thread of another process has in its memory, its descriptors and its paths.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A file of the file system: device and inode.
pub(crate) type Node = (u64, u64);

/// Longest path that the kernel takes.
const PATH_MAX: usize = 4096;
/// Most segments of a vector.
const SEGMENTS: u64 = 1024;
/// Bytes that are read at once where the length is not known: a page, so that reading does not cross into one that is
/// not there.
const PAGE: u64 = 4096;

/// A stopped thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tracee(pub(crate) i32);

/// Position and flags of an open file.
pub(crate) struct Open {
    pub(crate) position: u64,
    flags: i32,
}

impl Open {
    pub(crate) fn has(&self, flag: i32) -> bool {
        self.flags & flag == flag
    }
}

pub(crate) fn node(found: &Metadata) -> Node {
    (found.dev(), found.ino())
}

impl Tracee {
    fn proc(self, what: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{what}", self.0))
    }

    /// Bytes of its memory.
    pub(crate) fn memory(self, at: u64, len: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len as usize];
        File::open(self.proc("mem"))?.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }

    pub(crate) fn word(self, at: u64) -> io::Result<u64> {
        let bytes = self.memory(at, 8)?;
        Ok(bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
    }

    /// The first `len` bytes of a vector of segments.
    pub(crate) fn vector(self, at: u64, count: u64, len: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for index in 0..count.min(SEGMENTS) {
            let left = len - bytes.len() as u64;
            if left == 0 {
                break;
            }
            let (base, size) = (self.word(at + 16 * index)?, self.word(at + 16 * index + 8)?);
            bytes.extend(self.memory(base, size.min(left))?);
        }
        Ok(bytes)
    }

    /// A text that ends with a zero byte.
    fn text(self, at: u64) -> io::Result<Vec<u8>> {
        let memory = File::open(self.proc("mem"))?;
        let mut text = Vec::new();
        while text.len() < PATH_MAX {
            let from = at + text.len() as u64;
            let mut piece = vec![0; (PAGE - from % PAGE) as usize];
            let got = memory.read_at(&mut piece, from)?;
            piece.truncate(got);
            if let Some(end) = piece.iter().position(|byte| *byte == 0) {
                text.extend(&piece[..end]);
                return Ok(text);
            }
            if got == 0 {
                break;
            }
            text.extend(piece);
        }
        Err(io::Error::from(io::ErrorKind::InvalidData))
    }

    /// The path that leads to an open file from this process.
    pub(crate) fn descriptor(self, fd: u64) -> PathBuf {
        self.proc(&format!("fd/{}", fd as i32))
    }

    /// What a descriptor belongs to.
    pub(crate) fn opened(self, fd: u64) -> io::Result<Metadata> {
        fs::metadata(self.descriptor(fd))
    }

    /// Position and flags of a descriptor.
    pub(crate) fn open_file(self, fd: u64) -> io::Result<Open> {
        let text = fs::read_to_string(self.proc(&format!("fdinfo/{}", fd as i32)))?;
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let position = value("pos:").and_then(|text| text.parse().ok());
        let flags = value("flags:").and_then(|text| i32::from_str_radix(text, 8).ok());
        match (position, flags) {
            (Some(position), Some(flags)) => Ok(Open { position, flags }),
            _ => Err(io::Error::from(io::ErrorKind::InvalidData)),
        }
    }

    /// The path that a call names, as this process can use it: its directory without links, and the last name as it is.
    pub(crate) fn path(self, dir: Option<u64>, at: u64) -> io::Result<PathBuf> {
        let text = self.text(at)?;
        let given = Path::new(std::ffi::OsStr::from_bytes(&text));
        let base = match dir {
            Some(fd) if fd as i32 != libc::AT_FDCWD => self.descriptor(fd),
            _ => self.proc("cwd"),
        };
        if text.is_empty() {
            return Ok(base);
        }
        let mine =
            ["/proc/self", "/proc/thread-self"].into_iter().find_map(|own| given.strip_prefix(own).ok());
        let whole = match mine {
            Some(rest) => self.proc("").join(rest),
            None => fs::canonicalize(&base)?.join(given),
        };
        match (whole.parent(), whole.file_name()) {
            (Some(parent), Some(name)) if !text.ends_with(b"/.") => Ok(fs::canonicalize(parent)?.join(name)),
            _ => fs::canonicalize(whole),
        }
    }

    /// The parts of files that are mapped in a range of its memory: file, position, bytes.
    pub(crate) fn mapped(self, start: u64, len: u64) -> io::Result<Vec<(Node, u64, u64)>> {
        let text = fs::read_to_string(self.proc("maps"))?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let part = |line: &str| {
            let mut words = line.split_whitespace();
            let (first, end) = words.next()?.split_once('-')?;
            let (first, end) = (hex(first)?, hex(end)?);
            let (offset, device) = (hex(words.nth(1)?)?, words.next()?.split_once(':')?);
            let device = libc::makedev(hex(device.0)? as u32, hex(device.1)? as u32);
            let inode = words.next()?.parse().ok()?;
            let (from, to) = (first.max(start), end.min(start.saturating_add(len)));
            (from < to && inode != 0).then(|| ((device, inode), offset + (from - first), to - from))
        };
        Ok(text.lines().filter_map(part).collect())
    }
}
