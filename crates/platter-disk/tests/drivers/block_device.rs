//! A block device: a loop device over a file, when the tests run as root.

use crate::bench::{Bench, Pages, SIZE, file, file_options, is_here, open, transfer};
use platter_block::backend::LaneUse;
use platter_block::bio::{Bio, Op};
use platter_disk::drivers::table::{Medium, TABLE};
use platter_disk::sys::Direct;
use std::path::{Path, PathBuf};
use std::process::Command;

struct Loop(PathBuf);

impl Loop {
    /// `None` says why not.
    fn over(file: &Path) -> Option<Loop> {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output();
        match output {
            Ok(output) if output.status.success() => {
                Some(Loop(String::from_utf8(output.stdout).unwrap().trim().into()))
            }
            Ok(output) => skip(String::from_utf8_lossy(&output.stderr).trim()),
            Err(error) => skip(&error.to_string()),
        }
    }
}

fn skip(why: &str) -> Option<Loop> {
    println!("skipped, no loop device: {why}");
    None
}

impl Drop for Loop {
    fn drop(&mut self) {
        let detached = Command::new("losetup").arg("--detach").arg(&self.0).status();
        assert!(detached.is_ok_and(|status| status.success()), "{:?} is left behind", self.0);
    }
}

#[test]
fn a_block_device_is_written_read_flushed_discarded_and_zeroed() {
    for row in TABLE.iter().filter(|row| row.medium == Medium::Path && is_here(row)) {
        let file = file(SIZE);
        let Some(device) = Loop::over(file.path()) else { return };
        for lane_use in [LaneUse::Exclusive, LaneUse::Shared] {
            let disk = open(&device.0, file_options(row, 16), Direct::Require);
            let geometry = *disk.geometry();
            assert_eq!(geometry.size, SIZE, "{}", row.name);
            let mut bench = Bench::new(geometry, 16, disk.channel(lane_use).unwrap());
            for pos in 0..16u64 {
                bench.submit(transfer(Op::Write, pos * 65536, Pages::new(16, 9), &[512, 8192]));
            }
            bench.submit(Bio::flush());
            let done = bench.finish();
            assert_eq!(done.len(), 17, "{}", row.name);
            done.iter().for_each(|bio| assert_eq!(bio.status(), Ok(()), "{} {bio:?}", row.name));
            assert!(geometry.limits.write_zeroes);
            bench.submit(Bio::new(Op::WriteZeroes, 65536, 65536));
            if geometry.limits.discard_granularity > 0 {
                bench.submit(Bio::new(Op::Discard, 262_144, 65536));
            }
            bench.submit(transfer(Op::Read, 0, Pages::new(1, 0), &[]));
            let done = bench.finish();
            done.iter().for_each(|bio| assert_eq!(bio.status(), Ok(()), "{} {bio:?}", row.name));
            let mut read = bench.one(transfer(Op::Read, 0, Pages::new(64, 1), &[]));
            let back: Pages = read.take_buffer().unwrap();
            let wrong = (0..back.len())
                .find(|at| back.byte(*at) != if (65536..131_072).contains(at) { 0 } else { 9 });
            assert_eq!(wrong, None, "{}", row.name);
        }
    }
}
