//! `platter serve` as a daemon: configuration, control, metrics, signals; and the verbs that talk to it.

use crate::run::{fails, fails_saying, ok, platter, run, stderr};
use crate::running::Running;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A running server with a directory of its own.
pub(crate) struct Server {
    dir: TempDir,
    child: Running,
    out: BufReader<ChildStdout>,
}

pub(crate) const CONFIG: &str = "
[server]
control = 'DIR/control'
metrics = '127.0.0.1:0'
stop_timeout = '60s'

[devices.scratch]
spec = 'ram(16M, elevator=deadline)'
limits = { iops = 100_000 }

[devices.cached]
spec = 'cache(size=1M, ram(8M))'
read_only = true

[exports.main]
kind = 'nbd'
address = 'unix:DIR/nbd'
";

impl Server {
    /// Starts a server on a configuration in which DIR stands for its directory; waits until it serves.
    pub(crate) fn start(config: &str, args: &[&str]) -> Server {
        Server::start_with(config, args, |_| {})
    }

    /// As [`start`](Server::start); `prepare` fills the directory first.
    pub(crate) fn start_with(config: &str, args: &[&str], prepare: impl FnOnce(&Path)) -> Server {
        let dir = tempfile::tempdir().unwrap();
        prepare(dir.path());
        let path = |text: &str| text.replace("DIR", &dir.path().display().to_string());
        std::fs::write(dir.path().join("platter.toml"), path(config)).unwrap();
        let mut command = platter();
        command.args(["serve", "--config"]).arg(dir.path().join("platter.toml"));
        command.args(args.iter().map(|arg| path(arg)));
        command.env("NOTIFY_SOCKET", dir.path().join("notify"));
        command.stdout(Stdio::piped()).stderr(std::fs::File::create(dir.path().join("log")).unwrap());
        let notify = UnixDatagram::bind(dir.path().join("notify")).unwrap();
        notify.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let mut child = Running::start(&mut command);
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut state = [0; 256];
        let length = notify.recv(&mut state).expect("the server is ready within two minutes");
        let state = String::from_utf8_lossy(&state[..length]);
        assert!(
            state.starts_with("READY=1\n") && state.contains(&format!("MAINPID={}", child.id())),
            "{state}"
        );
        Server { dir, child, out }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn control(&self) -> String {
        self.path("control").display().to_string()
    }

    pub(crate) fn ctl(&self, args: &[&str]) -> Value {
        let control = self.control();
        serde_json::from_str(&ok(&[&["ctl", &control, "--json"], args].concat())).unwrap()
    }

    /// The next lines of stdout.
    pub(crate) fn lines(&mut self, count: usize) -> Vec<String> {
        let mut lines = vec![String::new(); count];
        lines.iter_mut().for_each(|line| _ = self.out.read_line(line).unwrap());
        lines
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end. Returns the exit status, what was not read of stdout, and the log.
    fn end(mut self) -> (Option<i32>, String, String) {
        let status = self.child.wait().unwrap().code();
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        (status, rest, std::fs::read_to_string(self.path("log")).unwrap())
    }

    fn log_says(&self, text: &str) -> bool {
        std::fs::read_to_string(self.path("log")).unwrap().contains(text)
    }
}

#[test]
fn a_server_is_watched_tuned_and_drained() {
    let mut server = Server::start(CONFIG, &["--pidfile", "DIR/pid"]);
    let lines = server.lines(2);
    assert!(
        lines[0].starts_with("serving scratch, cached at nbd ") && lines[0].contains("/nbd"),
        "{lines:?}"
    );
    let metrics = lines[1]
        .trim()
        .strip_prefix("serving metrics at http://")
        .and_then(|rest| rest.strip_suffix("/metrics"))
        .expect("the address")
        .to_owned();
    let pid: u32 = std::fs::read_to_string(server.path("pid")).unwrap().trim().parse().unwrap();
    assert_eq!(pid, server.child.id());

    let list = server.ctl(&["device.list"]);
    assert_eq!((&list[0]["name"], &list[1]["read_only"]), (&json!("scratch"), &json!(true)));
    let changed = server.ctl(&["device.elevator", "device=scratch", "elevator=none"]);
    assert_eq!(changed["elevator"], "none");
    let limits = server.ctl(&["device.limits", "device=scratch", "bandwidth_bytes_per_second=200M"]);
    assert_eq!(
        (&limits["bandwidth_bytes_per_second"], &limits["iops"]),
        (&json!(200 << 20), &json!(100_000))
    );
    let address = format!("address=unix:{}", server.path("second").display());
    server.ctl(&["export.add", "export=more", "kind=nbd", &address]);
    assert!(server.path("second").exists());
    assert_eq!(server.ctl(&["export.list"])[1]["name"], "more");
    server.ctl(&["export.remove", "export=more"]);
    assert_eq!(server.ctl(&["server.info"])["protocol"], 1);
    parameters_are_set(&server);

    reports_and_refusals(&server);
    let mut stream = TcpStream::connect(&metrics).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("platter_device_size_bytes{device=\"scratch\"} 16777216\n"), "{text}");

    let second = run(&[
        "serve",
        "ram(1M)",
        "--nbd",
        "127.0.0.1:0",
        "--pidfile",
        &server.path("pid").display().to_string(),
    ]);
    assert!(
        second.status.code() == Some(4) && stderr(&second).contains(&pid.to_string()),
        "{}",
        stderr(&second)
    );
    let (pid_path, control) = (server.path("pid"), server.path("control"));
    server.ctl(&["server.drain"]);
    let (status, _, log) = server.end();
    assert_eq!(status, Some(0), "{log}");
    assert!(log.contains("platter: stopping\n") && log.contains("platter: stopped\n"), "{log}");
    assert!(!pid_path.exists() && !control.exists());
}

/// The value of a parameter may have a unit.
fn parameters_are_set(server: &Server) {
    let set = |name: &str, value: &str| {
        let (name, value) = (format!("param={name}"), format!("value={value}"));
        let layers = server.ctl(&["device.set_layer_param", "device=cached", &name, &value]);
        let params = layers[0]["params"].as_array().unwrap();
        let set = params.iter().find(|param| name.ends_with(param["name"].as_str().unwrap())).unwrap();
        set["value"].clone()
    };
    assert_eq!(set("expire", "10s"), 10_000);
    assert_eq!(set("expire", "500"), 500);
    assert_eq!(set("gather", "2K"), 2048);
    assert_eq!(set("size", "512K"), 512 << 10);
    let control = server.control();
    let wrong = ["ctl", &control, "device.set_layer_param", "device=cached", "param=expire", "value=soon"];
    fails_saying(2, &wrong, &["expire: expected a time, found `soon`"]);
    // For people, what was set and nothing else, also where the output has no width.
    let set = ["ctl", &control, "device.set_layer_param", "device=cached", "param=expire", "value=1s"];
    let shown = ok(&set);
    let last: Vec<&str> = shown.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(last, ["cached", "cache", "expire", "1000", "ms"]);
    assert!(!shown.contains("gather"), "{shown}");
    for method in [&["device.layers", "device=cached"] as &[_], &["device.list"]] {
        let shown = ok(&[&["ctl", control.as_str()], method].concat());
        assert!(shown.contains("dirty_pages") && shown.lines().all(|line| line.len() < 200), "{shown}");
    }
}

/// What the other verbs say of the server.
fn reports_and_refusals(server: &Server) {
    let control = server.control();
    let status = ok(&["status", &control]);
    for word in ["scratch", "16 MiB", "read-write", "main", "health: ok"] {
        assert!(status.contains(word), "{word} is not in {status}");
    }
    let whole: Value = serde_json::from_str(&ok(&["status", &control, "--json"])).unwrap();
    assert_eq!((&whole["health"]["status"], &whole["devices"][1]["name"]), (&json!("ok"), &json!("cached")));
    let methods = ok(&["ctl", &control]);
    assert!(methods.contains("device.elevator device=… elevator=…"), "{methods}");
    let table = ok(&["ctl", &control, "export.list"]);
    assert!(table.contains("address") && table.contains("main"), "{table}");
    fails_saying(2, &["ctl", &control, "device.lst"], &["did you mean device.list?"]);
    fails_saying(
        2,
        &["ctl", &control, "device.limits", "device=scratch", "depth=many"],
        &["depth", "an integer"],
    );
    fails_saying(2, &["ctl", &control, "device.list", "x"], &["NAME=VALUE"]);
    fails_saying(4, &["ctl", &control, "device.add", "device=x", "spec=/nowhere/x.img"], &["/nowhere/x.img"]);
    fails_saying(3, &["status", "/nowhere/control"], &["/nowhere/control", "start a server"]);
    fails_saying(2, &["top", &control], &["--once"]);
}

#[test]
fn a_hangup_reads_the_configuration_again_and_a_term_ends_it() {
    let server = Server::start(CONFIG, &["--log", "json"]);
    let file = server.path("platter.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let wait_for = |what: &str| {
        while !server.log_says(what) {
            std::thread::yield_now();
        }
    };
    std::fs::write(&file, text.replace("100_000", "5") + "[devices.new]\nspec = 'ram(1M)'\n").unwrap();
    server.signal(Signal::HUP);
    wait_for("device new added");
    assert_eq!(server.ctl(&["device.list"])[0]["limits"]["iops"], 5);
    std::fs::write(&file, "[devices").unwrap();
    server.signal(Signal::HUP);
    wait_for("nothing was changed");
    server.signal(Signal::TERM);
    let (status, _, log) = server.end();
    assert_eq!(status, Some(0), "{log}");
    for line in log.lines() {
        let object: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"));
        assert!(
            object["timestamp"].is_string() && object["level"].is_string() && object["event"].is_string(),
            "{line}"
        );
    }
}

#[test]
fn a_server_that_waits_for_its_configuration_can_be_stopped() {
    let mut server = Server::start(CONFIG, &[]);
    let file = server.path("platter.toml");
    std::fs::remove_file(&file).unwrap();
    crate::signals::pipe(&file);
    server.signal(Signal::HUP);
    let held = crate::signals::until("serve", &mut server.child, || crate::signals::writer(&file));
    server.signal(Signal::TERM);
    let (status, _, log) = server.end();
    assert!(status == Some(0) && log.contains("stopped"), "{status:?}: {log}");
    drop(held);
}

#[test]
fn a_write_beyond_the_file_size_limit_fails_and_the_server_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    std::fs::File::create(path("disk")).unwrap().set_len(4 << 20).unwrap();
    let script = "ulimit -f 1024; exec \"$0\" serve \"$1\" --nbd unix:\"$2\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_platter"), &path("disk"), &path("nbd")]);
    let mut child = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    let out = BufReader::new(child.stdout.take().unwrap());
    let mut server = Server { dir, child, out };
    server.out.read_line(&mut String::new()).unwrap();
    let disk = format!("nbd(nbd+unix:///?socket={})", server.path("nbd").display());
    fails_saying(1, &["copy", "--sparse", "never", "ram(4M)", &disk], &["write", "space"]);
    ok(&["copy", "--sparse", "never", "ram(64K)", &disk]);
    server.signal(Signal::TERM);
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[test]
fn top_shows_what_clients_do() {
    let found = Command::new("qemu-io").arg("--version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no qemu-io");
        return;
    }
    let server = Server::start(CONFIG, &[]);
    let uri = format!("nbd+unix:///scratch?socket={}", server.path("nbd").display());
    let mut client = Command::new("qemu-io");
    client.args(["-f", "raw", &uri]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut client = Running::start(&mut client);
    let mut input = client.stdin.take().unwrap();
    input.write_all(b"write -P 7 0 1M\n").unwrap();
    input.flush().unwrap();
    let control = server.control();
    let clients = loop {
        let clients = server.ctl(&["client.list"]);
        if clients[0]["written_bytes"].as_u64().is_some_and(|bytes| bytes >= 1 << 20) {
            break clients;
        }
        assert!(client.try_wait().unwrap().is_none(), "qemu-io has ended");
    };
    let number = clients[0]["client"].as_u64().unwrap().to_string();
    assert_eq!((&clients[0]["device"], &clients[0]["written_bytes"]), (&json!("scratch"), &json!(1 << 20)));
    let limits = server.ctl(&["client.limits", &format!("client={number}"), "iops=50", "weight=3"]);
    assert_eq!((&limits["iops"], &limits["weight"]), (&json!(50), &json!(3)));
    let top: Value =
        serde_json::from_str(&ok(&["top", "--once", "--interval", "100ms", "--json", &control])).unwrap();
    assert_eq!((&top["clients"][0]["device"], &top["health"]), (&json!("scratch"), &json!("ok")));
    let names: Vec<&Value> =
        top["devices"].as_array().unwrap().iter().map(|device| &device["name"]).collect();
    assert_eq!(names, [&json!("scratch"), &json!("cached")]);
    let shown = ok(&["top", "--once", "--interval", "100ms", "--sort", "name", &control]);
    let at = |name: &str| shown.lines().position(|line| line.starts_with(name)).unwrap();
    assert!(at("cached") < at("scratch"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    server.ctl(&["client.disconnect", &format!("client={number}")]);
    while server.ctl(&["client.list"]) != json!([]) {
        std::thread::yield_now();
    }
    assert!(server.log_says("is gone"));
    drop(input);
    client.wait().unwrap();
    server.signal(Signal::INT);
    let (status, _, log) = server.end();
    assert_eq!(status, Some(0), "{log}");
}

#[test]
fn a_wrong_configuration_is_refused_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.toml");
    let file = path.display().to_string();
    std::fs::write(&path, "[devices.a]\nspec = 'ram(1M)'\nlimits = { ipos = 1 }\n").unwrap();
    let place = format!("{file}:3:12: devices.a.limits has no key ipos; did you mean iops?");
    fails_saying(2, &["check", &file], &[&place]);
    fails_saying(2, &["serve", "--config", &file], &[&place]);
    let checked = run(&["check", &file, "--json"]);
    let found: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!((&found["ok"], &found["errors"][0]["line"]), (&json!(false), &json!(3)));
    assert_eq!(checked.status.code(), Some(2));
    std::fs::write(&path, "[devices.a]\nspec = 'ram(1M)'\n").unwrap();
    assert!(ok(&["check", &file]).contains("devices: 1, exports: 0"));
    std::fs::write(&path, "[devices.a]\nspec = '/nowhere/a.img'\n").unwrap();
    fails_saying(3, &["serve", "--config", &file], &["device a: ", "/nowhere/a.img"]);
    assert!(fails(2, &["serve", "--config", &file, "--read-only"]).contains("--read-only"));
    assert!(fails(2, &["serve"]).contains("required"));
    std::fs::write(&path, "[server]\nmetrics = '0.0.0.0:0'").unwrap();
    fails_saying(2, &["serve", "--config", &file], &["loopback", "insecure_plaintext"]);
}
