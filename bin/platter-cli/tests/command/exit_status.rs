//! The exit statuses of docs/command.md: wrong usage is distinguished from missing devices, and both from
//! devices that do not allow the request.

use crate::run::{fails, fails_saying, ok, text};
use std::fs;
use std::path::Path;
use tempfile::tempdir;

/// The rows of the page's table: the statuses.
fn documented() -> Vec<i32> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/command.md");
    let page = fs::read_to_string(page).unwrap();
    let section = page.split("## Exit status\n").nth(1).unwrap().split("\n## ").next().unwrap().to_owned();
    let first = |line: &str| line.strip_prefix("| ")?.split(' ').next()?.parse().ok();
    section.lines().filter_map(first).collect()
}

#[test]
fn the_page_has_every_status() {
    assert_eq!(documented(), [0, 1, 2, 3, 4, 129, 130, 143]);
    let help = ok(&["--help"]);
    for status in documented() {
        assert!(
            help.contains(&format!("  {status} ")) || help.contains(&format!("; {status} by")),
            "{status}: {help}"
        );
    }
}

#[test]
fn what_is_wrong_on_every_machine_is_usage() {
    for args in [
        &["copy", "ram(1M)"] as &[_],
        &["copy", "ram(1M)", "ram(1M)", "--bs", "4100"],
        &["copy", "ram(1M)", "null(1M)", "--verify"],
        &["info", "null(1T, depth=0)"],
        &["info", "null(1T, dpeth=1)"],
        &["info", "raid()"],
        &["info", "raid0(chunk=3K, ram(1M), ram(1M))"],
        &["info", "cache(background=30, dirty=20, ram(1M))"],
        &["info", "partition(number=1, offset=1M, ram(8M))"],
        &["info", "sim(nothing)"],
        &["copy", "ram(1M)", "md(ram(1M))"],
        &["raid", "create", "--chunk", "3K", "ram(8M)"],
        &["raid", "wipe", "ram(8M)"],
        &["sim", "show", "nothing"],
        &["sim", "host", "show", "nothing"],
    ] {
        fails(2, args);
    }
}

#[test]
fn what_is_not_there_or_not_what_its_spec_says_cannot_be_opened() {
    let dir = tempdir().unwrap();
    let (missing, small) = (dir.path().join("missing"), dir.path().join("small"));
    fs::write(&small, vec![0; 4096]).unwrap();
    let on = |spec: &str, path: &Path| spec.replace('@', text(path));
    for spec in [
        on("@", &missing),
        on("raid0(@, ram(1M))", &missing),
        on("raid0(chunk=64K, @, ram(1M))", &small),
        on("partition(offset=1M, @)", &small),
        on("partition(number=3, @)", &small),
        on("raid(@)", &small),
        on("raid(name=data, search=@)", dir.path()),
        on("md(@)", &small),
        on("sim(@.diskspecs)", &missing),
        "cache(size=7T, ram(1M))".to_owned(),
        "@/nowhere/at/all".to_owned(),
    ] {
        fails(3, &["info", &spec]);
        fails(3, &["copy", &spec, "ram(1M)"]);
    }
    fails(3, &["sim", "show", &on("@.diskspecs", &missing)]);
    fails(3, &["raid", "examine", text(&missing)]);
}

#[test]
fn devices_that_do_not_allow_what_was_asked_for_refuse_it() {
    let dir = tempdir().unwrap();
    let small = dir.path().join("small");
    fs::write(&small, vec![0; 4096]).unwrap();
    for args in [
        &["copy", "ram(1M)", text(&small)] as &[_],
        &["copy", text(&small), text(&small)],
        &["copy", text(&small), "ram(1M)", "--start", "8K"],
        &["raid", "create", text(&small)],
        &["raid", "wipe", "--force", text(&small)],
    ] {
        fails(4, args);
    }
    assert_eq!(fs::read(&small).unwrap(), vec![0; 4096]);
    fails(1, &["copy", "--sparse", "never", "error(op=read, ram(1M))", "ram(1M)"]);
}

