//! Opening a disk so that it is safe to do I/O on.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use super::lock::{self, LockGuard, Patience};
use super::node::Node;
use super::opened::{FdReader, OpenedDisk, without_readahead};
use super::signature::{self, SignaturePolicy, refuse_if_signature};
use super::{Kind, Probe, SysError, direct, explain, inuse, space};
use crate::ofd;

/// Whether to bypass the kernel's page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direct {
    /// Use the page cache.
    Off,
    /// Bypass it if possible; [`OpenedDisk::why_not_direct`] says why not.
    #[default]
    Prefer,
    /// Bypass it or fail.
    Require,
}

/// Which other programs may have the disk open at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharing {
    /// A writer has exclusive use; readers share the disk with each other, but not with such a writer.
    #[default]
    ByAccess,
    /// Exclusive use, even for reading.
    Exclusive,
    /// Shared with every other sharer, even for writing; the programs must agree on who writes where.
    Shared,
}

/// Options for opening a disk. The default is read-only, with direct I/O if possible.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Open for reading.
    pub read: bool,
    /// Open for writing.
    pub write: bool,
    /// Whether to bypass the page cache.
    pub direct: Direct,
    /// Which other programs may have it open. Only programs that lock (`flock(2)`) respect this, except that
    /// the kernel itself does not mount or claim a block device that is opened exclusively for writing.
    pub sharing: Sharing,
    /// Open it even if it is mounted, claimed or locked; [`OpenedDisk::overridden`] lists by whom.
    pub allow_in_use: bool,
    /// Whether to refuse to write to a disk that has contents.
    pub signatures: SignaturePolicy,
    /// Create the file with this many bytes if it is missing or empty. If it exists, it must have exactly
    /// this size.
    pub create: Option<u64>,
    /// Allocate the space of a created file at once, so that writing cannot run out of it.
    pub reserve: bool,
}

platter_block::setters! {
    OpenOptions {
        read, with_read: bool;
        write, with_write: bool;
        direct, with_direct: Direct;
        sharing, with_sharing: Sharing;
        allow_in_use, with_allow_in_use: bool;
        signatures, with_signatures: SignaturePolicy;
        create, with_create: Option<u64>;
        reserve, with_reserve: bool;
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            read: true,
            write: false,
            direct: Direct::default(),
            sharing: Sharing::default(),
            allow_in_use: false,
            signatures: SignaturePolicy::default(),
            create: None,
            reserve: false,
        }
    }
}

impl OpenOptions {
    /// Options for reading only, shared with other readers.
    pub fn read_only() -> Self {
        OpenOptions::default()
    }

    /// Options for reading and writing, with exclusive use.
    pub fn read_write() -> Self {
        OpenOptions { write: true, ..OpenOptions::default() }
    }

