//! A server with few descriptors, and one whose stop is not clean.

use platter_serve::control::Call;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// Ends the server, whatever happens.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server in a folder, with this command in front of it, and waits until it serves.
fn start(folder: &Path, shell: &str, spec: &str, options: &[&str]) -> Server {
    let mut server = Command::new("/bin/sh")
        .args(["-c", &format!("{shell} exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_platter"), "serve", spec])
        .args(["--nbd", "unix:n", "--control", "c", "--stop-timeout", "20s"])
        .args(options)
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("unix:"), "{line}");
    Server(server)
}

/// Signals the server to stop, and returns what it has written to stderr and its exit status.
fn stop(server: &mut Server) -> (String, Option<i32>) {
    let id = Pid::from_raw(server.0.id().try_into().unwrap()).unwrap();
    kill_process(id, Signal::TERM).unwrap();
    let mut text = String::new();
    server.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    (text, server.0.wait().unwrap().code())
}

#[test]
fn a_server_without_descriptors_still_answers_at_its_control_socket() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut server = start(folder.path(), "ulimit -n 64;", "ram(1M)", &["--handshake-timeout", "600s"]);
    let connections: Vec<_> =
        (0..80).map(|_| UnixStream::connect(folder.path().join("n")).unwrap()).collect();
    let control = folder.path().join("c");
    let refused = loop {
        // Each is answered, also if it comes before the server has taken all connections.
        let health = Call::connect(&control, LONG).unwrap().call("server.health", json!({})).unwrap();
        if health["refused"]["descriptors"] != 0 {
            break health;
        }
    };
    assert_eq!(
        (&refused["status"], &refused["problems"][0]["kind"]),
        (&json!("degraded"), &json!("clients-refused"))
    );
    let status = Command::new(env!("CARGO_BIN_EXE_platter")).arg("status").arg(&control).output().unwrap();
    let text = String::from_utf8(status.stdout).unwrap();
    assert!(status.status.success() && text.contains("clients-refused") && text.contains("of 12,"), "{text}");
    drop(connections);
    let (text, status) = stop(&mut server);
    assert!(
        text.contains("at most 12 clients instead of 1024") && text.contains("too few descriptors"),
        "{text}"
    );
    assert_eq!(status, Some(0), "{text}");
}

#[test]
fn the_last_lines_of_a_json_log_are_json() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut server = start(folder.path(), "", "error(op=flush, ram(1M))", &["--log", "json"]);
    let (text, status) = stop(&mut server);
    assert_eq!(status, Some(1), "{text}");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(lines.iter().any(|line| line["event"] == "stop-problem"), "{text}");
}
