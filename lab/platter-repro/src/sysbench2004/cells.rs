//! The runs with their names, and the published results.

use super::crew::Outcome;
use super::machine::{Change, KOPYTOV, Kernel, SMALL};

/// Files of the test, in bytes.
const SIZE: u64 = 3 << 30;

/// The runs, by name.
pub(super) const CELLS: &[(&str, Kernel)] = &[
    ("2.4", on(KOPYTOV, "linux-2.4", ("2.4.25", "linus"))),
    ("2.6-noop", on(KOPYTOV, "2.6.5", ("2.6.5", "noop"))),
    ("2.6-as", on(KOPYTOV, "2.6.5", ("2.6.5", "anticipatory"))),
    ("2.6-deadline", on(KOPYTOV, "2.6.5", ("2.6.5", "deadline"))),
    ("2.6-cfq", on(KOPYTOV, "2.6.5", ("2.6.5", "cfq-v1"))),
    ("private-as", on(KOPYTOV, "2.6.6+private", ("2.6.5", "anticipatory"))),
    ("private-deadline", on(KOPYTOV, "2.6.6+private", ("2.6.5", "deadline"))),
    ("2.6.7-as", on(KOPYTOV, "2.6.7", ("2.6.7", "anticipatory"))),
    ("piggin-2.4", on(SMALL, "linux-2.4", ("2.4.25", "linus"))),
    ("piggin-2.6", on(SMALL, "2.6.5", ("2.6.5", "anticipatory"))),
    ("piggin-exact", on(SMALL, "none", ("2.6.5", "anticipatory"))),
    ("piggin-size", on(SMALL, "2.6.6+size", ("2.6.5", "anticipatory"))),
    ("2.4-2g", Kernel { files: 2 << 30, ..on(KOPYTOV, "linux-2.4", ("2.4.25", "linus")) }),
    ("2.4-4g", Kernel { files: 4 << 30, ..on(KOPYTOV, "linux-2.4", ("2.4.25", "linus")) }),
    ("2.4-8g", Kernel { files: 8 << 30, ..on(KOPYTOV, "linux-2.4", ("2.4.25", "linus")) }),
    ("2.6.7-2g", Kernel { files: 2 << 30, ..on(KOPYTOV, "2.6.7", ("2.6.7", "anticipatory")) }),
    ("2.6.7-4g", Kernel { files: 4 << 30, ..on(KOPYTOV, "2.6.7", ("2.6.7", "anticipatory")) }),
    ("2.6.7-8g", Kernel { files: 8 << 30, ..on(KOPYTOV, "2.6.7", ("2.6.7", "anticipatory")) }),
    ("ext2-2.4", mortons("linux-2.4", ("2.4.25", "linus"))),
    ("ext2-as", mortons("2.6.5", ("2.6.5", "anticipatory"))),
    ("ext2-cfq", mortons("2.6.5", ("2.6.5", "cfq-v1"))),
    ("ext2-deadline", mortons("2.6.5", ("2.6.5", "deadline"))),
    ("ext2-private-as", mortons("2.6.6+private", ("2.6.5", "anticipatory"))),
    ("ext2-private-cfq", mortons("2.6.6+private", ("2.6.5", "cfq-v1"))),
    ("ext2-private-deadline", mortons("2.6.6+private", ("2.6.5", "deadline"))),
    ("piggin-requests", piggins("2.6.5", Change::Requests(1024))),
    ("piggin-expiry", piggins("2.6.5", Change::Expiry(10))),
    ("piggin-off", piggins("2.6.5-off", Change::Nothing)),
    ("lock-as", on(KOPYTOV, "2.6.6+lock", ("2.6.5", "anticipatory"))),
    ("tags-as", tagged("anticipatory")),
    ("tags-deadline", tagged("deadline")),
];

/// 2.6 on Piggin's machine, with a change.
const fn piggins(readahead: &'static str, change: Change) -> Kernel {
    Kernel { change, ..on(SMALL, readahead, ("2.6.5", "anticipatory")) }
}

