//! `platter raid examine` and `platter raid check`.

use crate::images::{Array, array, array_in, names, place_of_logs, platter};
use serde_json::Value;

fn json(arguments: &[&str]) -> (i32, Value) {
    let (code, out, said) = platter(arguments);
    let value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{said}"));
    (code, value)
}

fn with<'a>(first: &[&'a str], files: &'a [String]) -> Vec<&'a str> {
    first.iter().copied().chain(files.iter().map(String::as_str)).collect()
}

#[test]
fn examine_says_which_member_is_stale_and_by_how_much() {
    let dir = tempfile::tempdir().unwrap();
    let files = array("raid5-stale").files(&dir);
    let (code, shown) = json(&with(&["raid", "examine", "--json"], &files));
    assert_eq!(code, 0);
    assert_eq!((&shown[1]["array_state"], &shown[1]["events_behind"]), (&"degraded".into(), &7.into()));
    assert!(shown[1]["left_out"].as_str().unwrap().contains("stale"), "{shown}");
    assert_eq!((&shown[0]["left_out"], &shown[0]["missing"]), (&Value::Null, &serde_json::json!([1])));
    assert_eq!((&shown[0]["md_layout"], &shown[0]["clean"]), (&"left-symmetric".into(), &true.into()));
    let (_, shown) = json(&with(&["raid", "examine", "--json"], &files[1..]));
    assert_eq!(shown[0]["array_state"], "refused");
    assert!(shown[0]["forced"][0].as_str().unwrap().contains("7 events behind"), "{shown}");
    let (_, text, _) = platter(&with(&["raid", "examine"], &files));
    assert!(
        text.contains("member 1 of 4 of md raid5 left-symmetric") && text.contains("degraded, 417792 bytes"),
        "{text}"
    );
    assert!(text.contains("is left out: it is stale"), "{text}");
}

/// The value behind a name in what mdadm prints.
fn said<'a>(text: &'a str, name: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(name)?.trim().strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{name}: {text}")).trim()
}

