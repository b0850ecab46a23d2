//! Nodes of SCSI devices: which interface they have, what their queue takes, and which block device is behind them.

use super::SgError;
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The major number of `/dev/sg*` (`SCSI_GENERIC_MAJOR`).
const GENERIC_MAJOR: u32 = 21;
/// What a queue is taken to take that does not tell.
const DEFAULT_LIMITS: (u64, u64) = (128 << 10, 64);
/// Most bytes of a request, whatever the queue takes: the kernel allocates as much at once for a copy.
const MAX_TRANSFER: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// Which interface a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interface {
    /// `/dev/sg*`.
    Generic,
    /// A block device.
    Block,
    /// `/dev/bsg/*`.
    Bsg,
}

/// A node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) path: PathBuf,
    pub(super) interface: Interface,
    /// Its folder in sysfs, of the SCSI device or the block device.
    sys: PathBuf,
}

impl Node {
    /// A node of which only the name is known.
    #[cfg(test)]
    pub(super) fn generic(path: &str) -> Node {
        Node { path: path.into(), interface: Interface::Generic, sys: PathBuf::new() }
    }

    pub(super) fn find(path: &Path) -> Result<Node, SgError> {
        let cannot = |source| SgError::Open { path: path.to_owned(), source };
        let metadata = fs::metadata(path).map_err(cannot)?;
        let (major, minor) = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
        let kind = metadata.file_type();
        let class = if kind.is_block_device() { "block" } else { "char" };
        let sys = PathBuf::from(format!("/sys/dev/{class}/{major}:{minor}"));
        let subsystem = fs::read_link(sys.join("subsystem")).unwrap_or_default();
        let interface = match subsystem.file_name().and_then(|name| name.to_str()) {
            _ if kind.is_block_device() && sys.join("partition").exists() => {
                let why = "a partition; commands reach all of its disk, so name that";
                return Err(SgError::Unfit(why.to_owned()));
            }
            _ if kind.is_block_device() => Interface::Block,
            _ if !kind.is_char_device() => {
                let why = "no device; it is /dev/sgN, /dev/bsg/H:C:T:L or a block device";
                return Err(SgError::Unfit(why.to_owned()));
            }
            Some("scsi_generic") => Interface::Generic,
            Some("bsg") => Interface::Bsg,
            _ if major == GENERIC_MAJOR => Interface::Generic,
            _ => {
                let why = format!(
                    "a character device {major}:{minor}, which is neither /dev/sgN nor /dev/bsg/H:C:T:L"
                );
                return Err(SgError::Unfit(why));
            }
        };
        Ok(Node { path: path.to_owned(), interface, sys })
    }

    /// Opens it. One that does not block sends commands by `write`.
    pub(super) fn open(&self, write: bool) -> Result<File, SgError> {
        let flags = if self.interface == Interface::Generic { libc::O_NONBLOCK } else { 0 };
        let mut options = File::options();
        options.read(true).write(write).custom_flags(flags);
        options.open(&self.path).map_err(|source| SgError::Open { path: self.path.clone(), source })
    }

    /// The block devices of the kernel for the same disk.
    pub(super) fn blocks(&self) -> Vec<PathBuf> {
        if self.interface == Interface::Block {
            return vec![self.path.clone()];
        }
        let names = fs::read_dir(self.sys.join("device/block")).into_iter().flatten().flatten();
        names.map(|entry| Path::new("/dev").join(entry.file_name())).filter(|path| path.exists()).collect()
    }

    /// Most bytes and segments of a request. Misaligned memory may need a page more on both sides of each piece.
    pub(super) fn limits(&self) -> (u32, u16) {
        let queue = match self.interface {
            Interface::Block => Some(self.sys.join("queue")),
            _ => fs::read_dir(self.sys.join("device/block"))
                .ok()
                .and_then(|mut entries| entries.next()?.ok())
                .map(|entry| entry.path().join("queue")),
        };
        let number = |name: &str| {
            let text = fs::read_to_string(queue.as_ref()?.join(name)).ok()?;
            text.trim().parse::<u64>().ok().filter(|number| *number > 0)
        };
        let bytes = number("max_hw_sectors_kb").map_or(DEFAULT_LIMITS.0, |kib| kib << 10);
        let segments = number("max_segments").unwrap_or(DEFAULT_LIMITS.1);
        limits(bytes, segments, self.interface)
    }
}

fn limits(bytes: u64, segments: u64, interface: Interface) -> (u32, u16) {
    let most = match interface {
        Interface::Bsg => 1,
        _ => (segments / 4).clamp(1, 512),
    };
    let bytes = bytes.min(MAX_TRANSFER).min((segments / 2).max(1) * PAGE);
    (bytes as u32, most as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_always_fit_the_segments_of_the_queue() {
        for (bytes, segments) in [(4 << 20, 2048), (512 << 10, 126), (32 << 10, 128), (4 << 20, 1)] {
            let (most, pieces) = limits(bytes, segments, Interface::Generic);
            let pages = u64::from(most) / PAGE + 2 * u64::from(pieces);
            assert!(pages <= segments || segments < 4, "{bytes} {segments}: {most} {pieces}");
            assert_eq!(limits(bytes, segments, Interface::Bsg), (most, 1));
        }
        assert_eq!(limits(4 << 20, 2048, Interface::Block), (1 << 20, 512));
    }

    #[test]
    fn what_has_no_such_interface_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(Node::find(file.path()).unwrap_err().to_string().contains("no device"));
        assert!(Node::find(Path::new("/dev/null")).unwrap_err().to_string().contains("1:3"));
        let missing = Node::find(&file.path().join("x")).unwrap_err().to_string();
        assert!(missing.contains("/x"), "{missing}");
    }
}
