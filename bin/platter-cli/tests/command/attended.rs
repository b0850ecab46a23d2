//! A running server is traced and brought to rest by `ctl`, and the commands that docs/serve.md shows are run.

use crate::daemon::{CONFIG, Server};
use crate::run::{fails_saying, ok, platter};
use crate::running::Running;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;

#[test]
fn a_device_is_traced_and_brought_to_rest() {
    let server = Server::start(CONFIG, &[]);
    let control = server.control();
    let file = format!("file={}", server.path("trace").display());
    let begun = server.ctl(&["device.trace", "device=scratch", &file]);
    assert_eq!((&begun["format"], &begun["error"]), (&json!("text"), &Value::Null));
    let again = ["ctl", &control, "device.trace", "device=scratch", &file];
    fails_saying(4, &again, &["scratch", "traced already"]);

    let image = server.path("image");
    fs::write(&image, vec![7; 1 << 20]).unwrap();
    ok(&["copy", &image.display().to_string(), &format!("served({control}, scratch)")]);
    let rest = server.ctl(&["device.drain", "device=scratch"]);
    assert!(rest["done"] == true && rest["held_us"].is_u64(), "{rest}");
    let ended = server.ctl(&["device.trace_stop", "device=scratch"]);
    let text = fs::read_to_string(server.path("trace")).unwrap();
    assert_eq!(ended["written_bytes"], text.len());
    assert!(text.lines().count() > 2 && text.ends_with('\n'), "{text}");

    fails_saying(4, &["ctl", &control, "device.trace_stop", "device=scratch"], &["scratch"]);
    fails_saying(2, &["ctl", &control, "device.drain", "device=no"], &["\"no\"", "scratch, cached"]);
    let odd = ["ctl", &control, "device.trace", "device=scratch", &file, "format=xml"];
    fails_saying(2, &odd, &["xml", "text", "blktrace"]);
}

/// What only some machines can do, with the words by which a command that needs it is known.
const NEEDS: [(&str, &str); 9] = [
    ("create=", "the quick start, which tests/serve/page.rs runs as a whole"),
    ("--tls-cert", "a certificate of the user's"),
    ("systemd", "a socket that a service manager passes on"),
    ("--ublk", "a driver of the kernel, and its rights"),
    ("--fuse", "a mount; the tests of the FUSE export do it"),
    ("--vhost-user-blk", "a virtual machine; the tests of the export have a front end"),
    ("--iscsi", "an initiator; the tests of the export have one"),
    ("//storage", "a server on another machine"),
    ("--config", "the configuration, which has tests of its own"),
];

/// The commands `platter serve` of docs/serve.md that every machine can run.
fn commands() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/serve.md");
    let page = fs::read_to_string(page).unwrap();
    let shown = page.lines().filter_map(|line| line.strip_prefix("    platter serve "));
    let runs = |line: &&str| !NEEDS.iter().any(|(word, _)| line.contains(word));
    shown.filter(runs).map(str::to_owned).collect()
}

/// The words of a command; quotes keep spaces.
fn words(command: &str) -> Vec<String> {
    let parts = command.split('\'').enumerate();
    parts
        .flat_map(|(place, part)| match place % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        })
        .collect()
}

/// Runs a command of the page in a folder of its own, uses the device through NBD, and stops the server.
fn serves(command: &str) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["disk.img", "a.img", "b.img"] {
        fs::File::create(folder.path().join(name)).unwrap().set_len(4 << 20).unwrap();
    }
    let here = folder.path().display().to_string();
    let command =
        command.replace("/run/", &format!("{here}/")).replace("/var/lib/platter/", &format!("{here}/"));
    // The port of the page may be in use.
    let command = command.replace("127.0.0.1:10809", "127.0.0.1:0");
    let log = folder.path().join("log");
    let mut server = platter();
    server.arg("serve").args(words(&command)).current_dir(folder.path());
    server.stdout(Stdio::piped()).stderr(fs::File::create(&log).unwrap());
    let mut server = Running::start(&mut server);
    let mut out = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let said = || fs::read_to_string(&log).unwrap();
    let Some((_, address)) = line.trim_end().rsplit_once(" at nbd ") else {
        panic!("{command}: {line:?}, {}", said());
    };
    let disk = match address.strip_prefix("unix:") {
        Some(path) => format!("nbd(nbd+unix:///?socket={path})"),
        None => format!("nbd(nbd://{address})"),
    };
    let (image, back) = (folder.path().join("image"), folder.path().join("back"));
    fs::write(&image, vec![5; 1 << 16]).unwrap();
    ok(&["copy", &image.display().to_string(), &disk]);
    ok(&["copy", &format!("partition({disk}, length=64K)"), &back.display().to_string()]);
    let status = server.end(Signal::TERM);
    out.read_to_string(&mut line).unwrap();
    assert!(status.success(), "{command}: {status}, {line}, {}", said());
    assert_eq!(fs::read(&back).unwrap(), vec![5; 1 << 16], "{command}");
}

#[test]
fn the_commands_of_the_page_about_serving_work() {
    let commands = commands();
    assert!(commands.len() >= 4, "{commands:?}");
    commands.iter().for_each(|command| serves(command));
}
