//! The figures of the nine runs, and what is said in words.

use super::kernels::{RUNS, Run};
use super::{BYTES, Results, morton};
use crate::claim::{Claim, Rule};
use crate::host::readers::Found;
use crate::kind::Kind;
use crate::seeds::interval;

const MAIL: &str = "Dale, direct-to-BIO for O_DIRECT, linux-kernel, 10 July 2002";
const DISKS: u64 = 8;

/// The ids of a run's rate, time and idle time.
type Ids = (&'static str, [&'static str; 3]);

const IDS: [Ids; 9] = [
    ("2.4-normal", ["2.4-normal-rate", "2.4-normal-seconds", "2.4-normal-idle"]),
    ("2.4-direct", ["2.4-direct-rate", "2.4-direct-seconds", "2.4-direct-idle"]),
    ("2.4-raw", ["2.4-raw-rate", "2.4-raw-seconds", "2.4-raw-idle"]),
    ("2.5-normal", ["2.5-normal-rate", "2.5-normal-seconds", "2.5-normal-idle"]),
    ("2.5-direct", ["2.5-direct-rate", "2.5-direct-seconds", "2.5-direct-idle"]),
    ("2.5-raw", ["2.5-raw-rate", "2.5-raw-seconds", "2.5-raw-idle"]),
    ("bio-normal", ["bio-normal-rate", "bio-normal-seconds", "bio-normal-idle"]),
    ("bio-direct", ["bio-direct-rate", "bio-direct-seconds", "bio-direct-idle"]),
    ("bio-raw", ["bio-raw-rate", "bio-raw-seconds", "bio-raw-idle"]),
];

/// A figure holds within this factor.
const NEAR: f64 = 1.15;

/// Most seconds between the first and the last process that end "at almost exactly the same time".
const SAME_TIME: f64 = 1.0;

const fn around(published: f64) -> Rule {
    Rule::Between(published / NEAR, published * NEAR)
}

/// MiB/s.
fn rate(found: &Found) -> f64 {
    found.rate * 1e6 / f64::from(1 << 20)
}

/// Seconds for all of the published bytes.
fn seconds(found: &Found) -> f64 {
    (BYTES * DISKS) as f64 / (found.rate * 1e6)
}

/// Whole percent, as published.
fn idle(found: &Found) -> f64 {
    found.idle.round()
}

pub(super) fn all(results: &Results) -> Vec<Claim> {
    let mut claims: Vec<Claim> = RUNS.iter().flat_map(|run| of_run(results, run)).collect();
    claims.extend(spreads(results));
    claims.extend(of_morton(results));
    for claim in claims.iter_mut().filter(|claim| claim.holds() != Some(true)) {
        claim.reason = Some(why_not(claim.id).to_owned());
    }
    claims
}

