//! The table of error numbers of disks and files: name, meaning for a disk, advice.
//!
//! The meanings follow the status table of the Linux block layer in `block/blk-core.c`.

use std::borrow::Cow;

/// One row: an error number and its meaning when a disk returns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrnoInfo {
    /// The number, positive.
    pub code: i32,
    /// Its symbolic name, as in `errno(3)`.
    pub name: &'static str,
    /// Its meaning here, in a few words.
    pub text: &'static str,
    /// What to do about it.
    pub advice: &'static str,
}

macro_rules! rows {
    ($($name:ident, $text:literal, $advice:literal;)*) => {
        /// Every known error number, one row each.
        pub static ERRNOS: &[ErrnoInfo] = &[
            $(ErrnoInfo { code: libc::$name, name: stringify!($name), text: $text, advice: $advice },)*
        ];
    };
}

rows! {
    EPERM, "operation not permitted", "run as root, or clear the file's immutable or append-only flag (lsattr, chattr)";
    ENOENT, "no such file or device", "check the path; to create the file, open it for writing and give a size";
    EINTR, "interrupted by a signal", "try again";
    EIO, "I/O error", "the device failed to read or write: look at dmesg and the device's SMART log";
    ENXIO, "no such device or address", "the device is not attached, or was removed";
    EBADF, "descriptor not open for this operation", "open the disk for reading or writing as needed";
    EAGAIN, "temporarily unavailable", "try again later, or raise the limit it ran into (fs.aio-max-nr, queue depth)";
    ENOMEM, "out of memory", "free memory, or raise the limit on locked memory (ulimit -l)";
    EACCES, "permission denied", "check the owner and mode of the file and of each directory above it";
    EFAULT, "bad memory address", "a buffer was unmapped while in use: this is a bug";
    EBUSY, "in use", "unmount it or stop what uses it, then try again";
    EEXIST, "exists already", "choose another name";
    EXDEV, "crosses file systems", "keep both files on the same file system";
    ENODEV, "no such device, or it went offline", "check that the device is attached and online";
    ENOTDIR, "a part of the path is not a directory", "check the path";
    EISDIR, "is a directory", "name a regular file or a block device";
    EINVAL, "invalid argument", "check that offset, length and memory are aligned to the logical block size";
    ENFILE, "the system has too many open files", "raise fs.file-max";
    EMFILE, "this process has too many open files", "raise the limit on open files (ulimit -n)";
    ENOTTY, "the device does not know this request", "name a regular file or a block device";
    ETXTBSY, "a program is running from this file, or it is swap space", "stop the program, or name another file";
    EFBIG, "larger than the file system or the file size limit allows", "use a smaller size, or raise ulimit -f";
    ENOSPC, "no space left", "free space on the file system; on thin storage, in its pool";
    ESPIPE, "not seekable", "name a regular file or a block device";
    EROFS, "read-only", "open it for reading only, or make the device or file system writable";
    ERANGE, "value out of range", "use a value in the range allowed";
    EDEADLK, "would deadlock", "release the other lock first";
    ENAMETOOLONG, "path too long", "use a shorter path";
    ENOLCK, "no locks available", "the file system cannot lock: allow use without a lock, or use another file system";
    ENOSYS, "not known to this kernel", "use a newer kernel, or another driver";
    ELOOP, "too many symbolic links", "name the target itself";
    ENODATA, "medium error: the sector cannot be read or written", "the data there is lost: look at the SMART log, rewrite or replace the disk";
    ETIME, "the device's time limit for this command passed", "try again, or raise the command duration limit";
    ENOLINK, "the path to the device failed", "check cabling or network, then try again: another path may work";
    EOVERFLOW, "value too large, or too many active zones", "finish a zone, or use a smaller value";
    EBADMSG, "checksum mismatch", "what was read is corrupt: restore it from a copy";
    EREMCHG, "the target changed", "try again";
    EILSEQ, "protection information mismatch", "the data was damaged on its way or at rest: restore it from a copy";
    EBADE, "reservation conflict", "another host holds a reservation on the device: release it there";
    ETOOMANYREFS, "too many open zones", "close or finish a zone";
    EOPNOTSUPP, "not supported by this device or file system", "do without it, or use another device";
    ECONNRESET, "connection lost", "check the server and the network, then open it again";
    ETIMEDOUT, "timed out", "the device did not answer: look at dmesg, check cabling, or raise the timeout";
    ECONNREFUSED, "connection refused", "check that the server runs and listens";
    EHOSTUNREACH, "host unreachable", "check the network";
    EALREADY, "under way already", "wait for it to finish";
    EINPROGRESS, "under way", "wait for it to finish";
    ESTALE, "the file was removed or replaced on the server", "open it again";
    EUCLEAN, "the file system is damaged", "unmount it and check it (fsck)";
    EREMOTEIO, "the device rejected the command or failed in it", "look at dmesg for its sense data, and at the SMART log";
    EDQUOT, "disk quota exceeded", "free space, or have the quota raised";
    ENOMEDIUM, "no medium", "insert a medium, or attach a backing file to the device";
    EMEDIUMTYPE, "wrong kind of medium", "insert a medium that the device can use";
    ECANCELED, "cancelled", "";
    ENOKEY, "encryption key missing", "unlock the file system or the device first";
    EHWPOISON, "memory page has a hardware error", "replace the memory; restore the data from a copy";
}

/// The row of `code`, if the table has it.
pub fn info(code: i32) -> Option<&'static ErrnoInfo> {
    ERRNOS.iter().find(|row| row.code == code)
}

/// The symbolic name of `code`, or `errno N` for one that the table does not have.
pub fn name(code: i32) -> Cow<'static, str> {
    match info(code) {
        Some(row) => Cow::Borrowed(row.name),
        None => Cow::Owned(format!("errno {code}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn codes_and_names_are_unique_and_positive() {
        let codes: BTreeSet<i32> = ERRNOS.iter().map(|r| r.code).collect();
        let names: BTreeSet<&str> = ERRNOS.iter().map(|r| r.name).collect();
        assert_eq!((codes.len(), names.len()), (ERRNOS.len(), ERRNOS.len()));
        assert!(codes.iter().all(|c| *c > 0));
    }

    #[test]
    fn every_row_says_something() {
        for row in ERRNOS {
            assert!(!row.text.is_empty(), "{}", row.name);
            let one_line = |s: &str| !s.contains('\n') && !s.ends_with('.');
            assert!(one_line(row.text) && one_line(row.advice), "{}", row.name);
        }
    }

    #[test]
    fn what_disks_give_is_there() {
        for code in [libc::EIO, libc::ENOSPC, libc::EWOULDBLOCK, libc::ENOTSUP, libc::EILSEQ, libc::ENODATA] {
            assert!(info(code).is_some(), "{code}");
        }
        assert_eq!(name(libc::EREMOTEIO), "EREMOTEIO");
        assert_eq!(name(9999), "errno 9999");
    }
}
