//! Advisory locks on disks, so that two programs do not write to the same disk by mistake.
//!
//! `flock(2)` belongs to the open file description: opening the same file twice conflicts within a process as
//! between processes, the kernel drops the lock however the process ends, and util-linux and udev use it for
//! block devices.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Stat};
use rustix::io::Errno;

use super::{DeviceNumber, Kind, SysError};
use crate::ofd;

/// udev locks a block device briefly while it examines the device after each change; wait that long.
const PATIENCE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(20);
/// The kernel frees an io_uring some 50 to 100 ms after its process has ended, and only then closes the files
/// open in it; wait this long for a lock whose holders have ended. After that a child may have inherited it.
const AFTERLIFE: Duration = Duration::from_secs(2);

/// A bounded wait for a user of a disk that is about to end.
pub(super) struct Patience {
    deadline: Instant,
}

impl Patience {
    /// Waits as long as udev may examine a device of this kind; it does not examine regular files.
    pub(super) fn with(kind: Kind) -> Self {
        Patience::of(if kind == Kind::Block { PATIENCE } else { Duration::ZERO })
    }

    fn of(time: Duration) -> Self {
        Patience { deadline: Instant::now() + time }
    }

    /// Waits a little; `false` if it has taken too long.
    pub(super) fn wait(&self) -> bool {
        let more = Instant::now() < self.deadline;
        if more {
            thread::sleep(POLL);
        }
        more
    }
}

/// The kind of lock that an open disk holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockState {
    /// No other program may open it, for reading or writing.
    Exclusive,
    /// Others may open it as sharers too.
    Shared,
    /// No lock, because use without one was allowed; with the reason why it was unavailable.
    None {
        /// What prevented the lock.
        why: String,
    },
}

/// A lock on an open disk, released when dropped: keep it for as long as there is I/O.
///
/// It is released at once even if a child process that was just forked still has a copy of the descriptor.
#[derive(Debug)]
pub struct LockGuard {
    state: LockState,
    /// A copy of the locked descriptor; none without a lock.
    fd: Option<OwnedFd>,
}

impl LockGuard {
    /// The kind of lock.
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
            // Who has the lock next must not find these.
            ofd::release(fd);
            // If this fails, closing the descriptor releases the lock too.
            let _ = rustix::fs::flock(fd, FlockOperation::Unlock);
        }
    }
}

/// Takes a lock, or fails with an error that names its holder.
pub(super) fn take(
    fd: &OwnedFd,
    path: &Path,
    kind: Kind,
    stat: &Stat,
    (exclusive, write, as_user): (bool, bool, ofd::Use),
) -> Result<LockGuard, SysError> {
    let fd = fd.try_clone().map_err(|e| SysError::from_io("lock", path, &e))?;
    let operation = match exclusive {
        true => FlockOperation::NonBlockingLockExclusive,
        false => FlockOperation::NonBlockingLockShared,
    };
    let (patience, afterlife) = (Patience::with(kind), Patience::of(AFTERLIFE));
    let mut looked_again = false;
    loop {
        match rustix::fs::flock(&fd, operation) {
            Ok(()) => {
                let state = if exclusive { LockState::Exclusive } else { LockState::Shared };
                if let Err(how) = ofd::take(&fd, as_user) {
                    let message = format!("another program, such as QEMU, {how}");
                    // Dropping the descriptor may not suffice: it is a copy.
                    let _ = rustix::fs::flock(&fd, FlockOperation::Unlock);
                    return Err(in_use(path, message));
                }
                return Ok(LockGuard { state, fd: Some(fd) });
            }
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if patience.wait() => {}
            Err(Errno::WOULDBLOCK) => match Holders::of(stat) {
                Holders::Ended if afterlife.wait() => {}
                // Released in the meantime, unless its holder cannot be seen from here.
                Holders::Unknown if !std::mem::replace(&mut looked_again, true) => {}
                _ => return Err(conflict(path, stat, exclusive)),
            },
            Err(e) if !write && is_without_locks(e) => {
                return Ok(LockGuard::none(format!("the file system has no locks: {e}")));
            }
            Err(e) => {
                let error = SysError::from_errno("lock", path, e.raw_os_error());
                return Err(if is_without_locks(e) { error.with_help(WITHOUT_LOCKS) } else { error });
            }
        }
    }
}

const WITHOUT_LOCKS: &str = "the file system has no locks, by which programs see each other; if no other program uses the \
                             file, open it with --allow-in-use, or allow_in_use=on in the device spec";

/// Whether `flock` failed because the file system does not have it, such as NFS without a lock manager.
fn is_without_locks(error: Errno) -> bool {
    matches!(error, Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK | Errno::INVAL | Errno::NOTTY)
}

fn conflict(path: &Path, stat: &Stat, exclusive: bool) -> SysError {
    let holders = holders(stat);
    let by = if holders.is_empty() { "another program".to_owned() } else { holders.join(", ") };
    let message = match exclusive {
        true => format!("it is open already, by {by}, and writing needs exclusive use"),
        false => format!("it is open exclusively for writing, by {by}"),
    };
    in_use(path, message)
}

