//! `platter info`, and error messages for wrong specs and devices.

use crate::run::{fails, fails_saying, json, ok, platter, run, stdout, text};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use tempfile::tempdir;

#[test]
fn a_file_is_described_from_both_sides() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("disk.img");
    fs::write(&path, vec![1; 1 << 20]).unwrap();
    let spec = format!("file({}, elevator=deadline(read_expire=250ms, fifo_batch=8), depth=32)", text(&path));
    let all = json(&["info", &spec]);
    let info = &all[0];
    assert_eq!(info["size"], 1 << 20);
    assert_eq!(info["spec"], spec.as_str());
    assert_eq!(info["elevator"]["name"], "deadline");
    assert_eq!(info["elevator"]["params"]["read_expire"], 250);
    assert_eq!(info["elevator"]["params"]["fifo_batch"], 8);
    assert_eq!((&info["depth"], &info["read_only"]), (&32.into(), &true.into()));
    assert!(info["driver"]["name"].is_string() && info["limits"]["logical_block"].is_u64());
    assert_eq!(info["kernel"][0]["path"], text(&path));
    assert_eq!(info["kernel"][0]["kind"], "file");
    assert!(ok(&["info", "--long", &spec]).contains("250 ms"));
}

#[test]
fn the_driver_says_why_no_better_one_was_taken() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("disk.img");
    fs::write(&path, vec![1; 8192]).unwrap();
    let output = platter()
        .env("PLATTER_WITHOUT_DRIVERS", "uring,aio")
        .args(["info", "--json", text(&path)])
        .output()
        .unwrap();
    let info: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(info[0]["driver"]["name"], "threads");
    assert!(info[0]["driver"]["why_fell_back"].as_str().unwrap().contains("no uring"));
}

#[test]
fn the_default_elevator_is_that_of_the_option_or_else_of_the_environment() {
    let info = |variable: &str, args: &[&str]| {
        platter().env("PLATTER_ELEVATOR", variable).args(["info", "--json"]).args(args).output().unwrap()
    };
    for (variable, args, name) in [
        ("", &["ram(1M)"][..], "none"),
        ("deadline", &["ram(1M)"], "deadline"),
        ("deadline", &["ram(1M)", "--default-elevator", "cfq(quantum=8)"], "cfq"),
        ("deadline", &["ram(1M, elevator=none)"], "none"),
    ] {
        let all: serde_json::Value = serde_json::from_slice(&info(variable, args).stdout).unwrap();
        assert_eq!(all[0]["elevator"]["name"], name, "{variable} {args:?}");
    }
    for (output, place) in [
        (info("deadlin", &["ram(1M)"]), "PLATTER_ELEVATOR"),
        (info("", &["ram(1M)", "--default-elevator", "deadlin"]), "did you mean `deadline`?"),
    ] {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(2) && said.contains(place) && said.contains("deadlin"),
            "{said}"
        );
    }
}

#[test]
fn several_devices_and_layers() {
    let all = json(&["info", "null(1T, elevator=noop)", "partition(offset=1M, length=2M, ram(8M, depth=7))"]);
    assert_eq!(all[0]["size"], 1u64 << 40);
    assert_eq!(all[0]["driver"]["name"], "null");
    assert_eq!(all[1]["size"], 2 << 20);
    assert!(all[1]["driver"].is_null(), "the driver is that of the device below");
    assert_eq!(all[1]["below"][0]["depth"], 7);
}