/// Kopytov's 2.6 with a disk that has tagged commands.
const fn tagged(elevator: &'static str) -> Kernel {
    Kernel { change: Change::Tags, ..on(KOPYTOV, "2.6.5", ("2.6.5", elevator)) }
}

/// Morton's machine: 2 GB of files on ext2.
const fn mortons(readahead: &'static str, elevator: (&'static str, &'static str)) -> Kernel {
    Kernel { files: 2 << 30, journal: false, ..on(SMALL, readahead, elevator) }
}

const fn on(
    memory: u64,
    readahead: &'static str,
    (preset, elevator): (&'static str, &'static str),
) -> Kernel {
    Kernel { readahead, preset, elevator, memory, files: SIZE, journal: true, change: Change::Nothing }
}

/// A published time.
pub(super) struct Time {
    /// Name of the claim.
    pub(super) id: &'static str,
    /// A description of the run.
    pub(super) says: &'static str,
    /// The document, and the place in it.
    pub(super) from: (&'static str, &'static str),
    /// Seconds.
    pub(super) seconds: f64,
    /// The run that models it.
    pub(super) cell: &'static str,
    /// The claim whose time the table divides it by.
    pub(super) base: Option<&'static str>,
}

/// The page with the first mails.
pub(super) const PAGE: &str = "Random file I/O regressions in 2.6, KernelTrap, 4 May 2004";
/// All mails.
pub(super) const THREAD: &str = "Random file I/O regressions in 2.6, linux-kernel, 2 to 26 May 2004";

const MAY2: (&str, &str) = (PAGE, "A. Kopytov, 2 May 2004");
const MAY3: (&str, &str) = (PAGE, "N. Piggin, 3 May 2004");
const FIXED: (&str, &str) = (THREAD, "A. Kopytov, with Morton's patch");
const LATER: (&str, &str) = (THREAD, "A. Kopytov, 2.6.7-rc1 and 2.4.27-pre3");
const TABLE: (&str, &str) = (THREAD, "A. Morton, table of 2 GB on ext2, 256 MB, two processors");

