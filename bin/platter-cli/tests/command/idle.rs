//! What a server with clients that do nothing costs: no wake-ups, and little memory.

use crate::daemon::Server;
use crate::run::ok;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

const CONFIG: &str = "
[server]
control = 'DIR/control'
metrics = '127.0.0.1:0'

[devices.a]
spec = 'ram(16M, elevator=deadline)'
[devices.b]
spec = 'cache(size=4M, ram(16M))'
[devices.c]
spec = 'DIR/c.img'
[devices.d]
spec = 'null(16M)'

[exports.one]
kind = 'nbd'
address = 'unix:DIR/one'
[exports.two]
kind = 'nbd'
address = 'unix:DIR/two'
[exports.three]
kind = 'nbd'
address = 'unix:DIR/three'
[exports.four]
kind = 'nbd'
address = '127.0.0.1:0'
";

const CLIENTS: usize = 100;

/// What another process does while the server is watched: 3,000 I/Os of a device of its own, 1,000 a second.
const MEANWHILE: [&str; 12] = [
    "bench",
    "io",
    "--on",
    "null(64M)",
    "--rw",
    "randread",
    "--bs",
    "4k",
    "--number_ios",
    "3000",
    "--rate_iops",
    "1000",
];

/// How often a stretch may be repeated: a thread that has answered a client may go to sleep a little later.
const TRIES: usize = 5;

/// Connects, chooses a device, and reads a block of it.
fn client(path: &std::path::Path, device: &str) -> UnixStream {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    let mut hello = 3u32.to_be_bytes().to_vec();
    hello.extend(b"IHAVEOPT");
    hello.extend(1u32.to_be_bytes());
    hello.extend((device.len() as u32).to_be_bytes());
    hello.extend(device.as_bytes());
    stream.write_all(&hello).unwrap();
    stream.read_exact(&mut [0; 10]).unwrap();
    let mut read = 0x2560_9513_u32.to_be_bytes().to_vec();
    read.extend([0; 4]); // No flags; a read.
    read.extend(7u64.to_be_bytes());
    read.extend(0u64.to_be_bytes());
    read.extend(4096u32.to_be_bytes());
    stream.write_all(&read).unwrap();
    stream.read_exact(&mut [0; 16 + 4096]).unwrap();
    stream
}

/// A number of a file such as `/proc/PID/status`.
fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name}"));
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// How often each thread of a process has slept, with its name.
fn sleeps(pid: u32) -> Vec<(String, u64)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut all: Vec<(String, u64)> = tasks
        .map(|task| {
            let task = task.unwrap().path();
            let status = fs::read_to_string(task.join("status")).unwrap();
            let name = fs::read_to_string(task.join("comm")).unwrap();
            let id = task.file_name().unwrap().to_string_lossy().into_owned();
            (format!("{} {id}", name.trim()), field(&status, "voluntary_ctxt_switches:"))
        })
        .collect();
    all.sort();
    all
}

#[test]
fn a_server_with_a_hundred_idle_clients_sleeps_and_is_small() {
    let server = Server::start_with(CONFIG, &[], |dir| {
        fs::File::create(dir.join("c.img")).unwrap().set_len(16 << 20).unwrap();
    });
    let clients: Vec<UnixStream> = (0..CLIENTS)
        .map(|number| {
            let export = server.path(["one", "two", "three"][number % 3]);
            client(&export, ["a", "b", "c", "d"][number % 4])
        })
        .collect();
    let pid = server.pid();
    let mut woken = Vec::new();
    for _ in 0..TRIES {
        let before = sleeps(pid);
        ok(&MEANWHILE);
        let after = sleeps(pid);
        woken = after.iter().filter(|thread| !before.contains(thread)).cloned().collect();
        if woken.is_empty() {
            break;
        }
    }
    assert!(woken.is_empty(), "threads that woke up while nothing happened: {woken:?}");
    // Not the pages of the program, which are as many as the build has made them.
    let anonymous = field(&fs::read_to_string(format!("/proc/{pid}/status")).unwrap(), "RssAnon:");
    eprintln!("resident: {anonymous} KiB of its own with {CLIENTS} clients");
    assert!(anonymous < 16 << 10, "{anonymous} KiB of its own are resident");
    assert_eq!(server.ctl(&["client.list"]).as_array().unwrap().len(), CLIENTS);
    drop(clients);
}
