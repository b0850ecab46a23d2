//! The first signal ends every verb, wherever it waits, with the exit status of docs/command.md.

use crate::run::{ok, platter, stderr, text};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use rustix::process::{Pid, Signal, kill_process};
use std::any::Any;
use std::collections::BTreeSet;
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;
use tempfile::tempdir;

/// What a verb waits for.
#[derive(Clone, Copy, PartialEq)]
enum For {
    /// A named pipe that has no writer: the argument AT.
    Pipe,
    /// A Unix socket that accepts and says nothing.
    Socket,
    /// The same over TCP.
    Tcp,
}

use For::{Pipe, Socket, Tcp};

/// Every verb that opens something, with arguments with which it waits there.
const WAITS: &[(&str, For, &str)] = &[
    ("bench chunked", Pipe, "--on @AT"),
    ("bench dm", Pipe, "--on @AT"),
    ("bench dsw", Pipe, "--recording AT --on ram(1M)"),
    ("bench fileio", Pipe, "--on @AT --file-test-mode rndrd"),
    ("bench io", Pipe, "--on @AT --rw read"),
    ("bench io", Pipe, "AT"),
    ("bench locks", Pipe, "--on @AT"),
    ("bench nbd", Pipe, "--on @AT"),
    ("bench parallel-read", Pipe, "--on @AT --mode direct"),
    ("bench schedulers", Pipe, "--on @AT"),
    ("check", Pipe, "AT"),
    ("compare", Pipe, "AT AT"),
    ("copy", Pipe, "@AT ram(1M)"),
    ("copy", Pipe, "ram(1M) @AT"),
    ("copy", Pipe, "--rescue AT ram(1M) ram(1M)"),
    ("copy", Tcp, "nbd://AT/ ram(1M)"),
    ("crash replay", Pipe, "AT"),
    ("crash run", Pipe, "--dir AT.d --check true -- cat AT"),
    ("ctl", Socket, "AT device.list"),
    ("info", Pipe, "@AT"),
    ("info", Pipe, "sim(AT)"),
    ("info", Tcp, "nbd://AT/"),
    ("info", Tcp, "iscsi://AT/iqn.2026-01.org.example:disk/0"),
    ("info", Socket, "served(AT)"),
    ("iscsi discover", Tcp, "AT"),
    ("map", Pipe, "@AT"),
    ("nvme id", Pipe, "--on @AT"),
    ("nvme log", Pipe, "--on @AT 02"),
    ("nvme ns", Pipe, "--on @AT"),
    ("nvme raw", Pipe, "--on @AT identify"),
    ("nvme smart", Pipe, "--on @AT"),
    ("raid check", Pipe, "@AT"),
    ("raid create", Pipe, "@AT"),
    ("raid examine", Pipe, "@AT"),
    ("raid wipe", Pipe, "--force @AT"),
    ("readahead", Pipe, "--trace AT"),
    ("scsi inq", Pipe, "--on @AT"),
    ("scsi log", Pipe, "--on @AT 0"),
    ("scsi luns", Pipe, "--on @AT"),
    ("scsi modes", Pipe, "--on @AT"),
    ("scsi raw", Pipe, "--on @AT 000000000000"),
    ("scsi readcap", Pipe, "--on @AT"),
    ("scsi sense", Pipe, "--on @AT"),
    ("scsi vpd", Pipe, "--on @AT"),
    ("serve", Pipe, "--config AT"),
    ("serve", Pipe, "@AT --nbd 127.0.0.1:0"),
    ("serve", Tcp, "nbd://AT/ --nbd 127.0.0.1:0"),
    ("sim show", Pipe, "AT"),
    ("sim validate", Pipe, "--disk AT --trace AT"),
    ("snapshot merge", Pipe, "@AT ram(1M)"),
    ("status", Socket, "AT"),
    ("top", Socket, "--once AT"),
    ("trace convert", Pipe, "AT AT.dump"),
    ("trace replay", Pipe, "AT --on ram(1M)"),
    ("trace report", Pipe, "AT"),
];

/// Verbs that open nothing of the user's.
const NEVER: &[&str] = &[
    "completions",
    "list",
    "man",
    "nvme decode",
    "nvme list",
    "repro",
    "scsi decode",
    "sim host show",
    "sim list",
    "sim soak",
];