type From = ((&'static str, &'static str), Option<&'static str>);

const fn time(
    id: &'static str,
    cell: &'static str,
    seconds: f64,
    (from, base): From,
    says: &'static str,
) -> Time {
    Time { id, says, from, seconds, cell, base }
}

const KOPYTOVS: From = (MAY2, Some("2.4.25"));
const PIGGINS: From = (MAY3, Some("piggin-2.4.24"));
const FIX: From = (FIXED, Some("2.4.25"));
const MORTONS: From = (TABLE, Some("morton-2.4.27"));

/// The published times. A base comes before the times compared with it.
pub(super) const TIMES: &[Time] = &[
    time("2.4.25", "2.4", 77.5377, (MAY2, None), "2.4.25"),
    time("2.6.5-noop", "2.6-noop", 165.3393, KOPYTOVS, "2.6.5-bk2, noop"),
    time("2.6.5-as", "2.6-as", 118.7450, KOPYTOVS, "2.6.5-bk2, anticipatory"),
    time("2.6.5-deadline", "2.6-deadline", 130.3254, KOPYTOVS, "2.6.5-bk2, deadline"),
    time("2.6.5-cfq", "2.6-cfq", 146.4286, KOPYTOVS, "2.6.5-bk2, CFQ"),
    time("2.6.6-noop", "2.6-noop", 164.9486, KOPYTOVS, "2.6.6-rc3, noop"),
    time("2.6.6-as", "2.6-as", 125.1776, KOPYTOVS, "2.6.6-rc3, anticipatory"),
    time("2.6.6-deadline", "2.6-deadline", 131.8903, KOPYTOVS, "2.6.6-rc3, deadline"),
    time("2.6.6-cfq", "2.6-cfq", 152.9280, KOPYTOVS, "2.6.6-rc3, CFQ"),
    time("piggin-2.4.24", "piggin-2.4", 81.0, (MAY3, None), "another machine of 256 MB, 2.4.24"),
    time("piggin-2.6.6", "piggin-2.6", 126.0, PIGGINS, "the same, 2.6.6-rc3-mm1"),
    time("piggin-patched", "piggin-exact", 87.0, PIGGINS, "the same, reading the request first"),
    time("morton-fix", "private-as", 86.5, FIX, "a private copy of the state, anticipatory"),
    time("morton-fix-deadline", "private-deadline", 92.8, FIX, "a private copy of the state, deadline"),
    time("2g-2.4.27", "2.4-2g", 58.3, (LATER, None), "2 GB of files, 2.4.27-pre3"),
    time("2g-2.6.7", "2.6.7-2g", 60.7, (LATER, Some("2g-2.4.27")), "2 GB of files, 2.6.7-rc1"),
    time("4g-2.4.27", "2.4-4g", 72.3, (LATER, None), "4 GB of files, 2.4.27-pre3"),
    time("4g-2.6.7", "2.6.7-4g", 82.8, (LATER, Some("4g-2.4.27")), "4 GB of files, 2.6.7-rc1"),
    time("8g-2.4.27", "2.4-8g", 83.1, (LATER, None), "8 GB of files, 2.4.27-pre3"),
    time("8g-2.6.7", "2.6.7-8g", 99.4, (LATER, Some("8g-2.4.27")), "8 GB of files, 2.6.7-rc1"),
    time("morton-2.4.27", "ext2-2.4", 60.9, (TABLE, None), "Morton's machine, 2.4.27-pre2"),
    time("morton-2.6.6-as", "ext2-as", 83.8, MORTONS, "the same, 2.6.6, anticipatory"),
    time("morton-2.6.6-cfq", "ext2-cfq", 85.4, MORTONS, "the same, 2.6.6, CFQ"),
    time("morton-2.6.6-deadline", "ext2-deadline", 102.5, MORTONS, "the same, 2.6.6, deadline"),
    time("morton-fixed-as", "ext2-private-as", 62.6, MORTONS, "the same, 2.6.6-bk, anticipatory"),
    time("morton-fixed-cfq", "ext2-private-cfq", 67.2, MORTONS, "the same, 2.6.6-bk, CFQ"),
    time("morton-fixed-deadline", "ext2-private-deadline", 63.4, MORTONS, "the same, 2.6.6-bk, deadline"),
];

/// Seeds of each run: the positions of requests.
pub(super) const SEEDS: u64 = 3;

/// The results of the runs, for each seed.
pub(super) struct Found(Vec<(&'static str, Vec<Outcome>)>);

impl Found {
    /// Outcomes in the order of [`CELLS`], those of one run together.
    pub(super) fn new(outcomes: Vec<Outcome>) -> Found {
        let mut outcomes = outcomes.into_iter();
        let runs = CELLS.iter().map(|(name, _)| (*name, outcomes.by_ref().take(SEEDS as usize).collect()));
        Found(runs.collect())
    }

    /// The results of each seed by itself.
    pub(super) fn by_seed(&self) -> Vec<Found> {
        let one = |seed: usize| {
            Found(self.0.iter().map(|(name, all)| (*name, all[seed..=seed].to_vec())).collect())
        };
        (0..SEEDS as usize).map(one).collect()
    }

    /// A mean over the seeds of a run.
    pub(super) fn mean(&self, cell: &str, of: impl Fn(&Outcome) -> f64) -> Option<f64> {
        let (_, outcomes) = self.0.iter().find(|(name, _)| *name == cell)?;
        let sum: f64 = outcomes.iter().map(of).sum();
        (!outcomes.is_empty()).then(|| sum / outcomes.len() as f64)
    }

    /// Seconds of a run.
    pub(super) fn seconds(&self, cell: &str) -> Option<f64> {
        self.mean(cell, |outcome| outcome.time.0 as f64 / 1e9)
    }
}
