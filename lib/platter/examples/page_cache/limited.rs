//! A file larger than the memory for its pages: a cache of that size, and the kernel's cache in a memory cgroup of it.

use super::cold::{BLOCK, Pair, both, crowd};
use super::{Bench, Side};
use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Memory for pages.
const MEMORY: u64 = 256 << 20;
/// Four of five reads are in the first bytes of the file: most of them fit.
const HOT: u64 = 192 << 20;

/// The option with which this program runs the kernel's side, in the cgroup.
pub(crate) const SIDE: &str = "--kernel-side";

/// Reads at random, most often in the hot part: once so that memory is full, and once to measure.
fn skewed(size: u64, read: &(dyn Fn(&mut [u8], u64) -> bool + Sync)) -> Result<Side, Box<dyn Error>> {
    let place = |pos: u64| match pos / BLOCK {
        block if block % 5 < 4 => block / 5 % (HOT / BLOCK) * BLOCK,
        _ => pos,
    };
    crowd(size, &|buffer, pos| read(buffer, place(pos)))?;
    crowd(size, &|buffer, pos| read(buffer, place(pos)))
}

/// A memory cgroup of version 1 or 2, until this is dropped.
struct Group(PathBuf);

impl Group {
    fn new(bytes: u64) -> Result<Group, String> {
        let (root, limit) =
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")]
                .into_iter()
                .find(|(root, _)| Path::new(root).join("cgroup.procs").exists())
                .ok_or("there is no /sys/fs/cgroup")?;
        let dir = Path::new(root).join(format!("platter-{}", std::process::id()));
        let why = |error| format!("no memory cgroup can be made ({}: {error})", dir.display());
        std::fs::create_dir(&dir).map_err(why)?;
        let group = Group(dir.clone());
        std::fs::write(group.0.join(limit), bytes.to_string()).map_err(why)?;
        Ok(group)
    }

    /// Runs the kernel's side in the cgroup.
    fn run(&self, path: &Path, size: u64) -> Result<Side, Box<dyn Error>> {
        let enter = format!("echo $$ > '{}' && exec \"$@\"", self.0.join("cgroup.procs").display());
        let mut command = Command::new("sh");
        command
            .args(["-c", &enter, "sh"])
            .arg(std::env::current_exe()?)
            .arg(SIDE)
            .arg(path)
            .arg(size.to_string());
        let output = command.output()?;
        if !output.status.success() {
            return Err(format!("the kernel's side: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        let text = String::from_utf8(output.stdout)?;
        let mut words = text.split_whitespace();
        let mut next = || words.next().ok_or("the kernel's side says nothing");
        let (rate, cpu, device_bytes) = (next()?.parse()?, next()?.parse()?, next()?.parse()?);
        Ok(Side { rate, cpu, device_bytes })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// The kernel's side: prints what it measures.
pub(crate) fn kernel_side(path: &str, size: &str) -> Result<(), Box<dyn Error>> {
    let file = File::open(path)?;
    let side = skewed(size.parse()?, &|buffer, pos| file.read_exact_at(buffer, pos).is_ok())?;
    println!("{} {} {}", side.rate, side.cpu, side.device_bytes);
    Ok(())
}

/// Why this cell cannot run here, if it cannot.
pub(crate) fn obstacle() -> Option<String> {
    Group::new(MEMORY).err()
}

pub(crate) fn limited(bench: &Bench, round: usize) -> Pair {
    let ours = || {
        bench.cool()?;
        let handle = bench.cached(MEMORY)?.handle();
        skewed(bench.size, &|buffer, pos| handle.read_at(buffer, pos).is_ok())
    };
    let theirs = || {
        bench.cool()?;
        // The kernel counts its tables of pages as well.
        Group::new(MEMORY + MEMORY / 64)?.run(&bench.path, bench.size)
    };
    both(round, ours, theirs)
}