#[test]
fn examine_agrees_with_mdadm() {
    if std::process::Command::new("mdadm").arg("--version").output().is_err() {
        eprintln!("skipped: there is no mdadm");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for name in names() {
        let files = array(&name).files(&dir);
        let (_, shown) = json(&with(&["raid", "examine", "--json"], &files));
        for (file, own) in files.iter().zip(shown.as_array().unwrap()) {
            let output = std::process::Command::new("mdadm").args(["--examine", file]).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let number = |name: &str| said(&text, name).split(' ').next().unwrap().parse::<u64>().unwrap();
            assert_eq!(own["events"], number("Events"), "{name}");
            assert_eq!(own["members"], number("Raid Devices"), "{name}");
            if own["version"] != "1.0" {
                assert_eq!(own["data_offset_bytes"], number("Data Offset") * 512, "{name}");
            }
            assert_eq!(own["data_bytes"], number("Avail Dev Size") * 512, "{name}");
            assert_eq!(said(&text, "Raid Level"), own["layout"], "{name}");
            assert_eq!(said(&text, "Device Role"), format!("Active device {}", own["index"]), "{name}");
            let digits = |text: &str| text.replace([':', '-'], "");
            assert_eq!(digits(said(&text, "Array UUID")), digits(own["uuid"].as_str().unwrap()), "{name}");
            assert_eq!(
                digits(said(&text, "Device UUID")),
                digits(own["member_uuid"].as_str().unwrap()),
                "{name}"
            );
            assert_eq!(said(&text, "State") == "clean", own["clean"].as_bool().unwrap(), "{name}: {text}");
            if text.contains("Layout :") && own["layout"] != "raid10" {
                // Of raid4 it says a number.
                let layout = said(&text, "Layout");
                assert!(own["md_layout"] == layout || own["layout"] == "raid4", "{name}: {layout}, {own}");
            }
        }
        files.iter().for_each(|file| std::fs::remove_file(file).unwrap());
    }
}

#[test]
fn members_that_agree_are_found_to_agree() {
    let dir = tempfile::tempdir().unwrap();
    for name in names() {
        if name.contains("stale") || name.contains("ppl") {
            continue;
        }
        let files = array(&name).files(&dir);
        let (code, out, told) = platter(&with(&["raid", "check", "--json"], &files));
        if name.starts_with("raid0") || name.starts_with("linear") {
            assert!(code == 4 && told.contains("nothing to compare"), "{name}: {told}");
        } else {
            let found: Value = serde_json::from_str(&out).unwrap();
            assert_eq!(
                (code, &found["differing_bytes"], &found["skipped_bytes"]),
                (0, &0.into(), &0.into()),
                "{name}: {out}"
            );
            assert!(found["compared_bytes"].as_u64().unwrap() > 0, "{name}");
        }
        files.iter().for_each(|file| std::fs::remove_file(file).unwrap());
    }
}

/// Spoils a range of a member and returns what a check says.
fn check(array: &mut Array, member: usize, range: (usize, usize), dir: &tempfile::TempDir) -> Value {
    array.spoil(member, range.0, range.1);
    let files = array.files(dir);
    let (code, found) = json(&with(&["raid", "check", "--json"], &files));
    assert_eq!(code, 1, "{found}");
    found
}

#[test]
fn the_wrong_member_of_a_raid6_is_named() {
    let dir = tempfile::tempdir().unwrap();
    for name in names().into_iter().filter(|name| name.starts_with("raid6") && !name.contains("dirty")) {
        for member in 0..4 {
            let mut array = array(&name);
            let found = check(&mut array, member, (8192 + 512, 12288), &dir);
            let range = &found["mismatches"][0];
            assert_eq!((&range["start"], &range["end"]), (&8704.into(), &12288.into()), "{name}: {found}");
            assert_eq!(
                (&range["member"], &range["expected"]),
                (&member.into(), &false.into()),
                "{name}: {found}"
            );
            assert!(range["device"].as_str().unwrap().ends_with(&format!(".{member}")), "{found}");
            assert_eq!((&found["differing_bytes"], &found["mismatches"][1]), (&3584.into(), &Value::Null));
        }
    }
}

#[test]
fn other_levels_say_where_members_differ_and_who_is_alone() {
    let dir = tempfile::tempdir().unwrap();
    for (name, named) in [
        ("raid5-ls-4", false),
        ("raid4-4", false),
        ("raid1-4", true),
        ("raid10-n2-4", false),
        ("raid10-n3-4", true),
    ] {
        let mut array = array(name);
        let found = check(&mut array, 1, (8192, 12288), &dir);
        let range = &found["mismatches"][0];
        assert_eq!(range["member"], if named { Value::from(1) } else { Value::Null }, "{name}: {found}");
        assert_eq!(found["differing_bytes"], 4096, "{name}: {found}");
        if !name.starts_with("raid10") {
            assert_eq!((&range["start"], &range["end"]), (&8192.into(), &12288.into()), "{name}: {found}");
        }
    }
    let mut dirty = array("raid5-dirty");
    let found = check(&mut dirty, 2, (0, 512), &dir);
    assert_eq!((&found["mismatches"][0]["expected"], &found["unit"]), (&true.into(), &"member".into()));
}

#[test]
fn what_cannot_be_read_or_compared_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let array = array("raid5-ls-4");
    let files = array.files(&dir);
    let (code, found) = json(&with(&["raid", "check", "--json"], &files[1..]));
    assert_eq!((code, &found["compared_bytes"]), (0, &0.into()), "one member is missing: {found}");
    assert_eq!(found["skipped_bytes"], 139264);
    let bad = format!("error({}, op=read, offset={}, length=1024)", files[0], array.data(0) + 4096);
    let (code, found) = json(&["raid", "check", "--json", &bad, &files[1], &files[2], &files[3]]);
    let range = &found["unreadable"][0];
    assert_eq!(
        (code, &range["member"], &range["start"], &range["end"]),
        (1, &0.into(), &4096.into(), &5120.into())
    );
    assert_eq!(found["skipped_bytes"], 1024);
    let (code, _, told) = platter(&["raid", "check", &files[0]]);
    assert!(code == 3 && told.contains("missing"), "{told}");
}

