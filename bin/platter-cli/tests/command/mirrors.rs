//! Mirrors from the command line: made, written, degraded, and brought up to date.

use crate::run::{fails_saying, ok, text};
use std::fs;
use std::path::Path;
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