#[test]
fn a_stack_is_a_tree_with_a_line_for_each_device() {
    let stack = "raid0(chunk=64K, ram(1M, depth=7), partition(offset=64K, null(2M, elevator=noop)))";
    let shown = ok(&["info", stack, "ram(4K)"]);
    let expected = "\
raid0 chunk=64K                     2.94 MiB
├─ ram                                 1 MiB  driver ram, elevator none, depth 7
└─ partition offset=64K length=1984K  1.94 MiB
   └─ null                             2 MiB  driver null, elevator noop, depth 128
ram                                    4 KiB  driver ram, elevator none, depth 128
";
    assert_eq!(squeezed(&shown), squeezed(expected));
    assert!(shown.lines().all(|line| line == line.trim_end()), "{shown}");

    let dir = tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    fs::write(&a, vec![1; 1 << 20]).unwrap();
    fs::write(&b, vec![1; 1 << 20]).unwrap();
    let shown = ok(&["info", &format!("raid0({}, {})", text(&a), text(&b))]);
    assert_eq!(shown.lines().count(), 3, "{shown}");
    assert!(shown.contains("file on ") && shown.contains("direct") | shown.contains("buffered"), "{shown}");
    let output = run(&["info", &format!("raid0({}, {})", text(&a), text(&dir.path().join("c")))]);
    assert_eq!(output.status.code(), Some(3));
    let shown = stdout(&output);
    assert!(shown.contains("cannot be opened") && shown.contains("├─ ") && shown.contains("└─ "), "{shown}");
    assert_eq!(shown.lines().count(), 3, "{shown}");
}

#[test]
fn a_cache_shows_what_it_was_opened_with() {
    let spec = "cache(size=8M, write=through, readahead=none, window=64K, prefault=off, max_size=16M, shards=2, extent=64K, ram(1M))";
    let info = json(&["info", spec]);
    let status = info[0]["layers"][0]["status"].as_array().unwrap();
    let value = |name: &str| status.iter().find(|item| item["name"] == name).map(|item| &item["value"]);
    for (name, word) in [("write", "through"), ("readahead", "none"), ("prefault", "off")] {
        assert_eq!(value(name), Some(&word.into()), "{name}");
    }
    for (name, number) in
        [("window", 64 << 10), ("extent", 64 << 10), ("max_size", 16 << 20), ("cache_pages_used", 0)]
    {
        assert_eq!(value(name), Some(&number.into()), "{name}");
    }
    assert_eq!(value("min_size"), None, "memory pressure is not watched");
    let long = ok(&["info", "--long", spec]);
    let lines = squeezed(&long);
    for fact in [
        "readahead none",
        "window 64 KiB",
        "extent 64 KiB",
        "max size 16 MiB",
        "dirty bytes 0 B",
        "dirty pages 0",
    ] {
        assert!(lines.iter().any(|line| line == fact), "no {fact}: {long}");
    }
    let shown = squeezed(&ok(&["info", spec]));
    assert_eq!(shown[0], "cache 1 MiB 8 MiB of memory, write-through");
    let shown = squeezed(&ok(&["info", "partition(offset=64K, cache(ram(1M)))"]));
    assert_eq!(shown[1], "└─ cache 1 MiB 64 MiB of memory, write-back");
}