#[test]
fn every_key_is_documented() {
    let page = include_str!("../../../../docs/command.md");
    let section = |verb: &str| {
        let rest = page.split(&format!("\n### {verb}\n")).nth(1).unwrap();
        rest.split("\n### ").next().unwrap().to_owned()
    };
    let dir = tempfile::tempdir().unwrap();
    let stale = array("raid5-stale").files(&dir);
    let bitmap = array("raid1-bitmap").files(&dir);
    let mut spoiled = array("raid6-ls-4");
    spoiled.spoil(1, 0, 512);
    let spoiled = spoiled.files(&dir);
    let bad = format!("error({}, op=read, offset=70144, length=512)", spoiled[0]);
    let logs = ["ppl-held-1", "journal5-back"].map(|name| array_in(&place_of_logs(), name).files(&dir));
    let shown = [
        ("raid examine", json(&with(&["raid", "examine", "--json"], &logs.concat())).1),
        ("raid examine", json(&with(&["raid", "examine", "--json"], &stale)).1),
        ("raid examine", json(&with(&["raid", "examine", "--json"], &stale[1..])).1),
        ("raid examine", json(&with(&["raid", "examine", "--json"], &bitmap)).1),
        ("raid check", json(&with(&["raid", "check", "--json", &bad], &spoiled[1..])).1),
    ];
    for (verb, shown) in shown {
        let section = section(verb);
        let mut left = vec![&shown];
        while let Some(value) = left.pop() {
            match value {
                Value::Object(object) => {
                    for (key, value) in object {
                        assert!(section.contains(&format!("`{key}`")), "{verb}: {key}");
                        left.push(value);
                    }
                }
                Value::Array(list) => left.extend(list),
                _ => {}
            }
        }
    }
}

#[test]
fn the_commands_of_the_page_run() {
    let page = include_str!("../../../../docs/md.md");
    let lines: Vec<&str> =
        page.lines().filter_map(|line| line.trim_start().strip_prefix("platter ")).collect();
    let dir = tempfile::tempdir().unwrap();
    for (file, name) in array("raid5-ls-4").files(&dir).iter().zip(["sdb", "sdc", "sdd", "sde"]) {
        std::fs::rename(file, dir.path().join(format!("{name}.img"))).unwrap();
    }
    let mut run = 0;
    // Those with members that every machine can have.
    for line in lines
        .iter()
        .filter(|line| line.contains(".img") && !line.contains("/dev/") && !line.contains("/run/"))
    {
        // A word in quotes is a spec with spaces.
        let mut words = Vec::new();
        for (at, part) in line.split('\'').enumerate() {
            if at % 2 == 0 { words.extend(part.split_whitespace()) } else { words.push(part) }
        }
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_platter"));
        let output = command.args(&words).current_dir(dir.path()).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        run += 1;
    }
    assert!(run >= 5, "{run} commands of {lines:?}");
    let copy = std::fs::read(dir.path().join("array.img")).unwrap();
    assert!(copy == crate::images::expected(417792));
    assert!(copy == std::fs::read(dir.path().join("array2.img")).unwrap());
}

#[test]
fn a_check_ends_at_the_first_signal() {
    let dir = tempfile::tempdir().unwrap();
    let files = array("raid5-ls-4").files(&dir);
    // The first read of a member takes longer than the test runs.
    let slow = format!("delay({}, read=3600s)", files[0]);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_platter"));
    let mut child = command
        .args(["raid", "check", &slow, &files[1], &files[2], &files[3]])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let pid = child.id().to_string();
    let catches_interrupts = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim().to_owned();
        u64::from_str_radix(&mask, 16).unwrap() & 2 != 0
    };
    while !catches_interrupts() {
        std::thread::yield_now();
    }
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
