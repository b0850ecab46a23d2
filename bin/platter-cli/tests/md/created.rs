//! `platter raid create --format md1.2`: what mdadm says of its arrays, and what becomes of devices that hold data or fail.

use crate::images::{open, platter, read_all};
use platter::raid::{self, MdArray};
use platter::registry::{self, Access};
use platter_md::superblock::{Level, Place};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).to_str().unwrap().to_owned()
}

/// Creates an array of new files. Returns the files, the spare last, and what the command said.
fn created(dir: &Path, members: usize, size: &str, arguments: &[&str]) -> (Vec<String>, Value) {
    let files: Vec<String> = (0..members).map(|at| path(dir, &format!("m{at}"))).collect();
    for file in &files {
        let _ = std::fs::remove_file(file);
    }
    let specs: Vec<String> = files.iter().map(|file| format!("file({file}, create={size})")).collect();
    let all: Vec<&str> = ["raid", "create", "--json"]
        .into_iter()
        .chain(arguments.iter().copied())
        .chain(specs.iter().map(String::as_str))
        .collect();
    let (code, out, said) = platter(&all);
    assert_eq!(code, 0, "{arguments:?}: {said}");
    (files, serde_json::from_str(&out).unwrap())
}

/// The value behind a name in what mdadm prints.
fn said<'a>(text: &'a str, name: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(name)?.trim().strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{name}: {text}")).trim()
}

fn mdadm(arguments: &[&str]) -> String {
    let output = Command::new("mdadm").args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn has_mdadm() -> bool {
    let has = Command::new("mdadm").arg("--version").output().is_ok();
    if !has {
        eprintln!("skipped: there is no mdadm");
    }
    has
}

/// Level, layout as mdadm says it, number of members.
const ARRAYS: [(&str, &str, usize); 14] = [
    ("linear", "", 2),
    ("0", "", 3),
    ("1", "", 2),
    ("4", "", 3),
    ("5", "left-symmetric", 3),
    ("5", "parity-first", 4),
    ("5", "right-asymmetric", 3),
    ("6", "left-symmetric", 4),
    ("6", "ddf-zero-restart", 5),
    ("6", "parity-first-6", 5),
    ("10", "near=2", 4),
    ("10", "near=2", 3),
    ("10", "far=2", 4),
    ("10", "offset=3", 5),
];

#[test]
fn mdadm_reads_what_was_made() {
    if !has_mdadm() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for format in ["md1.0", "md1.1", "md1.2"] {
        for (level, layout, members) in ARRAYS {
            let is_bare = matches!(level, "linear" | "0");
            for (has_bitmap, is_clean) in [(false, false), (true, true), (true, false)] {
                // Nothing of the state depends on the place.
                if (has_bitmap && is_bare) || (!has_bitmap && !is_bare && format != "md1.2") {
                    continue;
                }
                let mut arguments = vec!["--format", format, "--level", level, "--name", "any:data"];
                arguments.extend(["--md-layout", layout].into_iter().filter(|_| !layout.is_empty()));
                arguments.extend(has_bitmap.then_some("--bitmap"));
                arguments.extend(is_clean.then_some("--assume-clean"));
                let (files, made) = created(dir.path(), members, "9M", &arguments);
                check_with_mdadm(&files, &made, (level, layout), (has_bitmap, is_clean || is_bare));
            }
        }
    }
}

fn check_with_mdadm(
    files: &[String],
    made: &Value,
    (level, layout): (&str, &str),
    (has_bitmap, is_clean): (bool, bool),
) {
    for (at, file) in files.iter().enumerate() {
        let text = mdadm(&["--examine", file]);
        let what = format!("{made}: {text}");
        assert!(said(&text, "Checksum").ends_with("correct"), "{what}");
        assert_eq!(said(&text, "Raid Level").trim_start_matches("raid"), level, "{what}");
        assert_eq!(said(&text, "Raid Devices"), files.len().to_string(), "{what}");
        assert!(said(&text, "Name").starts_with("any:data"), "{what}");
        assert_eq!(said(&text, "State"), if is_clean { "clean" } else { "active" }, "{what}");
        assert_eq!(said(&text, "Device Role"), format!("Active device {at}"), "{what}");
        assert_eq!(format!("md{}", said(&text, "Version")), made["format"].as_str().unwrap(), "{what}");
        assert!(said(&text, "Bad Block Log").starts_with("512 entries"), "{what}");
        if !layout.is_empty() {
            assert_eq!(said(&text, "Layout"), layout, "{what}");
        }
        if !matches!(level, "linear" | "1") {
            assert_eq!(said(&text, "Chunk Size"), "512K", "{what}");
        }
        let array: u64 = match matches!(level, "linear" | "0") {
            true => made["array_bytes"].as_u64().unwrap() / 1024,
            false => said(&text, "Array Size").split(' ').next().unwrap().parse().unwrap(),
        };
        let own = made["array_bytes"].as_u64().unwrap() / 1024;
        // The kernel has whole chunks of a raid10, and mdadm shows parts too.
        let over = if level == "10" { files.len() as u64 * 512 } else { 1 };
        assert!(own <= array && array - own < over, "{own} KiB: {what}");
        if has_bitmap {
            check_bitmap(file, &text, made, is_clean);
        }
    }
}

/// mdadm reads bitmaps of block devices, and those that are files of their own.
fn check_bitmap(file: &str, text: &str, made: &Value, is_clean: bool) {
    let sectors: i64 = said(text, "Internal Bitmap").split(' ').next().unwrap().parse().unwrap();
    let bytes = std::fs::read(file).unwrap();
    let place = match made["format"].as_str().unwrap() {
        "md1.0" => (bytes.len() as i64 / 512 - 16) & !7,
        "md1.1" => 0,
        _ => 8,
    };
    let at = (place + sectors) as usize * 512;
    let own = format!("{file}.bitmap");
    std::fs::write(&own, &bytes[at..at + 4096]).unwrap();
    let text = mdadm(&["--examine-bitmap", &own]);
    let what = format!("{made}: {text}");
    assert_eq!((said(&text, "State"), said(&text, "Chunksize")), ("OK", "64 MB"), "{what}");
    assert_eq!((said(&text, "Events"), said(&text, "Events Cleared")), ("0", "0"), "{what}");
    assert_eq!(said(&text, "Version"), "4", "{what}");
    let dirty =
        if is_clean { "1 bits (chunks), 0 dirty (0.0%)" } else { "1 bits (chunks), 1 dirty (100.0%)" };
    assert_eq!(said(&text, "Bitmap"), dirty, "{what}");
}

#[test]
fn what_was_made_is_read_checked_and_examined() {
    let dir = tempfile::tempdir().unwrap();
    for (level, layout, members) in ARRAYS {
        let mut arguments = vec!["--format", "md1.2", "--level", level, "--assume-clean"];
        arguments.extend(["--md-layout", layout].into_iter().filter(|_| !layout.is_empty()));
        let (mut files, made) = created(dir.path(), members, "9M", &arguments);
        let device = open("", &files).unwrap_or_else(|error| panic!("{made}: {error}"));
        assert_eq!(device.size(), made["array_bytes"].as_u64().unwrap(), "{made}");
        assert!(read_all(&device).iter().all(|&byte| byte == 0), "new files are zero");
        drop(device);
        files.reverse();
        let of = |verb: &'static str| {
            ["raid", verb].into_iter().chain(files.iter().map(String::as_str)).collect::<Vec<_>>()
        };
        let (code, text, _) = platter(&of("examine"));
        assert!(code == 0 && text.contains("complete") && !text.contains("not clean"), "{text}");
        let (code, out, said) = platter(&of("check"));
        assert_eq!(code, if matches!(level, "linear" | "0") { 4 } else { 0 }, "{out}{said}");
    }
}