fn in_use(path: &Path, message: String) -> SysError {
    let help = "wait until it is closed, or allow use at the same time with --allow-in-use, or \
                allow_in_use=on in the device spec";
    SysError::from_errno("lock", path, libc::EWOULDBLOCK).with_message(message).with_help(help)
}

/// The processes that hold locks on an inode, as phrases such as `process 12 (fio)`.
pub(super) fn holders(stat: &Stat) -> Vec<String> {
    pids(stat).into_iter().map(describe).collect()
}

/// Whether no process that is still running is known to hold a lock on an inode.
pub(super) fn is_unlocked(stat: &Stat) -> bool {
    pids(stat).into_iter().all(has_ended)
}

/// What is known about the holders of a lock.
enum Holders {
    /// `/proc/locks` lists none: the lock is free by now, or its holder is in another container.
    Unknown,
    /// All of them have ended.
    Ended,
    /// At least one of them runs.
    Running,
}

impl Holders {
    fn of(stat: &Stat) -> Holders {
        match pids(stat) {
            pids if pids.is_empty() => Holders::Unknown,
            pids if pids.iter().all(|pid| has_ended(*pid)) => Holders::Ended,
            _ => Holders::Running,
        }
    }
}

fn pids(stat: &Stat) -> Vec<u32> {
    let text = fs::read_to_string("/proc/locks").unwrap_or_default();
    parse_holders(&text, DeviceNumber::from_dev(stat.st_dev), stat.st_ino)
}

/// Whether a process has ended or is exiting.
fn has_ended(pid: u32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => is_exiting(&stat),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Whether the text of `/proc/PID/stat`, `12 (fio) S 1 12 12 0 -1 4194560 …`, is that of an exiting process:
/// according to its state, the third field, or the bit `PF_EXITING` of its flags, the ninth.
pub(super) fn is_exiting(stat: &str) -> bool {
    const PF_EXITING: u32 = 4;
    // The name may contain anything, including parentheses and spaces.
    let Some((_, rest)) = stat.rsplit_once(')') else { return false };
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let flags = fields.get(6).and_then(|flags| flags.parse::<u32>().ok()).unwrap_or(0);
    matches!(fields.first(), Some(&("Z" | "X"))) || flags & PF_EXITING != 0
}

fn describe(pid: u32) -> String {
    if pid == std::process::id() {
        return "this process".to_owned();
    }
    match fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(_) if has_ended(pid) => format!("process {pid}, which has ended"),
        Ok(name) => format!("process {pid} ({})", name.trim()),
        Err(_) => format!("process {pid}, which has ended"),
    }
}

/// The processes that hold `flock` locks on an inode, from the text of `/proc/locks`, whose lines
/// are `1: FLOCK ADVISORY WRITE 708 08:01:1234 0 EOF`, with `->` after the number for waiters.
pub(super) fn parse_holders(text: &str, dev: DeviceNumber, inode: u64) -> Vec<u32> {
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
    fn a_process_that_exits_is_told_from_one_that_runs() {
        for (stat, exits) in [
            ("12 (fio) S 1 12 12 0 -1 4194560 100", false),
            ("12 (fio) Z 1 12 12 0 -1 4194560 100", true),
            ("12 (a) Z (b) R 1 12 12 0 -1 4194560 100", false),
            ("12 (fio) R 1 12 12 0 -1 4194564 100", true),
            ("12", false),
        ] {
            assert_eq!(is_exiting(stat), exits, "{stat}");
        }
        assert!(!has_ended(std::process::id()) && has_ended(u32::MAX));
    }

    #[test]
    fn a_file_system_without_locks_can_be_read() {
        for errno in [Errno::NOSYS, Errno::OPNOTSUPP, Errno::NOLCK] {
            assert!(is_without_locks(errno));
        }
        for errno in [Errno::WOULDBLOCK, Errno::INTR, Errno::BADF, Errno::IO] {
            assert!(!is_without_locks(errno));
        }
        // The kernel refuses flock for descriptors that only name a file, with EBADF; nothing is read then either.
        let file = tempfile::NamedTempFile::new().unwrap();
        let stat = rustix::fs::fstat(&file).unwrap();
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
        let named = rustix::fs::open(file.path(), flags, rustix::fs::Mode::empty()).unwrap();
        let error =
            take(&named, file.path(), Kind::Regular, &stat, (false, false, ofd::Use::READS)).unwrap_err();
        assert_eq!(error.errno, Some(libc::EBADF));
        assert!(WITHOUT_LOCKS.contains("--allow-in-use"));
    }

    #[test]
    fn locks_conflict_within_one_process_and_are_given_back() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stat = rustix::fs::fstat(&file).unwrap();
        let fd = || OwnedFd::from(file.reopen().unwrap());
        let (a, b, c) = (fd(), fd(), fd());
        let take = |fd, write| take(fd, file.path(), Kind::Regular, &stat, (write, write, ofd::Use::READS));
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
