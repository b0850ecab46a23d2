//! Servers of a virtual machine's disk that are killed, and their successors: the requests that were in flight are answered
//! by the next one, and what a write-back cache has lost is told.

#[allow(dead_code, reason = "the suite of the export uses more of it")]
#[path = "../../../platter-serve/tests/vhost/guest.rs"]
mod guest;

use crate::running::Running;
use guest::{FLUSH, Guest, OUT, SLOTS};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Sectors of each slot of each queue.
const SECTORS: u64 = 8;

struct Rig {
    folder: tempfile::TempDir,
    socket: PathBuf,
    spec: String,
    /// Defects of the server.
    server: Option<Running>,
}

impl Rig {
    fn new(spec: &str) -> Rig {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        File::create(folder.path().join("disk")).unwrap().set_len(4 << 20).unwrap();
        let spec = spec.replace("FILE", folder.path().join("disk").to_str().unwrap());
        // The path of a socket has at most 107 bytes.
        let name = folder.path().file_name().unwrap().to_str().unwrap();
        let socket = std::env::temp_dir().join(format!("platter-{}-{name}", std::process::id()));
        let mut rig = Rig { folder, socket, spec, server: None };
        rig.start();
        rig
    }

    fn start(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_platter"));
        command
            .args(["serve", "--quiet", &self.spec, "--vhost-user-blk"])
            .arg(&self.socket)
            .stdout(Stdio::piped());
        let mut server = Running::start(&mut command);
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("vhost-user-blk"), "{line}");
        self.server = Some(server);
    }

    fn kill(&mut self) {
        drop(self.server.take().unwrap());
    }

    fn file(&self) -> File {
        File::open(self.folder.path().join("disk")).unwrap()
    }

    fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        drop(self.server.take());
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// How many kills: a few, or as many as `PLATTER_KILLS` says.
fn kills() -> u32 {
    std::env::var("PLATTER_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(10)
}

#[test]
fn requests_in_flight_survive_their_server() {
    let mut rig = Rig::new("FILE");
    let mut guest = Guest::new(2, u64::MAX);
    guest.connect(rig.socket());
    let count = u64::from(SLOTS);
    // What each place was last told to hold, and whether that is certain.
    let mut unanswered = [0u64; 2];
    for kill in 0..kills() {
        let value = kill as u8 | 1;
        for (queue, unanswered) in unanswered.iter_mut().enumerate() {
            while !guest.queues[queue].free.is_empty() {
                let slot = *guest.queues[queue].free.last().unwrap();
                let sector = (queue as u64 * count + u64::from(slot)) * SECTORS;
                guest.submit(queue, OUT, sector, &[value; 4096], 4096, 1024);
                *unanswered += 1;
            }
            guest.kick_always(queue);
        }
        // Some requests are answered before the kill, at another point each time.
        for _ in 0..kill % 7 * 3 {
            assert_eq!(guest.wait(0).1.0, 0);
            unanswered[0] -= 1;
        }
        rig.kill();
        rig.start();
        guest.connect(rig.socket());
        for (queue, unanswered) in unanswered.iter_mut().enumerate() {
            for _ in 0..std::mem::take(unanswered) {
                assert_eq!(guest.wait(queue).1.0, 0, "kill {kill}");
            }
        }
        assert_eq!(guest.flush(), 0, "nothing can be lost with a server over a file");
        let mut held = vec![0; 2 * count as usize * 4096];
        rig.file().read_exact_at(&mut held, 0).unwrap();
        assert!(held.iter().all(|byte| *byte == value), "kill {kill}");
    }
}

/// How many flushes fail at the next server, after one was killed that had answered a write, and a flush if `flushed`.
fn failed_flushes(spec: &str, flushed: bool, clean: bool) -> usize {
    let mut rig = Rig::new(spec);
    let mut guest = Guest::new(2, u64::MAX);
    guest.connect(rig.socket());
    assert_eq!(guest.call(1, OUT, 0, &[7; 512], 512).0, 0);
    if flushed {
        assert_eq!(guest.flush(), 0);
    }
    if clean {
        let server = rig.server.take().unwrap();
        assert!(server.end(rustix::process::Signal::TERM).success());
    } else {
        rig.kill();
    }
    rig.start();
    guest.connect(rig.socket());
    // It connects once more before it flushes.
    guest.connect(rig.socket());
    (0..5).take_while(|_| guest.call(0, FLUSH, 0, &[], 0).0 != 0).count()
}

#[test]
fn a_flush_fails_once_if_writes_of_the_guest_were_lost_with_the_server() {
    let cache = "cache(size=1M, FILE)";
    assert_eq!(failed_flushes(cache, false, false), 1);
    assert_eq!(failed_flushes(cache, true, false), 0, "all was durable");
    assert_eq!(failed_flushes(cache, false, true), 0, "the server has flushed at its end");
    assert_eq!(failed_flushes("FILE", false, false), 0, "the server keeps nothing");
}
