//! A server that is killed under load: what its clients were told is in the file afterwards.

mod fuse;
mod known;
mod nbd;

use crate::running::Running;
use known::{BLOCK, BLOCKS, Block, CLIENTS, Known, Random};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::Signal;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use tempfile::{TempDir, tempdir};

/// How a device is exported.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Nbd,
    Fuse,
}

/// Starts a server. `None`, after its line that says why: it may not mount.
fn start(spec: &str, way: Way, at: &Path) -> Option<Running> {
    let (option, address) = match way {
        Way::Nbd => ("--nbd", format!("unix:{}", at.display())),
        Way::Fuse => ("--fuse", at.display().to_string()),
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_platter"));
    command.args(["serve", "--quiet", spec, option, &address]).stdout(Stdio::piped());
    let mut server = Running::start(&mut command);
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line.is_empty() && way == Way::Fuse {
        eprintln!("skipped: the server cannot mount");
        server.wait().unwrap();
        return None;
    }
    assert!(line.contains(at.to_str().unwrap()), "{line}");
    Some(server)
}

/// A file, and what its server is killed at.
struct Rig {
    folder: TempDir,
    way: Way,
    spec: String,
    known: Known,
    durable_only: bool,
}

impl Rig {
    fn new(way: Way, over: &str, durable_only: bool) -> Rig {
        let folder = tempdir().unwrap();
        let disk = folder.path().join("disk");
        File::create(&disk).unwrap().set_len(CLIENTS * BLOCKS * BLOCK as u64).unwrap();
        std::fs::create_dir(folder.path().join("at")).unwrap();
        let spec = over.replace("DISK", disk.to_str().unwrap());
        Rig { folder, way, spec, known: Known::new(), durable_only }
    }

    fn at(&self) -> PathBuf {
        self.folder.path().join(if self.way == Way::Nbd { "socket" } else { "at" })
    }

    /// Kills a server under load once. `false`: there is none on this machine.
    fn kill_once(&mut self, random: &mut Random) -> bool {
        let (way, at) = (self.way, self.at());
        let Some(server) = start(&self.spec, way, &at) else { return false };
        let (total, ready) = (Arc::new(AtomicU64::new(0)), Arc::new(Barrier::new(CLIENTS as usize + 1)));
        let writer = |client| {
            let (total, ready, at) = (Arc::clone(&total), Arc::clone(&ready), at.clone());
            let (blocks, random) = (self.known.of(client), Random(random.below(u64::MAX >> 33)));
            thread::spawn(move || -> Vec<Block> {
                match way {
                    Way::Nbd => {
                        let writer = nbd::Writer::new(&at, client, blocks, random, total);
                        ready.wait();
                        writer.run()
                    }
                    Way::Fuse => {
                        let writer = fuse::Writer::new(&at.join("disk"), client, blocks, random, total);
                        ready.wait();
                        writer.run()
                    }
                }
            })
        };
        let writers: Vec<_> = (0..CLIENTS).map(writer).collect();
        ready.wait();
        let enough = 20 + random.below(1500);
        while total.load(Ordering::Relaxed) < enough {
            thread::yield_now();
        }
        drop(server);
        let disk = File::open(self.folder.path().join("disk")).unwrap();
        for (client, writer) in (0..).zip(writers) {
            self.known.check(&disk, client, &writer.join().unwrap(), self.durable_only);
        }
        true
    }

    fn kill_often(mut self) {
        for seed in 0..kills() {
            if !self.kill_once(&mut Random(seed * 7919 + 1)) {
                return;
            }
        }
        if self.way == Way::Fuse {
            // The mount of the last server is in the way of the folder.
            let last = start(&self.spec, Way::Fuse, &self.at()).unwrap();
            assert!(last.end(Signal::TERM).success());
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // The mount of a server that was killed stays, if the test has failed.
        let at = self.folder.path().join("at");
        if self.way == Way::Fuse && unmount(&at, UnmountFlags::DETACH).is_err() {
            // An ordinary user unmounts by the program that has mounted.
            let _ = Command::new("fusermount3")
                .args(["-u", "-z", "-q", "--"])
                .arg(&at)
                .stderr(Stdio::null())
                .status();
        }
    }
}

/// How often to kill a server: `PLATTER_KILLS`, for long runs.
fn kills() -> u64 {
    std::env::var("PLATTER_KILLS").ok().and_then(|number| number.parse().ok()).unwrap_or(5)
}

#[test]
fn what_was_answered_is_in_the_file_after_the_server_was_killed() {
    Rig::new(Way::Nbd, "DISK", false).kill_often();
}

#[test]
fn what_was_flushed_through_a_cache_is_in_the_file_after_the_server_was_killed() {
    Rig::new(Way::Nbd, "cache(size=1M, DISK)", true).kill_often();
}

#[test]
fn what_was_answered_through_a_file_is_in_the_disk_after_the_server_was_killed() {
    Rig::new(Way::Fuse, "DISK", false).kill_often();
}

#[test]
fn what_was_synced_through_a_file_and_a_cache_is_in_the_disk_after_the_server_was_killed() {
    Rig::new(Way::Fuse, "cache(size=1M, DISK)", true).kill_often();
}