/// Runs of spaces as one.
fn squeezed(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn wrong_specs_are_pointed_at() {
    for (spec, words) in [
        ("null(1T, elevator=cfqq)", &["elevator", "cfqq", "noop, deadline"] as &[_]),
        ("null(1T, elevator=deadlne)", &["did you mean `deadline`"]),
        ("null(1T, elevator=deadline(read_expir=1))", &["did you mean `read_expire`"]),
        ("null(1T, elevator=deadline(fifo_batch=2ms))", &["fifo_batch", "2ms"]),
        ("null(1T, elevator=noop(fifo_batch=2))", &["noop has no argument"]),
        ("file(x, driver=urin)", &["did you mean `uring`"]),
        ("file(x, driver=aio, sqpoll=on)", &["sqpoll", "no effect"]),
        ("null(1T, depth=1000000)", &["depth", "from 1 to 16384"]),
        ("null(1T, depth=0)", &["depth", "from 1 to 16384"]),
        ("null(1T, unplug_thresh=3)", &["unplug_thresh", "no effect"]),
        ("null(1T, abort_grace=3s)", &["abort_grace", "no effect"]),
        ("null(1T, timeout=1s, on_return=go)", &["on_return", "refresh", "stay"]),
        ("null(0)", &["size", "from 512 to 4096P"]),
        ("null(1000)", &["1000", "multiple of 512"]),
        ("null(99999P)", &["4096P"]),
        ("ram", &["needs the argument `size`"]),
        ("nul(1T)", &["did you mean `null`"]),
        ("raam(1M)", &["did you mean `ram`"]),
        ("partition(ram(1M), ram(1M))", &["exactly one device"]),
        ("file()", &["needs the argument `path`"]),
        ("ram(1M", &["ram(1M"]),
        ("", &["empty"]),
    ] {
        fails_saying(2, &["info", spec], words);
    }
    fails_saying(2, &["info"], &["SPEC"]);
    // A spec whose syntax is right may not fit its devices; the error shows values as typed.
    fails_saying(3, &["info", "partition(offset=100, ram(1M))"], &["offset=100", "multiples of 512"]);
    fails_saying(3, &["info", "partition(offset=2M, ram(1M))"], &["partition", "offset=2M"]);
    fails_saying(3, &["info", "partition(number=3, ram(1M))"], &["number=3"]);
    fails_saying(3, &["info", "raid0(chunk=64K, ram(1M), ram(32K))"], &["less than a chunk"]);
}

#[test]
fn times_of_layers_have_units() {
    let refused = |spec: &str, words: &[&str]| fails_saying(2, &["info", spec], words);
    refused("cache(expire=30, ram(1M))", &["the time 30 has no unit", "write 30s or 30ms"]);
    refused("delay(read=5, ram(1M))", &["the time 5 has no unit", "write 5s or 5us"]);
    for spec in ["cache(expire=0, ram(1M))", "cache(expire=0.5s, ram(1M))", "delay(read=5us, ram(1M))"] {
        ok(&["info", spec]);
    }
    ok(&["info", "ram(1M, elevator=deadline(read_expire=250))"]);
}

#[test]
fn what_cannot_be_opened_says_why_and_what_to_do() {
    let dir = tempdir().unwrap();
    let missing = dir.path().join("missing.img");
    let empty = dir.path().join("empty.img");
    fs::write(&empty, b"").unwrap();
    let advice = format!("a command that writes creates the file with file({}, create=64M)", text(&missing));
    fails_saying(3, &["info", text(&missing)], &[text(&missing), "ENOENT", &advice]);
    let write = ["bench", "io", "--rw", "write", "--on", text(&missing)];
    fails_saying(
        3,
        &write,
        &[
            "ENOENT",
            &advice.replace("a command that writes creates the file with", "to create the file, write"),
        ],
    );
    let given = format!("cache(size=8M, file({}, create=16M))", text(&missing));
    let read = ["bench", "io", "--rw", "randread", "--on", &given];
    fails_saying(3, &read, &["ENOENT", "create= has an effect only where the file is opened for writing"]);
    fails_saying(3, &["info", text(dir.path())], &["is a directory"]);
    fails_saying(3, &["info", "/dev/null"], &["character device"]);
    fails_saying(3, &["info", text(&empty)], &["empty", "truncate"]);
    fails_saying(3, &["info", &format!("file({}, driver=uring)", text(&missing))], &["ENOENT"]);
    fails_saying(3, &["info", "nulll"], &["did you mean the device `null`"]);
}

#[test]
fn what_is_known_of_an_unopenable_device_is_shown_all_the_same() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("disk.img");
    fs::write(&path, vec![0; 4096]).unwrap();
    let spec = format!("file({}, driver=threads)", text(&path));
    let output =
        platter().env("PLATTER_WITHOUT_DRIVERS", "threads").args(["info", "--json", &spec]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let info: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(info[0]["error"].as_str().unwrap().contains("threads"));
    assert_eq!(info[0]["kernel"][0]["size"], 4096);
}

#[test]
fn an_unreadable_path_is_refused_with_its_mode() {
    let dir = tempdir().unwrap();
    let (path, command) = (dir.path().join("secret.img"), dir.path().join("platter"));
    fs::write(&path, vec![0; 4096]).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    // Root may read everything, so the command runs as the user `nobody`, which may not be able to access the
    // original. `cp` copies it: a descriptor open for writing in this process could be inherited by another
    // test's child, and the copy would be too busy to run.
    let copied = std::process::Command::new("cp").arg(env!("CARGO_BIN_EXE_platter")).arg(&command).status();
    assert!(copied.unwrap().success());
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut nobody = std::process::Command::new(&command);
    if fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0) {
        nobody.uid(65534).gid(65534);
    }
    let output = nobody.args(["info", text(&path)]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("EACCES") && said.contains("0000"), "{said}");
}

