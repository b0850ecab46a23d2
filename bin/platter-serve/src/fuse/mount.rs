//! Mounting and unmounting, by system calls where they are permitted, otherwise by `fusermount3`.

use crate::error::ServeError;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};
use std::ffi::CString;
use std::fs;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The device of the FUSE driver.
pub(super) const DEVICE: &str = "/dev/fuse";

/// A mounted directory. Dropping it unmounts it, at the latest when the files in it are closed.
pub(super) struct Mount {
    directory: PathBuf,
    by_helper: bool,
    gone: bool,
}

fn refuse(directory: &Path, why: impl std::fmt::Display) -> ServeError {
    ServeError::system(format!("cannot mount on {}: {why}", directory.display()))
}

/// Checks the directory. A mount that a dead server left there is removed.
fn prepare(directory: &Path) -> Result<PathBuf, ServeError> {
    if let Err(error) = fs::metadata(directory) {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOTCONN) => unmount(directory, UnmountFlags::DETACH, false).map_err(|why| {
                refuse(directory, format!("the mount of a dead server cannot be removed: {why}"))
            })?,
            Some(Errno::NOENT) => {
                return Err(refuse(directory, "there is no such directory; create it first"));
            }
            _ => return Err(refuse(directory, error)),
        }
    }
    let directory = directory.canonicalize().map_err(|error| refuse(directory, error))?;
    let mut entries = fs::read_dir(&directory).map_err(|error| refuse(&directory, error))?;
    if entries.next().is_some() {
        return Err(refuse(&directory, "the directory is not empty; its files would be hidden"));
    }
    Ok(directory)
}

/// Mounts a file system of the FUSE driver, and returns the descriptor for its requests.
pub(super) fn mount(directory: &Path, allow_other: bool) -> Result<(Mount, OwnedFd), ServeError> {
    let directory = prepare(directory)?;
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fuse = match rustix::fs::open(DEVICE, flags, Mode::empty()) {
        Ok(fuse) => fuse,
        Err(error) => {
            return Err(refuse(&directory, format!("{DEVICE}: {error}; the kernel module fuse is needed")));
        }
    };
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let other = if allow_other { ",allow_other" } else { "" };
    let fd = fuse.as_raw_fd();
    let options = format!("fd={fd},rootmode=40000,user_id={user},group_id={group}{other}");
    let made = CString::new(options).ok().map(|options| {
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        rustix::mount::mount("platter", &directory, "fuse.platter", flags, Some(&*options))
    });
    match made {
        Some(Ok(())) => Ok((Mount { directory, by_helper: false, gone: false }, fuse)),
        Some(Err(Errno::PERM)) => {
            let fuse = mount_by_helper(&directory, allow_other)?;
            Ok((Mount { directory, by_helper: true, gone: false }, fuse))
        }
        Some(Err(error)) => Err(refuse(&directory, error)),
        None => Err(refuse(&directory, "its options have a zero byte")),
    }
}

/// Mounts with the set-user-id program of libfuse, which sends the descriptor over a socket.
fn mount_by_helper(directory: &Path, allow_other: bool) -> Result<OwnedFd, ServeError> {
    let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let (ours, theirs) = pair.map_err(|error| refuse(directory, error))?;
    let other = if allow_other { ",allow_other" } else { "" };
    let output = Command::new("fusermount3")
        .arg("-o")
        .arg(format!("fsname=platter,subtype=platter,nosuid,nodev{other}"))
        .arg("--")
        .arg(directory)
        .env("_FUSE_COMMFD", "0")
        .stdin(Stdio::from(theirs))
        .output()
        .map_err(|error| refuse(directory, format!("fusermount3: {error}; install the package fuse3")))?;
    if !output.status.success() {
        return Err(refuse(directory, String::from_utf8_lossy(&output.stderr).trim()));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    rustix::net::recvmsg(&ours, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)
        .map_err(|error| refuse(directory, error))?;
    let fds = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    let fuse = fds.ok_or_else(|| refuse(directory, "fusermount3 sent no descriptor"))?;
    rustix::fs::fcntl_setfl(&fuse, OFlags::NONBLOCK).map_err(|error| refuse(directory, error))?;
    Ok(fuse)
}

fn unmount(directory: &Path, flags: UnmountFlags, by_helper: bool) -> Result<(), Errno> {
    if !by_helper {
        match rustix::mount::unmount(directory, flags) {
            Err(Errno::PERM) => {}
            result => return result,
        }
    }
    let lazy = if flags.contains(UnmountFlags::DETACH) { "-uz" } else { "-u" };
    match Command::new("fusermount3").args([lazy, "-q", "--"]).arg(directory).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(_) => Err(Errno::BUSY),
        Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
    }
}

impl Mount {
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Unmounts it. `false`: files in it are open.
    pub(super) fn try_unmount(&mut self) -> bool {
        // Not mounted any more is as good.
        let result = unmount(&self.directory, UnmountFlags::empty(), self.by_helper);
        self.gone |= result != Err(Errno::BUSY);
        self.gone
    }

    /// Fails all requests that the kernel has not had an answer to, and unmounts it. If only the helper may unmount, they fail
    /// when the last descriptor of the driver is closed, at the latest when the process ends.
    pub(super) fn abort(&mut self) {
        if !self.gone && !self.by_helper {
            let flags = UnmountFlags::FORCE | UnmountFlags::DETACH;
            self.gone = unmount(&self.directory, flags, false).is_ok();
        }
    }

    /// The processes that have files in it open, with their names.
    pub(super) fn users(&self) -> Vec<String> {
        let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
        let uses =
            |link: fs::DirEntry| fs::read_link(link.path()).is_ok_and(|to| to.starts_with(&self.directory));
        let user = |process: PathBuf| {
            let id: u32 = process.file_name()?.to_str()?.parse().ok()?;
            let mut links = fs::read_dir(process.join("fd")).ok()?.flatten();
            let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
            links.any(uses).then(|| format!("{} ({id})", name.trim()))
        };
        processes.flatten().filter_map(|entry| user(entry.path())).collect()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if !self.gone {
            // Failing, it stays as the mount of a dead server, which the next one replaces.
            let _ = unmount(&self.directory, UnmountFlags::DETACH, self.by_helper);
        }
    }
}
