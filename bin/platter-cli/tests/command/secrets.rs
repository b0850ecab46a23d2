//! Secrets in specs: no output has them, whatever is done with a spec and however it fails.

use crate::daemon::{CONFIG, Server};
use crate::run::{platter, run, stderr, stdout};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;

const SECRET: &str = "hunter2hunter2";

#[track_caller]
fn clean(what: &str, text: &str) {
    assert!(!text.contains(SECRET), "{what}: {text}");
}

/// Runs a command that may do anything but show the secret. Returns its output.
#[track_caller]
fn hides(args: &[&str]) -> String {
    let output = run(args);
    let text = stdout(&output) + &stderr(&output);
    assert!(!text.contains("panicked"), "{args:?}: {text}");
    clean(&format!("{args:?}"), &text);
    text
}

/// The names of the devices and layers that take one device and nothing else.
fn layers() -> Vec<String> {
    let names = platter::registry::table().into_iter().map(|row| (row.name, row.devices.clone()));
    names.filter(|(_, devices)| devices.contains(&1)).map(|(name, _)| name.to_owned()).collect()
}

/// URIs with the secret, right and wrong. Nothing listens at port 1.
fn urls() -> Vec<String> {
    vec![
        format!("iscsi://bob%{SECRET}@127.0.0.1:1/iqn.2026-11.a:b/0"),
        format!("iscsi://bob:{SECRET}@127.0.0.1:1/iqn.2026-11.a:b/0"),
        format!("iscsi://bob%x@127.0.0.1:1/iqn.2026-11.a:b/0?target_user=t&target_password={SECRET}"),
        format!("iscsi://bob%{SECRET}@127.0.0.1:1/iqn.2026-11.a:b"),
        format!("iscsi://bob%{SECRET}@127.0.0.1:1/iqn.2026-11.a:b/0?colour=red"),
        format!("iscsi://bob%{SECRET}/iqn.2026-11.a:b/0"),
        format!("iscsi://bob:{SECRET}/iqn.2026-11.a:b/0"),
        format!("nbd://bob:{SECRET}@127.0.0.1:1/disk"),
    ]
}

#[test]
fn no_error_about_a_spec_shows_a_secret() {
    let urls = urls();
    let mut specs: Vec<String> = urls.clone();
    for url in &urls {
        specs.extend([
            format!("iscsi({url}, reconnect=0"),
            format!("iscsi({url}, reconnect=0))"),
            format!("iscsi({url}, reconnect=0, colour=red)"),
            format!("iscsi({url}, reconnect=0, depth=many)"),
            format!("iscsi(\"{url}\", reconnect=0, initiator=\"\\q\")"),
            format!("iscsi({url} x, reconnect=0)"),
            format!("cache(size=1M, iscsi({url}, reconnect=0))"),
            format!("nosuch({url})"),
            format!("file({url})"),
            format!("ram({url})"),
        ]);
    }
    let ill = format!("iscsi://bob%a,{SECRET}(b@127.0.0.1:1/iqn.2026-11.a:b/0");
    specs.extend([
        format!("iscsi(iscsi://bob@h/t/0, secret={SECRET})"),
        format!("iscsi(iscsi://bob@h/t/0, secret=\"{SECRET}\", depth=many)"),
        format!("iscsi(iscsi://bob@h/t/0, target_secret = {SECRET})"),
        format!("iscsi(iscsi://bob@h/t/0, password={SECRET})"),
        format!("iscsi({ill}, reconnect=0)"),
        ill,
    ]);
    for spec in &specs {
        hides(&["info", spec]);
    }
    let url = format!("iscsi({}, reconnect=0)", urls[0]);
    for layer in layers() {
        hides(&["info", &format!("{layer}({url})")]);
    }
}

#[test]
fn no_verb_and_no_configuration_shows_a_secret() {
    let urls = urls();
    let url = format!("iscsi({}, reconnect=0)", urls[0]);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("spec"), format!("# an array\nraid0({url},)")).unwrap();
    let config = format!(
        "[devices.{{}}]\nspec = \"{url}\"\n[exports.main]\nkind = \"nbd\"\naddress = \"unix:{}\"\n",
        path("s")
    );
    for (name, text) in [
        ("good", config.replace("{}", "disk")),
        ("colour", config.replace("{}", "disk").replace("spec", "colour = 1\nspec")),
        ("kind", config.replace("{}", "disk").replace("address", "address = 1\ndescription")),
        ("open", config.replace("{}", "disk").replace("reconnect=0)", "reconnect=0")),
        ("text", config.replace("{}", "disk").replace("\"unix", "unix")),
        ("wrong", config.replace("{}", "disk").replace("spec", "limits")),
    ] {
        std::fs::write(path(name), text).unwrap();
        hides(&["serve", "--config", &path(name)]);
    }
    std::fs::write(path("image"), [0; 4096]).unwrap();
    let nbd = format!("unix:{}", path("socket"));
    for args in [
        &["info", "--json", &url][..],
        &["info", &format!("@{}", path("spec"))],
        &["info", &url, "--colour"],
        &["colour", &url],
        &["copy", &url, &path("copied")],
        &["copy", &path("image"), &url],
        &["copy", "--verify", &url, &url, "third"],
        &["map", &url],
        &["scsi", "inquiry", "--on", &url],
        &["raid", "examine", &url],
        &["raid", "create", "--json", &url, &url],
        &["bench", "io", "--on", &url, "--number_ios", "1"],
        &["bench", "io", "--on", &url, "--json", "--rw", "colour"],
        &["bench", "locks", "--on", &url],
        &["bench", "dm", "--on", &url],
        &["serve", &url, "--nbd", &nbd, "--log", "json"],
        &["serve", &url, &url, "--nbd", &nbd],
        &["snapshot", "info", &url],
        &["iscsi", "discover", &urls[1]],
        &["iscsi", "discover", &format!("bob:{SECRET}@127.0.0.1:1")],
        &["status", &urls[0]],
        &["top", &urls[0]],
        &["ctl", &urls[0], "device.list"],
    ] {
        hides(args);
    }
}

