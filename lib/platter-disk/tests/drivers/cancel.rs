//! Requests that are cancelled.

use crate::bench::{BLOCK, Pages, file_options, flags, is_here, on_all, open, transfer};
use platter_block::backend::LaneUse;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::driver::{Completion, Driver};
use platter_block::time::Time;
use platter_disk::drivers::table::find;
use platter_disk::sys::Direct;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Each request that is cancelled while the device has it completes once, as usual or as cancelled, and the data of
/// the successful ones is on the disk.
#[test]
fn requests_complete_once_whether_they_are_called_back_in_time_or_not() {
    on_all(8, |name, disk, lane_use| {
        let mut bench = disk.lane(8, lane_use);
        for round in 0..20u8 {
            for block in 0..8u64 {
                let write = transfer(Op::Write, block * 2 * BLOCK as u64, Pages::new(1, round + 1), &[]);
                bench.submit(flags(write, Flags::NOMERGE));
            }
            if round % 2 == 0 {
                bench.run();
            }
            (0..16).for_each(|tag| {
                bench.lane.driver_mut().cancel(Time(0), tag);
            });
            let done = bench.finish();
            assert_eq!(done.len(), 8, "{name}");
            for bio in done {
                let cancelled = bio.status().is_err_and(|fault| fault.errno() == libc::ECANCELED);
                assert!(bio.status().is_ok() || cancelled, "{name} {bio:?}");
            }
            assert!(!bench.lane.driver_mut().cancel(Time(0), 3), "{name}: there is nothing to call back");
        }
    });
}

/// A file system that can be frozen.
struct Frozen {
    dir: tempfile::TempDir,
    frozen: bool,
}

fn run(program: &str, arguments: &[&str]) -> bool {
    let quiet = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}

impl Frozen {
    fn new() -> Option<Frozen> {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (image, at) = (dir.path().join("image"), dir.path().join("mount"));
        std::fs::create_dir(&at).unwrap();
        std::fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
        let (image, at) = (image.to_str().unwrap(), at.to_str().unwrap());
        let mounted = run("mkfs.ext4", &["-q", image]) && run("mount", &["-o", "loop", image, at]);
        let mut system = mounted.then_some(Frozen { dir, frozen: false });
        if !system.as_mut().is_some_and(|system| system.freeze(true) && system.freeze(false)) {
            println!("skipped, no file system that can be frozen (needs root, mkfs.ext4 and fsfreeze)");
            return None;
        }
        system
    }

    fn mount(&self) -> PathBuf {
        self.dir.path().join("mount")
    }

    fn freeze(&mut self, frozen: bool) -> bool {
        let done = run("fsfreeze", &[if frozen { "-f" } else { "-u" }, self.mount().to_str().unwrap()]);
        if done {
            self.frozen = frozen;
        }
        done
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if self.frozen {
            self.freeze(false);
        }
        run("umount", &["-l", self.mount().to_str().unwrap()]);
    }
}

/// On a frozen file system one write of zeroes blocks, or two, and the others wait for their turn. Those are cancelled while
/// it is frozen; what has started ends after it is thawed.
#[test]
fn what_waits_for_a_thread_is_called_back() {
    let Some(mut system) = Frozen::new() else { return };
    for (name, lane_use) in [
        ("uring", LaneUse::Exclusive),
        ("uring", LaneUse::Synchronous),
        ("aio", LaneUse::Shared),
        ("threads", LaneUse::Shared),
    ] {
        let row = find(name).unwrap();
        if !is_here(row) {
            continue;
        }
        let path = system.mount().join("disk");
        std::fs::write(&path, vec![1; 1 << 20]).unwrap();
        let mut options = file_options(row, 8);
        options.threads = 1;
        let disk = open(&path, options, Direct::Prefer);
        let mut bench = crate::bench::Bench::new(*disk.geometry(), 8, disk.channel(lane_use).unwrap());
        assert!(system.freeze(true));
        for block in 0..4u64 {
            let zeroes = Bio::new(Op::WriteZeroes, block * 8192, 4096);
            bench.submit(flags(zeroes, Flags::NOMERGE));
        }
        bench.run();
        let driver = bench.lane.driver_mut();
        let mut done: Vec<Completion> = Vec::new();
        // The kernel may start a second one, which then blocks too and cannot be cancelled.
        let limit = Instant::now() + Duration::from_secs(10);
        while done.len() < 3 && (done.is_empty() || Instant::now() < limit) {
            // Asked again: it is unknown which of them has started, and one that is just starting cannot be
            // cancelled.
            (0..4).for_each(|tag| {
                driver.cancel(Time(0), tag);
            });
            driver.submit(Time(0));
            driver.reap(Time(0), &mut done);
            std::thread::yield_now();
        }
        let cancelled = |done: &Completion| done.result == -i64::from(libc::ECANCELED);
        assert!(done.iter().all(cancelled), "{name} {done:?}");
        assert!(system.freeze(false));
        while done.len() < 4 {
            driver.wait(Time(0), None);
            driver.reap(Time(0), &mut done);
        }
        let mut tags: Vec<u32> = done.iter().map(|done| done.tag).collect();
        tags.sort_unstable();
        assert_eq!(tags, [0, 1, 2, 3], "{name}");
        drop(bench);
    }
}
