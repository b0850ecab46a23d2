//! Locks on single bytes of a file by which QEMU tells its processes what they do with an image (facts: QEMU
//! `block/file-posix.c`, `RAW_LOCK_PERM_BASE`): byte 100 + N is locked by who uses permission N, byte 200 + N by who does not let others
//! use it. They belong to the open file description (`F_OFD_SETLK`), so they end with it, and do not conflict with
//! `flock(2)`.

#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, OwnedFd};

/// A permission of QEMU's block layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// To read data that are consistent.
    Read = 0,
    Write = 1,
    Resize = 3,
}

use Permission::{Read, Resize, Write};

/// Where the bytes of permissions in use, and those of permissions that others may not use, begin.
const USED: i64 = 100;
const KEPT: i64 = 200;
/// Behind the last of these bytes.
const END: i64 = 300;

/// What an opening uses and keeps to itself, and which of others conflict with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    uses: &'static [Permission],
    keeps: &'static [Permission],
    /// Permissions that others may not use meanwhile.
    refuses: &'static [Permission],
    /// Permissions that others may not keep to themselves.
    needs: &'static [Permission],
}

impl Use {
    /// A writer, or a reader that does not share.
    pub(crate) const fn exclusive(write: bool) -> Use {
        let all = if write { &[Read, Write] as &[_] } else { &[Read] };
        Use { uses: all, keeps: &[Read, Write, Resize], refuses: &[Read, Write, Resize], needs: all }
    }

    /// A reader, which does not share with writers; sharers of Platter's own, which tell only each other that they write,
    /// are no such writers.
    pub(crate) const READS: Use =
        Use { uses: &[Read], keeps: &[], refuses: &[Write, Resize], needs: &[Read] };

    /// One who shares, even for writing.
    pub(crate) const fn shared(write: bool) -> Use {
        let needs = if write { &[Read, Write] as &[_] } else { &[Read] };
        Use { uses: &[Read], keeps: &[], refuses: &[], needs }
    }
}

/// Calls `fcntl(2)` for a lock of `len` bytes from `start`. `None`: it failed.
fn call(fd: &OwnedFd, command: libc::c_int, kind: libc::c_int, start: i64, len: i64) -> Option<libc::flock> {
    // SAFETY: an all-zero flock is a valid value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = start;
    lock.l_len = len;
    // SAFETY: the descriptor is open, and these commands read and write one flock.
    let result = unsafe { libc::fcntl(fd.as_raw_fd(), command, &raw mut lock) };
    (result == 0).then_some(lock)
}

/// Whether another opening has a lock on a byte. File systems without such locks have none.
fn is_locked(fd: &OwnedFd, byte: i64) -> bool {
    call(fd, libc::F_OFD_GETLK, libc::F_WRLCK, byte, 1)
        .is_some_and(|lock| lock.l_type != libc::F_UNLCK as libc::c_short)
}

/// Locks the bytes of a use, where that is possible.
///
/// # Errors
/// Another program conflicts with it: says how. Nothing is locked then.
pub(crate) fn take(fd: &OwnedFd, as_user: Use) -> Result<(), &'static str> {
    let bytes = as_user.uses.iter().map(|used| USED + *used as i64);
    for byte in bytes.chain(as_user.keeps.iter().map(|kept| KEPT + *kept as i64)) {
        // It fails on file systems without such locks, and for a descriptor that cannot read: then no other program is told.
        let _ = call(fd, libc::F_OFD_SETLK, libc::F_RDLCK, byte, 1);
    }
    let refused = |permission: &Permission| is_locked(fd, USED + *permission as i64);
    let kept = |permission: &Permission| is_locked(fd, KEPT + *permission as i64);
    let conflict = if as_user.refuses.iter().filter(|permission| **permission != Read).any(refused) {
        "has it open for writing"
    } else if as_user.needs.iter().any(kept) {
        "has it open and does not share it"
    } else if as_user.refuses.iter().any(refused) {
        "has it open for reading"
    } else {
        return Ok(());
    };
    release(fd);
    Err(conflict)
}

/// Unlocks all of these bytes.
pub(crate) fn release(fd: &OwnedFd) {
    let _ = call(fd, libc::F_OFD_SETLK, libc::F_UNLCK, USED, END - USED);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_conflicts_with_whom_is_as_qemu_has_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let fd = || OwnedFd::from(std::fs::File::options().read(true).write(true).open(file.path()).unwrap());
        let uses =
            [Use::exclusive(true), Use::exclusive(false), Use::READS, Use::shared(false), Use::shared(true)];
        // Among Platter's own it is as with flock: the exclusive ones conflict with all, no others with each other.
        for (i, one) in uses.into_iter().enumerate() {
            for (j, other) in uses.into_iter().enumerate() {
                let (a, b) = (fd(), fd());
                take(&a, one).unwrap();
                assert_eq!(take(&b, other).is_err(), i < 2 || j < 2, "{one:?} {other:?}");
                release(&a);
                assert!(take(&b, other).is_ok());
            }
        }
        // A guest of QEMU uses 100 and 101 and keeps 201 and 203; a reader uses 100 and keeps 201.
        for (bytes, refused) in [
            (&[100, 101, 201, 203][..], [true, true, true, false, true]),
            (&[100, 201], [true, true, false, false, true]),
        ] {
            let qemu = fd();
            for byte in bytes {
                call(&qemu, libc::F_OFD_SETLK, libc::F_RDLCK, *byte, 1).unwrap();
            }
            assert_eq!(uses.map(|as_user| take(&fd(), as_user).is_err()), refused, "{bytes:?}");
        }
        // What QEMU looks at before it writes: 201 and 203; before it reads: 101.
        let (ours, qemu) = (fd(), fd());
        take(&ours, Use::exclusive(true)).unwrap();
        assert!([101, 201, 203].iter().all(|byte| is_locked(&qemu, *byte)));
    }
}
