//! Advisory locks on disks, so that two programs do not write to one by mistake.
//!
//! `flock(2)` belongs to the open file description: opening the same file twice conflicts within a
//! process as between processes, the kernel drops the lock however the process ends, and it is what
//! util-linux and udev use for block devices.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Stat};
use rustix::io::Errno;

use super::{DeviceNumber, Kind, SysError};

/// udev locks a block device for a moment while it looks at it after each change; wait that long.
const PATIENCE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(20);

/// Waits for a user of a block device who will be gone in a moment.
pub(super) struct Patience {
    deadline: Instant,
}

impl Patience {
    /// Starts to wait; with a regular file there is nobody to wait for.
    pub(super) fn with(kind: Kind) -> Self {
        let patience = if kind == Kind::Block { PATIENCE } else { Duration::ZERO };
        Patience { deadline: Instant::now() + patience }
    }

    /// Waits a little; `false` once it has taken too long.
    pub(super) fn wait(&self) -> bool {
        let more = Instant::now() < self.deadline;
        if more {
            thread::sleep(POLL);
        }
        more
    }
}

/// What kind of lock an open disk holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockState {
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

/// A lock on an open disk, given back when dropped: keep it for as long as there is I/O.
///
/// It is given back at once even if a child process that was just forked still has a copy of the
/// descriptor.
#[derive(Debug)]
pub struct LockGuard {
    state: LockState,
    /// A copy of the locked descriptor; none without a lock.
    fd: Option<OwnedFd>,
}

impl LockGuard {
    /// What is held.
    pub fn state(&self) -> &LockState {
        &self.state
    }

    pub(super) fn none(why: String) -> Self {
        LockGuard { state: LockState::None { why }, fd: None }
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if let Some(fd) = &self.fd {
            // Closing gives the lock back too, if this should fail.
            let _ = rustix::fs::flock(fd, FlockOperation::Unlock);
        }
    }
}

/// Takes a lock, or fails with an error that names who holds it.
pub(super) fn take(
    fd: &OwnedFd,
    path: &Path,
    kind: Kind,
    stat: &Stat,
    exclusive: bool,
) -> Result<LockGuard, SysError> {
    let fd = fd.try_clone().map_err(|e| SysError::from_io("lock", path, &e))?;
    let operation = match exclusive {
        true => FlockOperation::NonBlockingLockExclusive,
        false => FlockOperation::NonBlockingLockShared,
    };
    let patience = Patience::with(kind);
    loop {
        match rustix::fs::flock(&fd, operation) {
            Ok(()) => {
                let state = if exclusive { LockState::Exclusive } else { LockState::Shared };
                return Ok(LockGuard { state, fd: Some(fd) });
            }
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if patience.wait() => {}
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
    fn locks_conflict_within_one_process_and_are_given_back() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stat = rustix::fs::fstat(&file).unwrap();
        let fd = || OwnedFd::from(file.reopen().unwrap());
        let (a, b, c) = (fd(), fd(), fd());
        let take = |fd, exclusive| take(fd, file.path(), Kind::Regular, &stat, exclusive);
        let shared = (take(&a, false).unwrap(), take(&b, false).unwrap());
        assert_eq!(shared.1.state(), &LockState::Shared);
        assert_eq!(take(&c, true).unwrap_err().errno, Some(libc::EWOULDBLOCK));
        drop(shared);
        let alone = take(&c, true).unwrap();
        assert_eq!(alone.state(), &LockState::Exclusive);
        for exclusive in [true, false] {
            assert!(take(&a, exclusive).unwrap_err().message.contains("open"));
        }
        drop(alone);
        take(&a, true).unwrap();
    }
}