#[test]
fn devices_that_hold_data_are_refused_without_force_and_left_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let md = ["--format", "md1.2", "--level", "1", "--assume-clean"];
    let (files, _) = created(dir.path(), 2, "9M", &md);
    let before = std::fs::read(&files[1]).unwrap();
    let ext4 = path(dir.path(), "ext4");
    let mut bytes = vec![0; 9 << 20];
    bytes[1080..1082].copy_from_slice(&[0x53, 0xef]);
    std::fs::write(&ext4, &bytes).unwrap();
    let free = format!("file({}, create=9M)", path(dir.path(), "free"));
    for held in [&files[1], &ext4] {
        let (code, _, said) = platter(&["raid", "create", "--format", "md1.0", "--level", "1", &free, held]);
        assert_eq!(code, 3, "{said}");
        assert!(said.contains(held.as_str()) && said.contains("--force"), "{said}");
    }
    assert!(std::fs::read(&files[1]).unwrap() == before && std::fs::read(&ext4).unwrap() == bytes);
    // With it the member is one of the new array only, wherever its superblock was.
    let forced = ["raid", "create", "--force", "--format", "md1.0", "--level", "1", &files[1], &ext4];
    assert_eq!(platter(&forced).0, 0);
    let after = std::fs::read(&files[1]).unwrap();
    assert!(after[4096..8192].iter().all(|&byte| byte == 0), "the old superblock is erased");
    assert!(after[8192..9 << 20 >> 1] == before[8192..9 << 20 >> 1], "data is left as it is");
    let of_platter = ["raid", "create", "--force", &files[0], &files[1]];
    assert_eq!(platter(&of_platter).0, 0);
    let back: Vec<&str> =
        ["raid", "create", "--force"].into_iter().chain(md).chain([&*files[0], &*files[1]]).collect();
    assert_eq!(platter(&back).0, 0);
    let (_, text, _) = platter(&["raid", "examine", &files[0], &files[1]]);
    assert!(text.contains("of md raid1") && text.contains("complete"), "{text}");
}

