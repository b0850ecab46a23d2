//! "Random file I/O regressions in 2.6": SysBench's fileio test as A. Kopytov, N. Piggin and A. Morton ran it
//! in May 2004, on linux-kernel.
//!
//! All threads of the test share one open file for each file. If the readahead state belongs to the file, two
//! overlapping reads look like jumps to it, and after a few it is off permanently: from then on a read of 16
//! KiB is four of a page, each waited for. The model has this from the policies themselves; [`show::method`]
//! lists its other assumptions.

mod cells;
mod claims;
mod crew;
mod journal;
mod layout;
mod machine;
mod show;
mod words;

use super::cells::run_all;
use super::{Experiment, Hooks, Options, Report, ReproError};
use cells::{CELLS, Found, SEEDS};
use machine::{Kernel, Machine};
use platter_bench::fileio::Plan;

/// The row of the table.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "sysbench2004",
    summary: "random file I/O regressions in 2.6: SysBench's fileio test of May 2004",
    elevators: || CELLS.iter().map(|(_, kernel)| kernel.elevator).collect(),
    run,
};

/// Requests of the test.
const REQUESTS: u64 = 10_000;
/// Up to this scale all requests are run: that takes seconds.
const WHOLE: u64 = 4;

fn run(options: &Options, hooks: Hooks<'_>) -> Result<Report, ReproError> {
    let requests = REQUESTS * WHOLE / options.scale.max(WHOLE);
    let seeds = || (0..SEEDS).map(|next| options.seed.wrapping_add(next));
    let cells: Vec<(&Kernel, u64)> =
        CELLS.iter().flat_map(|(_, kernel)| seeds().map(move |seed| (kernel, seed))).collect();
    let outcomes = run_all(options, hooks, &cells, |&(kernel, seed), cancel| {
        let plan =
            Plan { total_size: kernel.files, events: requests, fsync_end: false, seed, ..Plan::default() };
        crew::run(&Machine::new(kernel, seed, &options.elevators)?, &plan, kernel, cancel)
    })?;
    let found = Found::new(outcomes);
    Ok(Report {
        name: EXPERIMENT.name,
        summary: EXPERIMENT.summary,
        method: show::method(requests),
        tables: show::tables(&found),
        charts: Vec::new(),
        claims: claims::all(&found),
        scale: options.scale,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Claim;
    use std::collections::HashSet;
    use std::sync::atomic::AtomicBool;

    fn report(threads: usize) -> Report {
        let cancel = AtomicBool::new(false);
        let hooks = Hooks { cancel: &cancel, progress: &mut |_| () };
        run(&Options { scale: 64, threads, ..Options::default() }, hooks).unwrap()
    }

    /// At the smallest scale: claims that do not depend on how long windows had time to be closed.
    #[test]
    fn every_claim_is_asked_and_what_fails_has_a_reason_whatever_the_threads() {
        let (one, two) = (report(1), report(2));
        assert_eq!(one.to_json().to_string(), two.to_json().to_string());
        let claims = &one.claims;
        let ids: HashSet<&str> = claims.iter().map(|claim| claim.id).collect();
        assert_eq!(ids.len(), claims.len());
        for id in [
            "2.4.25",
            "2.6.5-noop",
            "2.6.5-as",
            "2.6.5-deadline",
            "2.6.5-cfq",
            "2.6.6-noop",
            "2.6.6-as",
            "2.6.6-deadline",
            "2.6.6-cfq",
            "piggin-2.4.24",
            "piggin-2.6.6",
            "piggin-patched",
            "morton-fix",
            "counters-before",
            "counters-after",
        ] {
            assert!(ids.contains(id), "{id}");
        }
        assert!(claims.iter().all(|claim| claim.ours.is_some_and(f64::is_finite)));
        let of = |id: &str| -> &Claim { claims.iter().find(|claim| claim.id == id).unwrap() };
        for id in ["counters-before-hits", "counters-after", "counters-after-hits"] {
            assert_eq!(of(id).holds(), Some(true), "{id}");
        }
        assert!(of("order-2.4-as").ours.is_some_and(|times| times > 1.0));
        // These do not depend on the number of requests either.
        for id in
            ["requests-no-help", "off-no-help", "tags-as", "semaphore-closed", "off-single", "shared-2.4"]
        {
            assert_eq!(of(id).holds(), Some(true), "{id}");
        }
        // Misses close windows before the change, and none after it.
        let [before, after] = ["counters-before", "counters-after"].map(|id| of(id).ours.unwrap());
        assert!(before > after + 5.0, "{before} and {after}");
        let text = one.to_text(false);
        assert!(
            ["Only 625 requests", "Memory: 512 MB", "data=ordered", "2.6.5-bk2, noop"]
                .map(|part| text.contains(part))
                == [true; 4]
        );
    }
}
