//! The progress of a run: on stderr while it runs, and in one line at the end.

use super::totals::Totals;
use crate::cli::progress::Progress;
use platter_bench::report::units::{bytes, duration, fixed, mib_per_s, throughput};
use std::time::Instant;

/// Progress in bytes.
pub(super) struct Meter {
    verb: &'static str,
    start: Instant,
    /// Bytes done before this run; set by the first update.
    before: Option<u64>,
    progress: Progress,
}

impl Meter {
    pub(super) fn new(verb: &'static str, progress: Progress) -> Meter {
        Meter { verb, start: Instant::now(), before: None, progress }
    }

    /// Removes the line of progress from a terminal, before something else is written.
    pub(super) fn clear(&mut self) {
        self.progress.clear();
    }

    /// Shows how far the run is, when that is due. `progress` counts bytes: done, not readable, all.
    pub(super) fn update(&mut self, progress: impl Fn() -> (u64, u64, u64)) {
        let before = *self.before.get_or_insert_with(|| progress().0);
        if self.progress.is_due() {
            let (done, bad, total) = progress();
            let ns = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.progress.show(&line(self.verb, (before, done, bad, total), ns));
        }
    }
}

fn line(verb: &str, (before, done, bad, total): (u64, u64, u64, u64), ns: u64) -> String {
    let percent = fixed(done as f64 / total.max(1) as f64 * 100.0, 1);
    let mut line = format!("{verb} {} of {} ({percent} %)", bytes(done), bytes(total));
    let fresh = done.saturating_sub(before);
    line += &format!(", {}", throughput(mib_per_s(fresh, ns)));
    if fresh > 0 {
        let left = (total - done.min(total)) as f64 / fresh as f64 * ns as f64;
        line += &format!(", {} left", duration(left as u64));
    }
    if bad > 0 {
        line += &format!(", {} not readable so far", bytes(bad));
    }
    line
}

/// One line about a copy that is complete.
pub(super) fn summary(totals: &Totals, ns: u64, verified: bool) -> String {
    let rate = throughput(mib_per_s(totals.sum(), ns));
    let mut line = format!("copied {} in {}, {rate}", bytes(totals.sum()), duration(ns));
    if totals.skipped > 0 {
        line += &format!("; {} of zeroes left out", bytes(totals.skipped));
    }
    if totals.zeroed > 0 {
        line += &format!("; {} made zero without being written", bytes(totals.zeroed));
    }
    if verified {
        line += "; verified";
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_how_fast_and_how_long() {
        let text = line("copied", (0, 1 << 30, 0, 4 << 30), 2_000_000_000);
        assert_eq!(text, "copied 1 GiB of 4 GiB (25.0 %), 512 MiB/s, 6.00 s left");
        assert_eq!(line("copied", (0, 0, 0, 0), 0), "copied 0 B of 0 B (0.0 %), 0.0 MiB/s");
    }

    #[test]
    fn what_an_earlier_run_copied_is_not_the_speed_of_this_one() {
        let text = line("copied", (1 << 30, 2 << 30, 4096, 4 << 30), 2_000_000_000);
        assert_eq!(text, "copied 2 GiB of 4 GiB (50.0 %), 512 MiB/s, 4.00 s left, 4 KiB not readable so far");
    }

    #[test]
    fn the_summary_tells_zeroes_apart() {
        let totals = Totals { written: 1 << 20, zeroed: 1 << 10, skipped: 1 << 11 };
        let text = summary(&totals, 1_000_000_000, true);
        assert!(text.contains("; 2 KiB of zeroes left out; 1 KiB made zero"), "{text}");
        assert!(text.ends_with("; verified"), "{text}");
    }
}
