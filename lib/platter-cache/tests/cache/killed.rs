//! A program is killed: the data that it had flushed is in its file.

use crate::rig::{self, small};
use crate::stamp::{self, SECTOR};
use platter_cache::Settings;
use platter_disk::device::Device;
use platter_disk::open::DiskOptions;
use platter_sim::rng::Rng;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Passes the file to the processes that will be killed.
const VICTIM: &str = "PLATTER_TEST_VICTIM";

const SECTORS: u64 = 512;

/// The positions at which `version` is written.
fn places(version: u64) -> Vec<(u64, u64)> {
    let mut rng = Rng::new(version);
    (0..8).map(|_| (rng.below(SECTORS - 16), 1 + rng.below(16))).collect()
}

/// Writes one version after the other, and prints which are flushed.
fn work(path: &Path) {
    let below = Device::open(path, DiskOptions::read_write()).unwrap();
    let settings = Settings { background: 10, dirty: 50, ..small(32) };
    let device = rig::cached(Arc::clone(below.backend()), &settings);
    for version in 1.. {
        for (first, count) in places(version) {
            device.write_at(&stamp::sectors(version, first, count), first * SECTOR as u64).unwrap();
        }
        // Two of three are left to write-back.
        if version % 3 == 0 {
            device.flush().unwrap();
            let mut out = std::io::stdout().lock();
            if writeln!(out, "flushed {version}").and_then(|()| out.flush()).is_err() {
                return;
            }
        }
    }
}

#[test]
fn what_was_flushed_survives_a_kill() {
    if let Some(path) = std::env::var_os(VICTIM) {
        return work(Path::new(&path));
    }
    for life in 1..=8u64 {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(SECTORS * SECTOR as u64).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::what_was_flushed_survives_a_kill", "--nocapture"])
            .env(VICTIM, file.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let number = |line: String| line.strip_prefix("flushed ").and_then(|number| number.parse().ok());
        let mut flushed = said.by_ref().filter_map(number).take(life as usize * 5);
        let last: u64 = flushed.by_ref().last().expect("it flushes");
        assert_eq!(last, life * 15);
        child.kill().unwrap();
        child.wait().unwrap();
        // The last flush reported before the kill counts.
        let last = said.filter_map(number).last().unwrap_or(last);
        check(&std::fs::read(file.path()).unwrap(), last);
    }
}

fn check(data: &[u8], flushed: u64) {
    let mut least = vec![0; SECTORS as usize];
    for version in 1..=flushed {
        for (first, count) in places(version) {
            least[first as usize..(first + count) as usize].fill(version);
        }
    }
    let found = stamp::versions(data, 0);
    for (sector, (&found, &least)) in (0..).zip(found.iter().zip(&least)) {
        let wrote =
            |version| places(version).iter().any(|&(first, count)| (first..first + count).contains(&sector));
        let later = found > flushed && found < flushed + 1000 && wrote(found);
        assert!(found == least || later, "sector {sector}: {found} is there, {least} was flushed");
    }
}
