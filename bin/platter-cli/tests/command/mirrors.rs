//! Mirrors from the command line: made, written, degraded, and brought up to date.

use crate::run::{fails, fails_saying, ok, stderr, stdout, text};
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::tempdir;

fn data(dir: &Path, name: &str, byte: u8) -> String {
    let path = dir.join(name);
    fs::write(&path, vec![byte; 1 << 20]).unwrap();
    text(&path).to_owned()
}

/// What a mirror of these devices has in its first MiB.
fn contents(dir: &Path, spec: &str) -> Vec<u8> {
    let back = dir.join("back");
    let _ = fs::remove_file(&back);
    ok(&["copy", spec, text(&back)]);
    fs::read(&back).unwrap()[..1 << 20].to_vec()
}

#[test]
fn a_mirror_survives_the_loss_of_a_member_which_comes_back() {
    let dir = tempdir().unwrap();
    let [a, b] = ["a.img", "b.img"].map(|name| text(&dir.path().join(name)).to_owned());
    let create = [&a, &b].map(|path| format!("file({path}, create=8M)"));
    ok(&["raid", "create", "--layout", "raid1", "--name", "pair", &create[0], &create[1]]);
    // The members hold something now, and no other verb takes them for empty.
    fails_saying(3, &["raid", "create", "--layout", "raid1", &a, &b], &["--force"]);
    let both = format!("raid1({a}, {b})");
    ok(&["copy", "--force", &data(dir.path(), "one", 1), &both]);
    assert!(contents(dir.path(), &both).iter().all(|&byte| byte == 1));

    fails_saying(3, &["info", &format!("raid1({a})")], &["degraded=on"]);
    let alone = format!("raid1(degraded=on, {a})");
    ok(&["copy", "--force", &data(dir.path(), "two", 2), &alone]);

    // The other one has missed that: it is not read, in whatever order they are given.
    for spec in [format!("raid1({b}, {a})"), both.clone()] {
        assert!(contents(dir.path(), &spec).iter().all(|&byte| byte == 2), "{spec}");
    }
    ok(&["copy", "--force", &data(dir.path(), "three", 3), &format!("raid1(readd=on, {a}, {b})")]);
    let info = ok(&["info", "--json", &format!("raid1(readd=on, {a}, {b})")]);
    assert!(info.contains("pair"), "{info}");
}

fn make(args: &[&str], dir: &Path) -> [String; 2] {
    let paths = ["a.img", "b.img"].map(|name| text(&dir.join(name)).to_owned());
    let specs = paths.each_ref().map(|path| match Path::new(path).exists() {
        true => path.clone(),
        false => format!("file({path}, create=8M)"),
    });
    ok(&[&["raid", "create", "--force"], args, &[&specs[0], &specs[1]]].concat());
    paths
}

/// What is made last is all that a device is a member of.
#[test]
fn no_device_is_a_member_of_two_arrays() {
    let mirror: &[&str] = &["--layout", "raid1"];
    let others: [(&[&str], &str); 4] = [
        (&[], "raid"),
        (&["--format", "md1.0", "--level", "1"], "md"),
        (&["--format", "md1.1", "--level", "1"], "md"),
        (&["--format", "md1.2", "--level", "1"], "md"),
    ];
    for (args, other) in others {
        for (first, second) in [((mirror, "raid1"), (args, other)), ((args, other), (mirror, "raid1"))] {
            let dir = tempdir().unwrap();
            make(first.0, dir.path());
            let [a, b] = make(second.0, dir.path());
            ok(&["info", &format!("{}({a}, {b})", second.1)]);
            let copy = ["copy", &format!("{}({a}, {b})", first.1), "ram(8M)"];
            let said = fails(3, &copy);
            assert!(!said.contains("damaged"), "{args:?} {}: {said}", second.1);
        }
    }
}

#[test]
fn mirrors_are_named_and_wiped() {
    let dir = tempdir().unwrap();
    let [a, b] = make(&["--layout", "raid1"], dir.path());
    assert!(ok(&["raid", "examine", &a]).contains("a member of a mirror of Platter"));
    fails_saying(3, &["copy", &format!("md({a}, {b})"), "ram(8M)"], &["raid1(DEVICE, ...)"]);
    ok(&["raid", "wipe", "--force", &a, &b]);
    assert!(ok(&["raid", "examine", &a]).contains("no records"));
    fails_saying(4, &["raid", "wipe", "--force", &a], &["holds no records"]);
    // Without --force: nothing is in the way of another one.
    ok(&["raid", "create", &a, &b]);
}

/// The commands of the page run; what it serves can be opened.
#[test]
fn the_commands_of_the_page_about_mirrors_run() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/raid1.md");
    let page = fs::read_to_string(page).unwrap();
    let dir = tempdir().unwrap();
    let lines: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("    platter ")).collect();
    assert!(lines.len() >= 3, "{lines:?}");
    for line in lines {
        let line = line.replacen("serve ", "info ", 1);
        let platter = env!("CARGO_BIN_EXE_platter");
        let mut shell = Command::new("sh");
        let output = shell.args(["-c", &format!("'{platter}' {line}")]).current_dir(&dir).output().unwrap();
        assert!(output.status.success(), "{line}: {}", stderr(&output));
        assert!(!stdout(&output).contains("cannot be opened"), "{line}: {}", stdout(&output));
    }
}

#[test]
fn options_of_other_arrays_are_refused() {
    let [a, b] = ["ram(8M)", "ram(8M)"];
    for (args, says) in [
        (&["--level", "1"][..], "--format md1.2"),
        (&["--no-bitmap"], "--layout raid1"),
        (&["--assume-clean"], "--format md1.2"),
        (&["--format", "md1.2", "--level", "1", "--no-bitmap"], "--bitmap"),
        (&["--format", "md1.2", "--level", "1", "--layout", "raid1"], "--level and --md-layout"),
    ] {
        fails_saying(2, &[&["raid", "create"], args, &[a, b]].concat(), &[says]);
    }
}