#[test]
fn a_spec_may_come_with_comments_and_line_breaks() {
    let info = json(&["info", "ram( # in memory\n  1M,\n  depth=3\n)"]);
    assert_eq!(info[0]["depth"], 3);
    assert!(fails(2, &["info", "ram(1M,)"]).contains("ram(1M,)"));
    assert_eq!(run(&["info", "ram(1M)"]).stderr, b"", "nothing but the result");
}

/// A limit of the machine is no wrong usage.
#[test]
fn a_cache_that_gets_no_addresses_names_its_largest_size() {
    let limited = |spec: &str| {
        let mut shell = std::process::Command::new("sh");
        shell.args([
            "-c",
            "ulimit -v 4194304; exec \"$0\" \"$@\"",
            env!("CARGO_BIN_EXE_platter"),
            "info",
            spec,
        ]);
        let output = shell.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(limited("cache(size=16M, max_size=64M, ram(1M))").0, Some(0));
    let (status, said) = limited("cache(size=16M, max_size=1T, ram(1M))");
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("max_size=1T: ") && said.contains("make it smaller"), "{said}");
}

#[test]
fn a_cache_that_no_memory_is_there_for_is_refused() {
    for spec in ["cache(size=7T, ram(1M))", "cache(size=4T, ram(1M))"] {
        let typed = if spec.contains("7T") { "size=7T" } else { "size=4T" };
        fails_saying(3, &["info", spec], &[typed, "memory that is available", "make it smaller"]);
    }
    fails_saying(2, &["info", "cache(size=16T, ram(1M))"], &["size", "8T"]);
    for argument in ["size=8T", "max_size=8T"] {
        fails_saying(2, &["info", &format!("cache({argument}, ram(1M))")], &["below 8T", "`8T`"]);
    }
    let small = "cache(max_size=4K, ram(1M))";
    fails_saying(2, &["info", small], &["max_size=4K", "from 64M (size), below 8T"]);
    fails_saying(2, &["info", "cache(size=0, ram(1M))"], &["a size from 64K to below 8T", "`0`"]);
    fails_saying(2, &["info", "cache(size=128K, ram(1M))"], &["size=128K", "at least 256K"]);
    fails_saying(2, &["info", "cache(size=1048577, ram(1M))"], &["size=1048577", "multiples of 4096"]);
    fails_saying(2, &["info", "cache(background=30, ram(1M))"], &["background=30", "dirty=20"]);
    ok(&["info", "cache(size=4M, ram(1M))"]);
}

/// A size that was not given is as large as the shards need it.
#[test]
fn a_cache_without_a_size_has_one_that_fits_its_shards() {
    let pages = |spec: &str| {
        let info = json(&["info", spec]);
        let status = info[0]["layers"][0]["status"].as_array().unwrap();
        let item = status.iter().find(|item| item["name"] == "cache_pages").unwrap();
        item["value"].as_u64().unwrap()
    };
    assert_eq!(pages("cache(ram(1M))"), 16_384);
    assert_eq!(pages("cache(shards=3, ram(1M))"), 16_386);
    assert_eq!(pages("cache(shards=32, ram(1M))"), 32 << 10);
    fails_saying(2, &["info", "cache(size=64M, shards=3, ram(1M))"], &["size=64M", "multiples of 12288"]);
    let many = "cache(shards=256, extent=1G, ram(1M))";
    fails_saying(2, &["info", many], &["too small for shards=256", "1T together"]);
}
