//! Socket activation: `platter serve --nbd systemd:NAME` with sockets that the test keeps, as a service manager does.

use crate::run::{fails_saying, ok, platter, text};
use crate::running::Running;
use rustix::process::Signal;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a service manager does before it starts a server: standard input and error are the sockets 3 and 4, and the number
/// of the process is known only to the process itself.
const START: &str = "log=$1; shift; exec 3<&0 4>&2 0</dev/null 2>\"$log\"; LISTEN_PID=$$ exec \"$@\"";

/// Starts a server with two inherited sockets; returns it and the lines that say what it serves.
fn start(sockets: [OwnedFd; 2], log: &Path, addresses: &[&str]) -> (Running, Vec<String>) {
    let [first, second] = sockets;
    let mut command = Command::new("sh");
    command.args(["-c", START, "sh", text(log), env!("CARGO_BIN_EXE_platter"), "serve", "ram(1M)"]);
    addresses.iter().for_each(|address| _ = command.args(["--nbd", address]));
    command.env("LISTEN_FDS", "2").env("LISTEN_FDNAMES", "local:net").env_remove("NOTIFY_SOCKET");
    let mut child = Running::start(command.stdin(first).stderr(second).stdout(Stdio::piped()));
    // Its copies of the sockets.
    drop(command);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut lines = vec![String::new(); addresses.len()];
    lines.iter_mut().for_each(|line| _ = out.read_line(line).unwrap());
    (child, lines)
}

fn end(child: Running, log: &Path) {
    let mut told = String::new();
    let status = child.end(Signal::TERM);
    File::open(log).unwrap().read_to_string(&mut told).unwrap();
    assert!(status.success(), "{told}");
}

#[test]
fn inherited_sockets_are_served_and_outlive_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let (path, log) = (dir.path().join("socket"), dir.path().join("log"));
    let unix = UnixListener::bind(&path).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap();
    let sockets = || [OwnedFd::from(unix.try_clone().unwrap()), tcp.try_clone().unwrap().into()];
    let over_unix = format!("nbd+unix:///?socket={}", path.display());
    let over_tcp = format!("nbd://{port}/");
    for life in 0..2 {
        // A client that comes before the server is there waits for it.
        let early = Running::start(platter().args(["info", &over_unix]).stdout(Stdio::piped()));
        let (child, lines) = start(sockets(), &log, &["systemd:net", "systemd:local"]);
        assert!(lines[0].contains(&format!("nbd {port}")), "{lines:?}");
        assert!(lines[1].contains(&format!("nbd unix:{}", path.display())), "{lines:?}");
        let early = early.output();
        assert!(
            early.status.success() && String::from_utf8_lossy(&early.stdout).contains("1 MiB"),
            "life {life}"
        );
        assert!(ok(&["info", &over_tcp]).contains("1 MiB"));
        end(child, &log);
        assert!(path.exists(), "the socket belongs to the service manager");
    }
}

#[test]
fn sockets_that_are_not_there_are_named() {
    fails_saying(2, &["serve", "ram(1M)", "--nbd", "systemd:x"], &["no inherited socket", "LISTEN_FDS"]);
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let refused = |address: &str, part: &str| {
        let unix = UnixListener::bind(dir.path().join(part)).unwrap();
        let (mut child, _) = start([unix.try_clone().unwrap().into(), unix.into()], &log, &[address]);
        assert_eq!(child.wait().unwrap().code(), Some(2));
        let told = std::fs::read_to_string(&log).unwrap();
        assert!(told.contains(part) && told.contains("local, net"), "{told}");
    };
    refused("systemd:other", "called \"other\"");
    refused("systemd", "several inherited sockets");
}
