//! Advisory locks on disks, so that two programs do not write to one by mistake.
//!
//! `flock(2)` belongs to the open file description: opening the same file twice conflicts within a
//! process as between processes, the kernel drops the lock however the process ends, and it is what
//! util-linux and udev use for block devices.

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Stat};
use rustix::io::Errno;

use super::{DeviceNumber, Kind, SysError};

/// udev locks a block device for a moment while it looks at it after each change; wait that long.
const UDEV_PATIENCE: Duration = Duration::from_secs(1);
const UDEV_POLL: Duration = Duration::from_millis(20);

/// The lock that an open disk holds, until the last copy of its descriptor is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lock {
    /// Nobody else may open it, to read or to write.
    Exclusive,
    /// Others may open it as sharers too.
    Shared,
    /// None, because use without one was allowed, with the reason why it was not to be had.
    None {
        /// What kept the lock from being taken.
        why: String,
    },
}

/// Takes a lock, or fails with an error that names who holds it.
pub(super) fn take(
    fd: impl AsFd,
    path: &Path,
    kind: Kind,
    stat: &Stat,
    exclusive: bool,
) -> Result<Lock, SysError> {
    let operation = match exclusive {
        true => FlockOperation::NonBlockingLockExclusive,
        false => FlockOperation::NonBlockingLockShared,
    };
    let patience = if kind == Kind::Block { UDEV_PATIENCE } else { Duration::ZERO };
    let start = Instant::now();
    loop {
        match rustix::fs::flock(&fd, operation) {
            Ok(()) => return Ok(if exclusive { Lock::Exclusive } else { Lock::Shared }),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if start.elapsed() < patience => thread::sleep(UDEV_POLL),
            Err(Errno::WOULDBLOCK) => return Err(conflict(path, stat, exclusive)),
            Err(e) => return Err(SysError::from_errno("lock", path, e.raw_os_error())),
        }
    }
}

fn conflict(path: &Path, stat: &Stat, exclusive: bool) -> SysError {
    let holders = holders(stat);
    let by = if holders.is_empty() { "another program".to_owned() } else { holders.join(", ") };
    let message = match exclusive {
        true => format!("it is open already, by {by}, and writing needs it alone"),
        false => format!("it is open for writing alone, by {by}"),
    };
    let help = "wait until it is closed, or allow use at the same time with --allow-in-use, or \
                allow_in_use=on in the device spec";
    SysError::from_errno("lock", path, libc::EWOULDBLOCK).with_message(message).with_help(help)
}

/// Who holds locks on an inode, as phrases such as `process 12 (fio)`.
pub(super) fn holders(stat: &Stat) -> Vec<String> {
    let text = fs::read_to_string("/proc/locks").unwrap_or_default();
    let pids = parse_holders(&text, DeviceNumber::from_dev(stat.st_dev), stat.st_ino);
    pids.into_iter().map(describe).collect()
}

fn describe(pid: u32) -> String {
    if pid == std::process::id() {
        return "this process".to_owned();
    }
    match fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("process {pid} ({})", name.trim()),
        Err(_) => format!("process {pid}"),
    }
}

/// The processes that hold `flock` locks on an inode, from the text of `/proc/locks`, whose lines
/// are `1: FLOCK ADVISORY WRITE 708 08:01:1234 0 EOF`, with `->` after the number for waiters.
fn parse_holders(text: &str, dev: DeviceNumber, inode: u64) -> Vec<u32> {
    let place = format!("{:02x}:{:02x}:{inode}", dev.major, dev.minor);
    let mut pids: Vec<u32> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|w| w.len() >= 6 && w[1] == "FLOCK" && w[5] == place)
        .filter_map(|w| w[4].parse().ok().filter(|pid| *pid > 0))
        .collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_locks_names_holders_but_not_waiters() {
        let text = "1: FLOCK  ADVISORY  WRITE 708 fe:10:1234 0 EOF\n\
                    1: -> FLOCK  ADVISORY  WRITE 709 fe:10:1234 0 EOF\n\
                    2: POSIX  ADVISORY  WRITE 710 fe:10:1234 0 EOF\n\
                    3: FLOCK  ADVISORY  READ 711 fe:10:12345 0 EOF\n\
                    4: FLOCK  ADVISORY  READ 0 fe:10:1234 0 EOF\n";
        let dev = DeviceNumber { major: 254, minor: 16 };
        assert_eq!(parse_holders(text, dev, 1234), [708]);
        assert_eq!(parse_holders(text, dev, 12345), [711]);
    }

    #[test]
    fn locks_conflict_within_one_process_and_name_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stat = rustix::fs::fstat(&file).unwrap();
        let take = |fd: &std::fs::File, exclusive| take(fd, file.path(), Kind::Regular, &stat, exclusive);
        let (a, b) = (file.reopen().unwrap(), file.reopen().unwrap());
        assert_eq!(take(&a, false).unwrap(), Lock::Shared);
        assert_eq!(take(&b, false).unwrap(), Lock::Shared);
        drop(b);
        assert_eq!(take(&a, true).unwrap(), Lock::Exclusive);
        let c = file.reopen().unwrap();
        for exclusive in [true, false] {
            let e = take(&c, exclusive).unwrap_err();
            assert!(e.message.contains("open"), "{e}");
            assert_eq!(e.errno, Some(libc::EWOULDBLOCK));
        }
        drop(a);
        assert_eq!(take(&c, true).unwrap(), Lock::Exclusive);
    }
}