    /// Opens the regular file or block device that `path` names, following symbolic links.
    ///
    /// # Errors
    /// The disk is missing, of another kind, empty, not permitted, in use (unless
    /// [`allow_in_use`](Self::allow_in_use)), has contents and the signature policy refuses, does not have
    /// the requested size, or does not support direct I/O although it is required.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<OpenedDisk, SysError> {
        let path = path.as_ref();
        self.check_arguments(path)?;
        let (node, created) = self.find_or_create(path)?;
        let result = self.open_node(path, &node);
        // A file that another process has locked since belongs to that process now.
        if created && result.as_ref().is_err_and(|e| e.op != "lock") {
            // The first error is the one to report.
            let _ = std::fs::remove_file(path);
        }
        result
    }

    fn check_arguments(&self, path: &Path) -> Result<(), SysError> {
        let bad = |message: &str, help: &str| Err(SysError::new("open", path, message, help));
        if !self.read && !self.write {
            return bad("neither reading nor writing was requested", "request one or both");
        }
        match self.create {
            Some(_) if !self.write => bad("creating a file needs writing", "open it for writing too"),
            Some(0) => bad("a disk of 0 bytes is useless", "give a size of at least 512 bytes"),
            _ => Ok(()),
        }
    }

    fn find_or_create(&self, path: &Path) -> Result<(Node, bool), SysError> {
        let missing = match Node::find("open", path) {
            Err(e) if e.errno == Some(libc::ENOENT) && self.create.is_some() => e,
            found => return found.map(|node| (node, false)),
        };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::from_raw_mode(0o666)) {
            Ok(_) => Node::find("open", path).map(|node| (node, true)),
            // Another process created it first, or a symbolic link has no target.
            Err(Errno::EXIST) => Node::find("open", path).map(|node| (node, false)).map_err(|_| missing),
            Err(e) => Err(SysError::from_errno("create", path, e.raw_os_error()).naming_missing_directory()),
        }
    }

    fn exclusive(&self) -> bool {
        match self.sharing {
            Sharing::ByAccess => self.write,
            Sharing::Exclusive => true,
            Sharing::Shared => false,
        }
    }

    /// What QEMU is told of this opening.
    fn as_user(&self) -> ofd::Use {
        match self.sharing {
            _ if self.exclusive() => ofd::Use::exclusive(self.write),
            Sharing::Shared => ofd::Use::shared(self.write),
            Sharing::ByAccess | Sharing::Exclusive => ofd::Use::READS,
        }
    }

    fn open_node(&self, path: &Path, node: &Node) -> Result<OpenedDisk, SysError> {
        let mut overridden = self.check_users(path, node)?;
        let (fd, refused) = self.open_claimed(path, node)?;
        let locking = (self.exclusive(), self.write, self.as_user());
        let lock = match lock::take(&fd, path, node.kind, &node.stat, locking) {
            Err(e) if self.allow_in_use => {
                overridden.push(e.message.clone());
                LockGuard::none(e.message)
            }
            lock => lock?,
        };
        self.size_if_empty(path, node, &fd)?;
        let mut probe = Probe::of(&fd, path)?;
        self.check_size(path, &probe)?;
        if let (Kind::Block, Some(kernel)) = (probe.kind, &probe.kernel) {
            kernel.refuse_zones(path, self.write)?;
        }
        if self.write && probe.read_only == Some(true) {
            return Err(explain::open(path, node, Errno::ROFS, self.write));
        }
        if self.write && self.signatures.applies_to(node.kind) {
            self.check_signatures(path, node, probe.size_bytes)?;
        }
        let why_not_direct = match self.direct {
            Direct::Off => None,
            _ if refused => Some(format!("the {} refuses O_DIRECT", probe.place())),
            _ => direct::settle(fd.as_fd(), &mut probe, self.read).err(),
        };
        if why_not_direct.is_some() && !refused {
            direct::turn_off(&fd).map_err(|e| explain::open(path, node, e, self.write))?;
        }
        if let (Direct::Require, Some(why)) = (self.direct, &why_not_direct) {
            let help = "use a file system that can, or allow buffered I/O (direct=prefer or off)";
            return Err(SysError::new("open for direct I/O", path, why.clone(), help));
        }
        let direct = self.direct != Direct::Off && why_not_direct.is_none();
        let unaligned = !probe.size_bytes.is_multiple_of(probe.dio_offset_align.into());
        let buffered = match direct && node.kind == Kind::Regular && unaligned {
            true => {
                let fd = node.open(self.access()).map_err(|e| explain::open(path, node, e, self.write))?;
                Some(without_readahead(fd, probe.size_bytes))
            }
            false => None,
        };
        let path = path.to_path_buf();
        Ok(OpenedDisk { path, fd, buffered, direct, why_not_direct, probe, lock, overridden })
    }

    fn access(&self) -> OFlags {
        match (self.read, self.write) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            _ => OFlags::RDONLY,
        }
    }

    /// Refuses to write to a disk that is mounted or otherwise in use. The kernel checks again for block
    /// devices opened exclusively, and knows users that cannot be seen from here.
    fn check_users(&self, path: &Path, node: &Node) -> Result<Vec<String>, SysError> {
        let users = if self.write { inuse::users(node) } else { Vec::new() };
        match users.is_empty() || self.allow_in_use {
            true => Ok(users),
            false => Err(explain::in_use(path, &users)),
        }
    }

    /// Opens with `O_EXCL` (which claims block devices) and `O_DIRECT` as requested. The second value is
    /// whether `O_DIRECT` was refused.
    fn open_claimed(&self, path: &Path, node: &Node) -> Result<(OwnedFd, bool), SysError> {
        let mut flags = self.access();
        if node.kind == Kind::Block && self.exclusive() {
            flags |= OFlags::EXCL;
        }
        if self.direct != Direct::Off {
            flags |= OFlags::DIRECT;
        }
        let mut refused = false;
        let patience = Patience::with(node.kind);
        loop {
            match node.open(flags) {
                Ok(fd) => return Ok((fd, refused)),
                Err(Errno::BUSY) if flags.contains(OFlags::EXCL) && self.allow_in_use => {
                    flags -= OFlags::EXCL;
                }
                Err(Errno::BUSY) if self.allow_in_use => return Err(explain::write_mounted(path)),
                // A child process just forked may have a copy of a descriptor that was closed here.
                Err(Errno::BUSY) if inuse::is_unclaimed(node) && patience.wait() => {}
                Err(Errno::INVAL | Errno::OPNOTSUPP) if flags.contains(OFlags::DIRECT) => {
                    flags -= OFlags::DIRECT;
                    refused = true;
                }
                Err(e) => return Err(explain::open(path, node, e, self.write)),
            }
        }
    }

    /// Gives a new file its size, under the lock.
    fn size_if_empty(&self, path: &Path, node: &Node, fd: &OwnedFd) -> Result<(), SysError> {
        let Some(size) = self.create.filter(|_| node.kind == Kind::Regular) else { return Ok(()) };
        let fail = |e: Errno| {
            let error = SysError::from_errno("create", path, e.raw_os_error());
            let message = format!("{} for {size} bytes", error.message);
            error.with_message(message)
        };
        if rustix::fs::fstat(fd).map_err(fail)?.st_size != 0 {
            return Ok(());
        }
        if self.reserve {
            space::check("create", path, fd, size)?;
        }
        rustix::fs::ftruncate(fd, size).map_err(fail)?;
        if self.reserve {
            rustix::fs::fallocate(fd, FallocateFlags::empty(), 0, size).map_err(fail)?;
        }
        Ok(())
    }

    fn check_size(&self, path: &Path, probe: &Probe) -> Result<(), SysError> {
        let size = probe.size_bytes;
        match self.create {
            Some(wanted) if wanted != size => {
                let message = format!("it exists with {size} bytes instead of the requested {wanted}");
                let help = "request that size, leave the size out, or remove the file";
                Err(SysError::new("open", path, message, help))
            }
            _ if size > 0 => Ok(()),
            _ if probe.kind == Kind::Block => {
                let error = SysError::from_errno("open", path, libc::ENOMEDIUM);
                Err(error.with_message("the device has no medium: its size is 0"))
            }
            _ => {
                let help =
                    "give it a size, for example with truncate -s 1G, or let it be created with a size";
                Err(SysError::new("open", path, "the file is empty: a disk needs a size", help))
            }
        }
    }

    fn check_signatures(&self, path: &Path, node: &Node, size: u64) -> Result<(), SysError> {
        let fail = |error: SysError| {
            let what = "to overwrite it without this check, pass --force, or force=on in the device spec";
            error.with_help(what)
        };
        let fd = node.open(OFlags::RDONLY);
        let fd = fd.map_err(|e| fail(SysError::from_errno("look at", path, e.raw_os_error())))?;
        let found = signature::find(&FdReader { fd: fd.as_fd(), size }).map_err(|e| {
            let text = e.to_string();
            fail(SysError::from_io("look at", path, &e.source).with_message(text))
        })?;
        refuse_if_signature(path, node.kind, &found, self.signatures)
    }
}