/// The reply to NBD_OPT_LIST: what any client sees without opening a device.
fn listed(socket: &Path) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    stream.write_all(&1u32.to_be_bytes()).unwrap();
    let option = |number: u32| [b"IHAVEOPT".as_slice(), &number.to_be_bytes(), &[0; 4]].concat();
    stream.write_all(&[option(3), option(2)].concat()).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    String::from_utf8_lossy(&reply).into_owned()
}

#[test]
fn a_device_that_is_served_shows_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("secret"), SECRET).unwrap();
    let mut target = platter();
    target.args(["serve", "ram(1M)", "--name", "disk", "--iscsi", "127.0.0.1:0", "--chap-user", "bob"]);
    target.args(["--chap-secret", &path("secret")]).stdout(Stdio::piped());
    let mut target = Ended(target.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(target.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim_end().rsplit_once(" at iscsi ").unwrap().1;
    let url = format!("iscsi://bob%{SECRET}@{address}/iqn.2026-11.localhost.platter:disk/0");
    if hides(&["info", &url]).contains("libiscsi is not installed") {
        return println!("skipped: libiscsi is not installed");
    }
    assert!(hides(&["info", "--json", &url]).contains("iscsi://bob%***@"));
    hides(&["bench", "io", "--on", &url, "--number_ios", "1", "--json"]);
    hides(&["copy", &url, &path("copied")]);
    hides(&["copy", &url, &path("copied")]);

    let config = CONFIG.replace("ram(16M, elevator=deadline)", &url);
    let mut server = Server::start(&config, &["--log", "json"]);
    let control = server.control();
    let served = listed(&server.path("nbd"));
    clean("the list of exports", &served);
    assert!(served.contains("iscsi://bob"), "{served}");
    let add = format!("spec=cache(size=1M, {url})");
    // The server has the secret, or it could not log in.
    let added = hides(&["ctl", &control, "device.add", "device=more", &add, &format!("description={url}")]);
    assert!(added.contains("iscsi://bob%***@"), "{added}");
    let wrong = add.replace("/0)", "/7)");
    hides(&["ctl", &control, "device.add", "device=other", &wrong]);
    clean("the list of exports", &listed(&server.path("nbd")));
    for args in [
        &["ctl", &control, "--json", "device.list"][..],
        &["ctl", &control, "device.params", "device=scratch"],
        &["ctl", &control, "device.layers", "device=scratch"],
        &["ctl", &control, "device.stats", "device=scratch"],
        &["ctl", &control, "client.list"],
        &["ctl", &control, "server.health"],
        &["status", &control],
        &["status", &control, "--json"],
    ] {
        hides(args);
    }
    let metrics = server.lines(2)[1].trim_end().trim_start_matches("serving metrics at http://").to_owned();
    let mut stream = TcpStream::connect(metrics.trim_end_matches("/metrics")).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    clean("metrics", &told);
    clean("log", &std::fs::read_to_string(server.path("log")).unwrap());
    drop(server);

    let socket = folder.path().join("socket");
    let mut serving = platter();
    serving.args(["serve", &url, "--nbd", &format!("unix:{}", socket.display())]).stdout(Stdio::piped());
    let mut serving = Ended(serving.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(serving.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    clean("the line that says so", &line);
    let served = listed(&socket);
    clean("the list of exports", &served);
    assert!(served.contains("bob%***@"), "{served}");
}

/// Every argument that is, or stands for, a secret has a name by which errors hide its value; the URL hides its own.
#[test]
fn arguments_for_secrets_are_known_by_their_names() {
    let mut found = 0;
    for row in platter::registry::table() {
        for param in row.tables.iter().copied().flatten() {
            let about = param.help.to_ascii_lowercase();
            let is_one = about.contains("secret") || about.contains("password");
            if is_one && !param.help.contains("://") {
                assert!(platter::spec::is_secret(param.name), "{}: {}", row.name, param.name);
                found += 1;
            }
        }
    }
    assert!(found >= 2, "the secrets of iscsi");
}

/// A child that does not outlive its test.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
