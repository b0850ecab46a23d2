//! Explains why a disk could not be opened, in more detail than the error number.

use std::path::Path;

use rustix::io::Errno;

use super::node::{Kind, Node};
use super::{SysError, inuse, lock};

/// The option that allows opening a disk in use.
const ALLOW: &str = "allow it with --allow-in-use, or allow_in_use=on in the device spec";

/// The error of opening a disk that others use.
pub(super) fn in_use(path: &Path, users: &[String]) -> SysError {
    let help = format!("unmount or stop what uses it, or {ALLOW}");
    SysError::from_errno("open", path, libc::EBUSY).with_message(users.join(", ")).with_help(help)
}

/// The error of a failed open of `node`.
pub(super) fn open(path: &Path, node: &Node, errno: Errno, write: bool) -> SysError {
    let error = SysError::from_errno("open", path, errno.raw_os_error());
    match errno {
        Errno::BUSY => busy(path, node),
        Errno::ACCESS => {
            let uid = rustix::process::geteuid().as_raw();
            let for_what = if write { "writing" } else { "reading" };
            let (mode, owner, group) = (node.stat.st_mode & 0o7777, node.stat.st_uid, node.stat.st_gid);
            let message = format!(
                "no permission for {for_what}: its mode is {mode:04o}, owner {owner}, group {group}, and \
                 this process runs as user {uid}"
            );
            error.with_message(message).with_help("run as its owner, join its group, or change its mode")
        }
        Errno::ROFS => match node.kind {
            Kind::Block => error.with_message("the device is read-only"),
            Kind::Regular => error.with_message("its file system is mounted read-only"),
        },
        Errno::PERM => match node.kind {
            Kind::Block => error.with_help("run as root; in a container, let it use the device"),
            Kind::Regular => error,
        },
        _ => error,
    }
}

/// The error of writing, without a claim, to a device that the kernel protects from other writers.
pub(super) fn write_mounted(path: &Path) -> SysError {
    SysError::from_errno("open", path, libc::EBUSY)
        .with_message("this kernel forbids writes to mounted devices (CONFIG_BLK_DEV_WRITE_MOUNTED)")
        .with_help("unmount it, or boot with bdev_allow_write_mounted=1")
}

/// The kernel refused a block device as claimed: names the users, as far as they can be seen.
fn busy(path: &Path, node: &Node) -> SysError {
    let mut users = inuse::users(node);
    users.extend(lock::holders(&node.stat).into_iter().map(|p| format!("{p} has it open")));
    if users.is_empty() {
        users.push("something that cannot be seen from here uses it (a container, or a program)".to_owned());
    }
    in_use(path, &users)
}
