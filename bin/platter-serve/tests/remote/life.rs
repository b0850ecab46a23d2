//! Random lives beside a model, at programs that serve a file and are killed again and again.

use crate::kinds::connect;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_remote::nbd::client::NbdOptions;
use platter_remote::nbd::uri::Uri;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tempfile::TempDir;

const SIZE: u64 = 4 << 20;
const BLOCK: u64 = 512;
const KILLS: usize = 12;
const STEPS: u64 = 40;

/// A program that serves a file at a Unix socket.
struct Peer {
    folder: TempDir,
    command: fn(&Path, &Path) -> Command,
    child: Child,
}

fn nbdkit(socket: &Path, file: &Path) -> Command {
    let mut command = Command::new("nbdkit");
    command.args(["-f", "-U"]).arg(socket).arg("file").arg(file);
    command
}

fn qemu_nbd(socket: &Path, file: &Path) -> Command {
    let mut command = Command::new("qemu-nbd");
    command.args(["-f", "raw", "-t", "-e", "8", "-k"]).arg(socket).arg(file);
    command
}

fn spawn(command: &mut Command) -> Option<Child> {
    command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null()).spawn().ok()
}

impl Peer {
    /// `None`, after saying so, if the program is not installed.
    fn new(name: &str, command: fn(&Path, &Path) -> Command) -> Option<Peer> {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let file = folder.path().join("disk.img");
        std::fs::File::create(&file).unwrap().set_len(SIZE).unwrap();
        let Some(child) = spawn(&mut command(&folder.path().join("s"), &file)) else {
            eprintln!("skipped: {name} is not installed");
            return None;
        };
        let peer = Peer { folder, command, child };
        peer.await_socket();
        Some(peer)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    fn await_socket(&self) {
        while std::os::unix::net::UnixStream::connect(self.socket()).is_err() {
            std::thread::yield_now();
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Kills the program whenever it is told to, until the sender is gone. Also restarts it if it ends by itself, which
    /// nbdkit does now and then right after its start.
    fn supervise(&mut self, told: &mpsc::Receiver<()>) {
        loop {
            match told.recv_timeout(Duration::from_millis(5)) {
                Ok(()) => self.kill(),
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
                        continue;
                    }
                }
            }
            self.restart();
        }
    }

    fn restart(&mut self) {
        let _ = std::fs::remove_file(self.socket());
        self.child =
            spawn(&mut (self.command)(&self.socket(), &self.folder.path().join("disk.img"))).unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Life {
    device: Device,
    model: Vec<u8>,
    random: Xoshiro256PlusPlus,
    failed_flushes: u32,
}

impl Life {
    fn below(&mut self, most: u64) -> u64 {
        self.random.next_u64() % most
    }

    /// One call. The server's page cache survives its death, so nothing may be missing at any time.
    fn step(&mut self) {
        let most = if self.below(8) == 0 { 300 } else { 20 };
        let blocks = 1 + self.below(most);
        let at = self.below(SIZE / BLOCK - blocks) * BLOCK;
        let range = at as usize..(at + blocks * BLOCK) as usize;
        match self.below(10) {
            0..=3 => {
                let mut data = vec![0; range.len()];
                self.device.read_at(&mut data, at).unwrap();
                assert!(data == self.model[range], "at {at}");
            }
            4..=7 => {
                let byte = self.random.next_u64() as u8;
                self.model[range.clone()].iter_mut().enumerate().for_each(|(n, cell)| *cell = byte ^ n as u8);
                self.device.write_at(&self.model[range], at).unwrap();
            }
            8 => {
                self.model[range].fill(0);
                self.device.write_zeroes(at, blocks * BLOCK).unwrap();
            }
            _ => {
                if self.device.flush().is_err() {
                    self.failed_flushes += 1;
                    self.device.acknowledge_flush_failure();
                }
            }
        }
    }
}

fn live(name: &str, command: fn(&Path, &Path) -> Command, options: NbdOptions, seed: u64) -> Option<u32> {
    let mut peer = Peer::new(name, command)?;
    let options = options.with_reconnect(Span::from_secs(120));
    let elevator = if options.connections == 1 { "noop" } else { "none" };
    let device = connect(Uri::unix(peer.socket(), ""), elevator, options);
    let random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut life = Life { device, model: vec![0; SIZE as usize], random, failed_flushes: 0 };
    let (tell, told) = mpsc::channel();
    let supervisor = std::thread::spawn(move || {
        peer.supervise(&told);
        peer
    });
    for _ in 0..KILLS {
        // One thread lives while another kills, so that requests are cut at any place.
        let at = life.below(STEPS);
        for step in 0..STEPS {
            if step == at {
                tell.send(()).unwrap();
            }
            life.step();
        }
    }
    let mut all = vec![0; SIZE as usize];
    life.device.read_at(&mut all, 0).unwrap();
    assert!(all == life.model, "{name}");
    drop(tell);
    supervisor.join().unwrap();
    let facts = life.device.facts();
    let reconnects = facts.iter().find(|fact| fact.0 == "reconnects").map(|fact| fact.1.clone()).unwrap();
    assert!(reconnects.parse::<u32>().unwrap() > 0, "{name} was killed");
    Some(life.failed_flushes)
}

type Server = (&'static str, fn(&Path, &Path) -> Command);

const PEERS: [Server; 2] = [("nbdkit", nbdkit), ("qemu-nbd", qemu_nbd)];

#[test]
fn nothing_is_missing_after_a_server_was_killed() {
    for (name, command) in PEERS {
        for seed in 0..3 {
            live(name, command, NbdOptions::default(), seed);
        }
    }
}

#[test]
fn nothing_is_missing_with_several_connections() {
    live("nbdkit", nbdkit, NbdOptions::default().with_connections(3), 7);
}

#[test]
fn with_replay_no_flush_fails_either() {
    for (name, command) in PEERS {
        let failed = live(name, command, NbdOptions::default().with_replay(64 << 20), 9);
        assert_eq!(failed.unwrap_or(0), 0, "{name}");
    }
}