#[test]
fn a_member_that_fails_is_named_and_nothing_is_left_that_assembles() {
    let dir = tempfile::tempdir().unwrap();
    let name = |at: usize| path(dir.path(), &format!("f{at}"));
    let mut seen = [0; 2];
    // A member whose writes fail in one of the places: superblock, bitmap, list of bad blocks.
    for (place, length) in [(4096, 4096), (8192, 4096), (12288, 4096)] {
        for bad in 0..3 {
            let devices: Vec<_> = (0..3)
                .map(|at| {
                    let _ = std::fs::remove_file(name(at));
                    let file = format!("file({}, create=9M)", name(at));
                    let spec = match at == bad {
                        true => format!("error(op=write, offset={place}, length={length}, {file})"),
                        false => file,
                    };
                    registry::open(&spec, Access::read_write()).unwrap()
                })
                .collect();
            let array = MdArray {
                place: Place::Offset4K,
                level: Level::Raid1,
                layout: None,
                chunk: None,
                name: String::new(),
                has_bitmap: true,
                is_clean: true,
            };
            let said = raid::create_md(&devices, &[], &array).unwrap_err().to_string();
            assert!(said.contains(&name(bad)), "{said}");
            drop(devices);
            for at in 0..3 {
                let (_, text, _) = platter(&["raid", "examine", "--json", &name(at)]);
                let shown: Value = serde_json::from_str(&text).unwrap();
                assert_eq!(shown[0]["kind"], "none", "member {bad} fails at {place}: {shown}");
            }
            seen[usize::from(place == 4096)] += 1;
        }
    }
    assert_eq!(seen, [6, 3]);
}

#[test]
fn what_is_wrong_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let new = |name: &str, size: &str| format!("file({}, create={size})", path(dir.path(), name));
    let (a, b, small) = (new("a", "9M"), new("b", "9M"), new("small", "1M"));
    let cases: [(&[&str], i32, &str); 11] = [
        (&["--format", "md1.2"], 2, "needs --level"),
        (&["--level", "1"], 2, "--format md1.2"),
        (&["--bitmap"], 2, "--bitmap is for arrays of md"),
        (&["--format", "md1.2", "--level", "1", "--layout", "raid0"], 2, "--md-layout"),
        (&["--format", "md1.2", "--level", "6"], 2, "raid6 of 2 members is not possible; 4 to 257"),
        (&["--format", "md1.2", "--level", "7"], 2, "linear"),
        (&["--format", "md1.2", "--level", "5", "--chunk", "3K"], 2, "3072 bytes; powers of two from 4096"),
        (&["--format", "md1.2", "--level", "5", "--md-layout", "sideways"], 2, "known are left-asymmetric"),
        (&["--format", "md1.2", "--level", "0", "--bitmap"], 2, "no bitmap"),
        (
            &["--format", "md1.2", "--level", "1", "--spare", &small],
            4,
            "small has 1048576 bytes; a member of this array takes",
        ),
        (
            &["--format", "md1.2", "--level", "1", "--name", "0123456789012345678901234567890123"],
            2,
            "34 bytes; up to 32",
        ),
    ];
    for (arguments, status, why) in cases {
        let all: Vec<&str> = ["raid", "create"].iter().chain(arguments).copied().chain([&*a, &*b]).collect();
        let (code, _, said) = platter(&all);
        assert_eq!(code, status, "{arguments:?}: {said}");
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
}

#[test]
fn a_spare_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let spare = format!("file({}, create=9M)", path(dir.path(), "spare"));
    let (files, made) =
        created(dir.path(), 3, "9M", &["--format", "md1.2", "--level", "5", "--spare", &spare]);
    assert_eq!((&made["spares"], &made["clean"]), (&serde_json::json!([spare]), &false.into()));
    let (_, out, _) = platter(&["raid", "examine", "--json", &files[0], &path(dir.path(), "spare")]);
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&shown[1]["role"], &shown[1]["device_number"]), (&"spare".into(), &3.into()));
    if has_mdadm() {
        assert_eq!(said(&mdadm(&["--examine", &path(dir.path(), "spare")]), "Device Role"), "spare");
    }
}
