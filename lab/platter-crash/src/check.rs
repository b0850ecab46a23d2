//! The user's check of one state of the directory.

use crate::tree::Tree;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often to look whether the user wants to stop.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes of the output of a check that are kept.
const OUTPUT: u64 = 4096;

/// How to check a state.
#[derive(Clone, Debug)]
pub struct Check {
    /// A command for the shell. `{}` in it is the directory, which is also its working directory.
    pub command: String,
    /// A check that takes longer has failed.
    pub timeout: Duration,
    /// Where the directories are made.
    pub temporary: PathBuf,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing wrong: it ended with status 0.
    Good,
    /// Something: how it ended, and what it printed.
    Bad {
        /// Such as `status 1`.
        ended: String,
        /// The end of its output.
        output: String,
    },
    /// The user asked to stop.
    Stopped,
}

impl Verdict {
    /// Whether two findings are of one kind: they differ in numbers only.
    pub(crate) fn is_like(&self, other: &Verdict) -> bool {
        let kind = |verdict: &Verdict| match verdict {
            Verdict::Bad { ended, output } => {
                let text: String = output.chars().filter(|c| !c.is_ascii_digit()).collect();
                Some((ended.clone(), text))
            }
            Verdict::Good | Verdict::Stopped => None,
        };
        kind(self).is_some() && kind(self) == kind(other)
    }
}

/// A directory that is removed with all that is in it.
struct Temporary(PathBuf);

impl Temporary {
    fn new(parent: &Path) -> io::Result<Temporary> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("platter-crash-{}-{number}", std::process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Temporary(path)),
                // What an earlier process of this number has left is not this one's to remove.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display())));
                }
            }
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // A check may have taken permissions away, or still writes; the next line of the report is more important.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Check {
    /// Makes a directory with these contents, and checks it. `lines` are what the program had printed before.
    ///
    /// # Errors
    /// The directory cannot be made, or the shell not be started.
    pub fn run(&self, tree: &Tree, lines: &[u8], stop: &AtomicBool) -> io::Result<Verdict> {
        let place = Temporary::new(&self.temporary)?;
        let dir = place.0.join("dir");
        fs::create_dir(&dir)?;
        tree.write_to(&dir)?;
        let acknowledged = place.0.join("acknowledged");
        fs::write(&acknowledged, lines)?;
        let output = File::options().read(true).append(true).create_new(true).open(place.0.join("output"))?;
        let shown = dir.to_string_lossy();
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(self.command.replace("{}", &shown)).current_dir(&dir).process_group(0);
        command.env("PLATTER_CRASH_DIR", &dir).env("PLATTER_CRASH_ACKNOWLEDGED", &acknowledged);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?);
        let ended = Group(command.spawn()?).wait(self.timeout, stop)?;
        let ended = match ended {
            Waited::Stopped => return Ok(Verdict::Stopped),
            Waited::Ended(status) if status.success() => return Ok(Verdict::Good),
            Waited::Ended(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("status {code}"),
                (None, signal) => format!("signal {}", signal.unwrap_or_default()),
            },
            Waited::TooLong => format!("no end within {:?}", self.timeout),
        };
        let output = tail(output)?.replace(&*shown, "{}");
        let output = output.replace(&*place.0.to_string_lossy(), "{}/..");
        Ok(Verdict::Bad { ended, output })
    }
}

/// The end of what was printed.
fn tail(mut file: File) -> io::Result<String> {
    let len = file.metadata()?.len();
    file.seek(io::SeekFrom::Start(len.saturating_sub(OUTPUT)))?;
    let mut bytes = Vec::new();
    file.take(OUTPUT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

enum Waited {
    Ended(ExitStatus),
    TooLong,
    Stopped,
}

/// A child with its process group, which is killed when this is dropped.
struct Group(Child);

impl Group {
    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.0.id() as i32)
    }

    fn wait(&mut self, timeout: Duration, stop: &AtomicBool) -> io::Result<Waited> {
        let end = Instant::now().checked_add(timeout);
        let pid = self.pid().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let fd = pidfd_open(pid, PidfdFlags::empty())?;
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(Waited::Ended(status));
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(Waited::Stopped);
            }
            let left = end.map_or(LOOK, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(Waited::TooLong);
            }
            let time = Timespec::try_from(left.min(LOOK)).map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&time)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Also what the check has left running. It is gone already in most cases.
        if let Some(pid) = self.pid() {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}
