//! Writers that must wait because too many pages are dirty: how long a write takes, with the same limits on both sides.

use super::cold::{Pair, both};
use super::{Bench, Side};
use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

const WRITERS: u64 = 4;
const WRITES: u64 = 20_000;
const PAGE: u64 = 4096;
/// Dirty bytes at which write-back begins, and at which writers wait.
const LIMITS: (u64, u64) = (8 << 20, 16 << 20);

/// The kernel's limits of dirty bytes, which are those of the whole machine, while it exists.
struct Limits([(&'static str, String); 4]);

impl Limits {
    const NAMES: [&'static str; 4] = [
        "/proc/sys/vm/dirty_background_ratio",
        "/proc/sys/vm/dirty_ratio",
        "/proc/sys/vm/dirty_background_bytes",
        "/proc/sys/vm/dirty_bytes",
    ];

    fn set() -> Result<Limits, Box<dyn Error>> {
        let old = Limits::NAMES.map(|name| (name, std::fs::read_to_string(name).unwrap_or_default()));
        let limits = Limits(old);
        let why = |error| {
            format!("the kernel's limits of dirty pages cannot be set ({error}): run this cell as root")
        };
        // In this order each value is below the next limit.
        std::fs::write(Limits::NAMES[3], LIMITS.1.to_string()).map_err(why)?;
        std::fs::write(Limits::NAMES[2], LIMITS.0.to_string()).map_err(why)?;
        Ok(limits)
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        // Of a ratio and a number of bytes the one that is not in use is 0, and writing one ends the other.
        for (name, value) in self.0.iter().filter(|(_, value)| value.trim() != "0") {
            let _ = std::fs::write(name, value.trim());
        }
    }
}

/// The time of a write that one in a thousand exceeds. The rate is its inverse, so that shorter is better.
fn slow_writes(span: u64, write: &(dyn Fn(&[u8], u64) -> bool + Sync)) -> Result<Side, Box<dyn Error>> {
    let one = |thread: u64| {
        let (page, mut state, mut times) = ([thread as u8; PAGE as usize], thread + 1, Vec::new());
        for _ in 0..WRITES {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (pos, begin) = ((state >> 30) % (span / PAGE) * PAGE, Instant::now());
            if !write(&page, pos) {
                return None;
            }
            times.push(begin.elapsed().as_secs_f64());
        }
        Some(times)
    };
    let times = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..WRITERS).map(|thread| scope.spawn(move || one(thread))).collect();
        threads.into_iter().map(|thread| thread.join().ok().flatten()).collect::<Option<Vec<_>>>()
    });
    let mut times: Vec<f64> = times.ok_or("a write failed")?.into_iter().flatten().collect();
    times.sort_by(f64::total_cmp);
    let slow = times[times.len() - 1 - times.len() / 1000];
    Ok(Side { rate: 1.0 / slow, cpu: 0.0, device_bytes: 0 })
}

pub(crate) fn throttled(bench: &Bench, round: usize) -> Pair {
    let span = bench.size.min(1 << 30);
    let ours = || {
        bench.cool()?;
        // 5 and 10 % of it are the limits.
        let device = bench.written_with(10 * LIMITS.1, "background=5, dirty=10,")?;
        let side = slow_writes(span, &|page, pos| device.write_at(page, pos).is_ok())?;
        device.flush()?;
        Ok(side)
    };
    let theirs = || {
        bench.cool()?;
        let _limits = Limits::set()?;
        let file = File::options().read(true).write(true).open(&bench.path)?;
        let side = slow_writes(span, &|page, pos| file.write_all_at(page, pos).is_ok())?;
        file.sync_data()?;
        Ok(side)
    };
    both(round, ours, theirs)
}