/// A claim whose figure of the first seed is ours.
fn claim(
    (id, kind, place): (&'static str, Kind, &str),
    text: (&'static str, &'static str),
    (published, rule): (Option<f64>, Rule),
    seeds: &[f64],
) -> Claim {
    let ours = seeds.first().copied();
    let others = seeds.iter().skip(1).map(|value| Some(*value));
    let near = ours.filter(|value| rule.is_near(*value));
    Claim {
        published,
        ours,
        interval: near.and_then(|value| interval(value, others)),
        ..Claim::new(id, kind, (MAIL, place), text, rule)
    }
}

fn of_run(results: &Results, run: &Run) -> Vec<Claim> {
    let seeds = results.of(run.id);
    let ids = IDS.iter().find(|(id, _)| *id == run.id).map(|(_, ids)| ids);
    let of_rate = if run.id == "2.4-normal" { Kind::Input } else { Kind::Prediction };
    let place = format!("the results, {}", run.name());
    let text = [
        ("rate of eight disks", "MiB/s"),
        ("time for 80 GiB, from the rate", "s"),
        ("idle time of the processors", "%"),
    ];
    let kinds = [of_rate, Kind::Derived, Kind::Prediction];
    let published = [run.rate, run.seconds, run.idle];
    let figures: [fn(&Found) -> f64; 3] = [rate, seconds, idle];
    let figure = |(row, id): (usize, &&'static str)| {
        let seeds: Vec<f64> = seeds.iter().map(|found| figures[row](found)).collect();
        let value = (Some(published[row]), around(published[row]));
        claim((id, kinds[row], &place), text[row], value, &seeds)
    };
    ids.into_iter().flatten().enumerate().map(figure).collect()
}

fn spreads(results: &Results) -> [Claim; 2] {
    // The longest of the direct and raw runs, seed by seed.
    let longest = |ids: &[&str]| -> Vec<f64> {
        let runs: Vec<Vec<f64>> = ids
            .iter()
            .map(|id| results.of(id).iter().map(|found| found.spread.0 as f64 / 1e9).collect())
            .collect();
        let seeds = runs.first().map_or(0, Vec::len);
        (0..seeds)
            .map(|seed| runs.iter().filter_map(|run| run.get(seed)).fold(0.0, |a: f64, b| a.max(*b)))
            .collect()
    };
    let text = ("time between the first and the last disk that is through", "s");
    let place = "the paragraph on fairness";
    let (old, new) =
        (longest(&["2.4-direct", "2.4-raw"]), longest(&["2.5-direct", "2.5-raw", "bio-direct", "bio-raw"]));
    [
        claim(("2.4-spread", Kind::Prediction, place), text, (Some(30.0), Rule::near(30.0)), &old),
        claim(("2.5-spread", Kind::Prediction, place), text, (None, Rule::AtMost(SAME_TIME)), &new),
    ]
}

fn of_morton(results: &Results) -> [Claim; 3] {
    let ratios =
        |of: Vec<f64>, to: Vec<f64>| -> Vec<f64> { of.iter().zip(&to).map(|(of, to)| of / to).collect() };
    let busy = |bios| -> Vec<f64> {
        let per_byte = |found: &&Found| (100.0 - found.idle) / found.rate;
        results.small(bios).iter().map(per_byte).collect()
    };
    let written = |bytes, wait| results.written(bytes, wait);
    let place = "quoting Morton, 7 July 2002";
    let text = |says| (says, "with bios / with kiobufs");
    [
        claim(
            ("cpu-128k", Kind::Prediction, place),
            text("processor time of a byte in calls of 128 KiB"),
            (Some(1.0), around(1.0)),
            &ratios(busy(true), busy(false)),
        ),
        claim(
            ("write-128k", Kind::Derived, place),
            text("rate of writes of 128 KiB: a kiobuf holds them"),
            (Some(1.0), around(1.0)),
            &ratios(written(morton::SMALL, morton::SMALL), written(morton::SMALL, morton::SMALL)),
        ),
        claim(
            ("write-1m", Kind::Prediction, place),
            text("rate of writes of 1 MiB"),
            (Some(1.2), Rule::change(1.2)),
            &ratios(written(morton::LARGE, morton::LARGE), written(morton::LARGE, morton::KIOBUF)),
        ),
    ]
}

/// The property of the model because of which a figure is off.
fn why_not(id: &str) -> &'static str {
    match id {
        "2.4-spread" => {
            "the adapter and its disks share time fairly in the model; what favoured some of them is not published"
        }
        "2.4-direct-idle" | "2.4-raw-idle" => {
            "O_DIRECT with buffer heads of 1 KiB costs the model more time than published and raw reads with those of 4 KiB less; \
             their true sizes, and what the lockmeter and the profiler that ran took, are not published"
        }
        "write-1m" => {
            "the disk of the model loses rotations at each command of 64 KiB, whether a call waits or not. Morton's disk, its \
             cache and its queue depth are not published; one that writes the commands of its queue as one would lose \
             a rotation only where a call waits"
        }
        _ => "the model has no cause for it",
    }
}
