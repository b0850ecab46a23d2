//! Statements of the thread without a figure: what does not help, and what does.
//!
//! "Isn't improved" allows for the 5 % by which Kopytov's two kernels of 2.6 differ; "fixes it" is the same time as with the
//! other cure within 15 %; "regression" is a twentieth, and "more than" twice.

use super::cells::{Found, PAGE};
use super::crew::single;
use crate::claim::{Claim, Rule};
use crate::kind::Kind;

const PIGGIN: (&str, &str) = (PAGE, "N. Piggin, 3 May 2004");
const MORTON: (&str, &str) = (PAGE, "A. Morton, 3 May 2004, 23:29");
const MEANS: (&str, &str) = (PAGE, "A. Morton, 3 May 2004, 14:59");

/// Time of the first run in times of the second.
struct Against {
    id: &'static str,
    from: (&'static str, &'static str),
    says: &'static str,
    runs: [&'static str; 2],
    rule: Rule,
}

const NO_BETTER: Rule = Rule::AtLeast(0.95);

const TIMES: [Against; 5] = [
    Against {
        id: "requests-no-help",
        from: PIGGIN,
        says: "2.6 is not improved by a longer queue (nr_requests 1024 instead of 128)",
        runs: ["piggin-requests", "piggin-2.6"],
        rule: NO_BETTER,
    },
    Against {
        id: "expiry-no-help",
        from: PIGGIN,
        says: "2.6 is not improved by relaxed deadlines (read_expire and write_expire ten times as long)",
        runs: ["piggin-expiry", "piggin-2.6"],
        rule: NO_BETTER,
    },
    Against {
        id: "off-no-help",
        from: PIGGIN,
        says: "2.6 is not improved by turning off readahead",
        runs: ["piggin-off", "piggin-2.6"],
        rule: NO_BETTER,
    },
    Against {
        id: "tags-as",
        from: PIGGIN,
        says: "the database regression: on a disk with tagged commands (16) anticipatory takes longer than deadline",
        runs: ["tags-as", "tags-deadline"],
        rule: Rule::AtLeast(1.05),
    },
    Against {
        id: "semaphore-time",
        from: MORTON,
        says: "a semaphore around the read cures it as a private copy does",
        runs: ["lock-as", "private-as"],
        rule: Rule::Between(0.85, 1.15),
    },
];

/// The claims.
pub(super) fn all(found: &Found) -> Vec<Claim> {
    let mut claims: Vec<Claim> = TIMES.iter().map(|row| against(found, row)).collect();
    claims.push(Claim {
        published: Some(0.0),
        ours: found.mean("lock-as", |outcome| outcome.cache.readahead.closed_by_miss as f64),
        ..claim(
            "semaphore-closed",
            MORTON,
            "with a semaphore no window is closed by misses",
            "times",
            exactly(0.0),
        )
    });
    claims.push(Claim {
        kind: Kind::Derived,
        published: Some(118.745 / 86.5),
        ours: ratio(found, ["2.6-as", "private-as"]),
        ..claim(
            "private-cures",
            MORTON,
            "without the private copy it takes longer (2.6.5-as over morton-fix)",
            "times as long",
            Rule::near(118.745 / 86.5).within(1.0, f64::INFINITY),
        )
    });
    claims.push(Claim {
        kind: Kind::Mechanism,
        published: Some(1.0),
        ours: found.mean("piggin-off", single),
        ..claim(
            "off-single",
            MEANS,
            "readahead is the only means by which 2.6 builds reads of several pages: without it all are of one",
            "share",
            exactly(1.0),
        )
    });
    claims.push(Claim {
        ours: found.mean("2.4", single).zip(found.mean("2.6-as", single)).map(|(old, new)| old / new),
        ..claim(
            "shared-2.4",
            MORTON,
            "shared files upset the readahead state of 2.6 more than that of 2.4 (reads of one page)",
            "of 2.6's share",
            Rule::AtMost(0.5),
        )
    });
    claims
}

fn exactly(value: f64) -> Rule {
    Rule::Between(value, value)
}

fn claim(
    id: &'static str,
    from: (&'static str, &str),
    says: &'static str,
    unit: &'static str,
    rule: Rule,
) -> Claim {
    Claim::new(id, Kind::Prediction, from, (says, unit), rule)
}

fn against(found: &Found, row: &Against) -> Claim {
    Claim { ours: ratio(found, row.runs), ..claim(row.id, row.from, row.says, "times as long", row.rule) }
}

/// The time of one run over that of another.
fn ratio(found: &Found, [one, other]: [&str; 2]) -> Option<f64> {
    Some(found.seconds(one)? / found.seconds(other)?)
}