/// The verbs below a group, from its help.
fn verbs(group: &[&str]) -> BTreeSet<String> {
    let help = ok(&[group, &["--help"]].concat());
    let Some((_, commands)) = help.split_once("\nCommands:\n") else {
        return BTreeSet::from([group.join(" ")]);
    };
    let lines = commands.lines().take_while(|line| !line.is_empty());
    let names =
        lines.filter(|line| !line[2..].starts_with(' ')).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").flat_map(|name| verbs(&[group, &[name]].concat())).collect()
}

/// A verb that has begun to wait.
struct Waiting {
    what: String,
    child: Child,
    signal: Signal,
    /// What it waits for.
    _held: Box<dyn Any>,
}

/// Tries until it works; a child that has ended is a failed test.
pub(crate) fn until<T>(what: &str, child: &mut Child, mut attempt: impl FnMut() -> io::Result<T>) -> T {
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => panic!("{what}: {error}"),
        }
        if let Some(status) = child.try_wait().unwrap() {
            let mut said = String::new();
            let _ = child.stderr.as_mut().map(|stderr| io::Read::read_to_string(stderr, &mut said));
            panic!("{what} has ended with {status}: {said}");
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Opens a pipe for writing if it has a reader.
pub(crate) fn writer(path: &Path) -> io::Result<Box<dyn Any>> {
    match open(path, OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()) {
        Ok(fd) => Ok(Box::new(fd)),
        Err(rustix::io::Errno::NXIO) => Err(io::ErrorKind::WouldBlock.into()),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

/// SIGHUP, or SIGTERM where this process and so its children ignore SIGHUP, as under `nohup`.
pub(crate) fn hangup() -> Signal {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    match u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 {
        0 => Signal::HUP,
        _ => Signal::TERM,
    }
}

/// Starts a verb, and returns when it waits.
fn begin(dir: &Path, number: usize, (verb, kind, args): (&str, For, &str)) -> Waiting {
    let at = dir.join(number.to_string());
    let (unix, tcp) = match kind {
        Pipe => (None, None),
        Socket => (Some(UnixListener::bind(&at).unwrap()), None),
        Tcp => (None, Some(TcpListener::bind("127.0.0.1:0").unwrap())),
    };
    if kind == Pipe {
        pipe(&at);
    }
    let place = tcp.as_ref().map_or(text(&at).to_owned(), |tcp| tcp.local_addr().unwrap().to_string());
    let what = format!("{verb} {args}");
    let mut command = platter();
    command.args(verb.split(' ')).args(args.split(' ').map(|arg| arg.replace("AT", &place)));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let held: Box<dyn Any> = match (unix, tcp) {
        (Some(unix), _) => {
            unix.set_nonblocking(true).unwrap();
            Box::new((until(&what, &mut child, || unix.accept()), unix))
        }
        (_, Some(tcp)) => {
            tcp.set_nonblocking(true).unwrap();
            Box::new((until(&what, &mut child, || tcp.accept()), tcp))
        }
        _ => until(&what, &mut child, || writer(&at)),
    };
    let signal = [Signal::TERM, Signal::INT, hangup()][number % 3];
    Waiting { what, child, signal, _held: held }
}

fn needs_libiscsi((verb, _, args): &(&str, For, &str)) -> bool {
    verb.starts_with("iscsi ") || args.starts_with("iscsi://")
}

fn lacks_libiscsi() -> bool {
    let output =
        platter().args(["info", "iscsi://127.0.0.1:1/iqn.2026-01.org.example:disk/0"]).output().unwrap();
    stderr(&output).contains("libiscsi is not installed")
}

#[test]
fn the_first_signal_ends_every_verb_where_it_waits() {
    let covered: BTreeSet<String> =
        WAITS.iter().map(|row| row.0).chain(NEVER.iter().copied()).map(str::to_owned).collect();
    assert_eq!(verbs(&[]), covered, "each verb has a row in one of the lists");
    let dir = tempdir().unwrap();
    let lacks = lacks_libiscsi();
    if lacks {
        println!("skipped in part: libiscsi is not installed");
    }
    let rows = (0..).zip(WAITS).filter(|(_, row)| !lacks || !needs_libiscsi(row));
    let waiting: Vec<Waiting> = rows.map(|(number, row)| begin(dir.path(), number, *row)).collect();
    for waiting in &waiting {
        kill_process(Pid::from_child(&waiting.child), waiting.signal).unwrap();
    }
    for waiting in waiting {
        let output = waiting.child.wait_with_output().unwrap();
        let status = 128 + waiting.signal.as_raw();
        assert_eq!(output.status.code(), Some(status), "{}: {}", waiting.what, stderr(&output));
        assert!(stderr(&output).contains("interrupted"), "{}: {}", waiting.what, stderr(&output));
    }
}