/// The benchmarks with devices of their own choice, with options that make them short.
const BENCHMARKS: [&[&str]; 6] = [
    &["bench", "io", "--rw", "read", "--number_ios", "1"],
    &["bench", "fileio", "--file-test-mode", "rndrd", "--events", "1"],
    &["bench", "dm", "--reads", "1", "--repeat", "1"],
    &["bench", "chunked", "--quick", "--samples", "1"],
    &["bench", "parallel-read", "--mode", "direct", "--repeat", "1"],
    &["bench", "schedulers", "--time", "1ms"],
];

#[test]
fn benchmarks_tell_wrong_specs_from_devices_that_do_not_fit_them() {
    let dir = tempdir().unwrap();
    let (missing, small) = (dir.path().join("missing"), dir.path().join("small"));
    fs::write(&small, vec![0; 4096]).unwrap();
    let on = |spec: &str, path: &Path| spec.replace('@', text(path));
    for bench in BENCHMARKS {
        let fails = |status: i32, spec: &str| fails(status, &[bench, &["--on", spec]].concat());
        fails(2, "null(1T, depth=0)");
        fails(2, "nul(1T)");
        fails(2, "scsi(ram(1M), access=standby)");
        fails(2, "scsi(ram(1M), standby_at=1s)");
        fails(3, &on("@", &missing));
        fails(3, &on("sim(@.diskspecs)", &missing));
        // The rungs of `bench dm` take disks only.
        if bench[1] != "dm" {
            fails(3, &on("partition(offset=1M, @)", &small));
            fails(3, &on("raid0(ram(1M), @)", &missing));
        }
    }
}

#[test]
fn benchmarks_refuse_devices_that_are_too_small_for_their_options() {
    for args in [
        &["bench", "io", "--on", "ram(1M)", "--size", "2M"] as &[_],
        &["bench", "io", "--on", "ram(1M)", "--bs", "2M"],
        &["bench", "fileio", "--on", "ram(1M)"],
        &["bench", "dm", "--on", "ram(4K)"],
        &["bench", "chunked", "--on", "ram(1M)", "--request", "4M"],
        &["bench", "parallel-read", "--on", "ram(1M)", "--mode", "direct", "--size", "2M"],
        &["bench", "schedulers", "--on", "ram(1K)", "--time", "1ms"],
    ] {
        fails(4, args);
    }
}

#[test]
fn a_server_without_an_export_or_with_files_that_cannot_be_used_is_refused() {
    let dir = tempdir().unwrap();
    let (plain, missing) = (dir.path().join("plain"), dir.path().join("missing/pid"));
    fs::write(&plain, "").unwrap();
    let socket = format!("unix:{}", text(&dir.path().join("nbd")));
    let exports = ["--nbd", "--fuse", "--ublk", "--vhost-user-blk"];
    fails_saying(2, &["serve", "ram(1M)"], &exports);
    fails_saying(2, &["serve", "ram(1M)", "--metrics", "127.0.0.1:0"], &exports);
    for option in exports {
        fails_saying(2, &["serve", "--config", text(&plain), option, "x"], &["cannot be used with", option]);
    }
    fails_saying(3, &["serve", "ram(1M)", "--nbd", &socket, "--pidfile", text(&missing)], &["pid file"]);
    let disk = dir.path().join("disk");
    fs::write(&disk, vec![0; 1 << 20]).unwrap();
    let serve = ["serve", text(&disk), "--nbd", &socket, "--pidfile", text(&disk)];
    fails_saying(4, &serve, &["is not a pid file"]);
    assert_eq!(fs::read(&disk).unwrap(), vec![0; 1 << 20]);
    fails_saying(3, &["ctl", text(&plain)], &["this is not a socket"]);
    fails_saying(2, &["check", text(&missing)], &["pid: cannot read the configuration"]);
}
