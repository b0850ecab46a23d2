//! Finds what a path names without opening it for I/O.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::SysError;

/// The two kinds of files that can serve as a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file on some file system.
    Regular,
    /// A block device: a whole disk, a partition or a stacked device.
    Block,
}

/// The regular file or block device that a path led to, pinned so that it cannot be replaced by another one
/// between the check and the opening.
#[derive(Debug)]
pub(super) struct Node {
    handle: OwnedFd,
    path: PathBuf,
    pub(super) kind: Kind,
    pub(super) stat: Stat,
}

impl Node {
    /// Follows `path`, symbolic links included. Opening with `O_PATH` neither blocks on a FIFO nor
    /// disturbs a device.
    pub(super) fn find(op: &'static str, path: &Path) -> Result<Node, SysError> {
        let fail = |e: Errno| SysError::from_errno(op, path, e.raw_os_error());
        if path.as_os_str().is_empty() {
            return Err(fail(Errno::NOENT).with_message("the path is empty"));
        }
        let handle =
            rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(|e| match e {
                Errno::NOENT => dangling(fail(e)),
                e => fail(e),
            })?;
        let stat = rustix::fs::fstat(&handle).map_err(fail)?;
        let kind = kind_of(op, path, &stat)?;
        Ok(Node { handle, path: path.to_path_buf(), kind, stat })
    }

    /// Opens the node itself, even if its path names something else by now.
    pub(super) fn open(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        let link = format!("/proc/self/fd/{}", self.handle.as_raw_fd());
        match rustix::fs::open(link, flags, Mode::empty()) {
            // Without /proc there is only the path; make sure it still names the same file.
            Err(Errno::NOENT) => {
                let fd = rustix::fs::open(&self.path, flags, Mode::empty())?;
                let stat = rustix::fs::fstat(&fd)?;
                let same = (stat.st_dev, stat.st_ino) == (self.stat.st_dev, self.stat.st_ino);
                if same { Ok(fd) } else { Err(Errno::STALE) }
            }
            result => result,
        }
    }
}

fn dangling(error: SysError) -> SysError {
    match std::fs::read_link(&error.path) {
        Ok(target) => {
            let message = format!("it is a symbolic link to {}, which does not exist", target.display());
            error.with_message(message).with_help("name the target itself, or create it")
        }
        Err(_) => error.naming_missing_directory(),
    }
}

/// The kind of disk of an inode; any other inode is an error that names its type.
pub(super) fn kind_of(op: &'static str, path: &Path, stat: &Stat) -> Result<Kind, SysError> {
    let (errno, what) = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok(Kind::Regular),
        FileType::BlockDevice => return Ok(Kind::Block),
        FileType::Directory => (libc::EISDIR, "it is a directory"),
        FileType::CharacterDevice => {
            let help = "name a regular file or a block device (of an NVMe disk its namespace, as nvme0n1)";
            let error = SysError::from_errno(op, path, libc::ENOTTY);
            return Err(error.with_message("it is a character device, not a disk").with_help(help));
        }
        FileType::Fifo => (libc::ESPIPE, "it is a FIFO (named pipe), not a disk"),
        FileType::Socket => (libc::ENXIO, "it is a socket, not a disk"),
        _ => (libc::EINVAL, "it is neither a regular file nor a block device"),
    };
    let error = SysError::from_errno(op, path, errno);
    Err(error.with_message(what).with_help("name a regular file or a block device"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_disk_says_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, Mode::from_raw_mode(0o600)).unwrap();
        let socket = dir.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(Node::find("open", Path::new("")).unwrap_err().message.contains("empty"));
        for (path, word) in [
            (dir.path(), "directory"),
            (&fifo, "FIFO"),
            (&socket, "socket"),
            (Path::new("/dev/null"), "character"),
        ] {
            let e = Node::find("open", path).unwrap_err();
            assert!(e.message.contains(word), "{e}");
            assert!(e.help.contains("regular file or a block device"), "{e}");
        }
    }

    #[test]
    fn links_are_followed_and_dangling_ones_named() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let e = Node::find("open", &link).unwrap_err();
        assert!(e.message.contains("symbolic link to") && e.errno == Some(libc::ENOENT), "{e}");
        std::fs::write(&file, b"x").unwrap();
        assert_eq!(Node::find("open", &link).unwrap().kind, Kind::Regular);
    }

    #[test]
    fn a_node_survives_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, b"old").unwrap();
        let node = Node::find("open", &path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, b"another").unwrap();
        let fd = node.open(OFlags::RDONLY).unwrap();
        assert_eq!(rustix::fs::fstat(fd).unwrap().st_size, 3);
    }
}
