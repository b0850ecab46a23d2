//! `auto` without the drivers that it would choose: in a process of its own, since the environment names
//! them.

use crate::bench::{Bench, Pages, SIZE, file, is_here, open, transfer};
use platter_block::backend::LaneUse;
use platter_block::bio::Op;
use platter_disk::drivers::table::find;
use platter_disk::drivers::{FileOptions, WITHOUT};
use platter_disk::sys::Direct;
use std::process::Command;

/// Run by the other test, with [`WITHOUT`] set; on its own it prints what `auto` chooses here.
#[test]
fn auto_drives_a_file() {
    let file = file(SIZE);
    let disk = open(file.path(), FileOptions::default(), Direct::Prefer);
    let chosen = disk.chosen();
    println!("driver {}, because {:?}", chosen.kind, chosen.why_fell_back);
    assert_eq!(chosen.why_fell_back.is_none(), chosen.kind.name() == "uring");
    let mut bench = Bench::new(*disk.geometry(), 128, disk.channel(LaneUse::Shared).unwrap());
    assert_eq!(bench.one(transfer(Op::Write, 0, Pages::new(4, 7), &[512])).status(), Ok(()));
}

#[test]
fn auto_falls_back_and_says_why() {
    let here = |name| is_here(find(name).unwrap());
    for (without, driver) in [("uring", "aio"), ("uring,aio", "threads"), ("aio", "uring")] {
        if !here(driver) {
            continue;
        }
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "fallback::auto_drives_a_file", "--nocapture"])
            .env(WITHOUT, without)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}");
        assert!(said.contains(&format!("driver {driver}, because")), "{said}");
        assert_eq!(said.contains("no uring: PLATTER_WITHOUT_DRIVERS names it"), driver != "uring", "{said}");
    }
}
