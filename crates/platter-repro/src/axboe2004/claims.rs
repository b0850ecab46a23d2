//! The statements of the slides.

use super::Results;
use super::counted::{Counted, QUEUES};
use super::shares::{BACKLOG, Party, Scene};
use crate::claim::{Claim, Rule};
use crate::kind::Kind;
use crate::seeds::interval;

const TOKYO: &str = "Axboe, Linux Block IO - present and future, Tokyo, 15 October 2004";

/// Half of the disk for each of two parties, within 15 %.
const HALF: Rule = Rule::Between(0.5 / 1.15, 0.5 * 1.15);
/// One of eight I/Os, within 15 %.
const EIGHTH: Rule = Rule::Between(0.125 / 1.15, 0.125 * 1.15);

const DEADLINE: (&str, &str) = ("2.6.10", "deadline");
const CFQ1: (&str, &str) = ("2.6.5", "cfq-v1");
const CFQ2: (&str, &str) = ("2.6.10", "cfq-v2");

pub(super) fn all(results: &Results) -> Vec<Claim> {
    let mut claims: Vec<Claim> = results.counted().map(counted).unwrap_or_default();
    claims.extend(shares(results));
    claims.extend(switching(results));
    for claim in claims.iter_mut().filter(|claim| claim.holds() != Some(true)) {
        claim.reason = Some(why_not(claim.id).to_owned());
    }
    claims
}

fn exact(value: f64) -> Rule {
    Rule::Between(value, value)
}

fn counted(counted: &Counted) -> Vec<Claim> {
    let claim = |id, place, says, (published, ours): (f64, f64), rule| Claim {
        published: Some(published),
        ours: Some(ours),
        ..Claim::new(id, Kind::Mechanism, (TOKYO, place), says, rule)
    };
    let growth = |of: fn(&(u64, f64, f64)) -> f64| {
        let (first, last) = (counted.sorting.first(), counted.sorting.last());
        first.zip(last).map_or(f64::NAN, |(first, last)| of(last) / of(first))
    };
    let linear = QUEUES[QUEUES.len() - 1] as f64 / QUEUES[0] as f64;
    let logarithmic = (QUEUES[QUEUES.len() - 1] as f64).log2() / (QUEUES[0] as f64).log2();
    vec![
        claim(
            "linus-sorting",
            "2.4 IO scheduling",
            ("sorting is O(n): its cost for 8,192 requests in the queue, to that for 128", "x"),
            (linear, growth(|row| row.1)),
            Rule::Between(linear / 1.15, linear * 1.15),
        ),
        claim(
            "deadline-sorting",
            "deadline scheduler",
            ("sorting is O(log(n)): its cost for 8,192 requests in the queue, to that for 128", "x"),
            (logarithmic, growth(|row| row.2)),
            // O is an upper bound.
            Rule::AtMost(logarithmic),
        ),
        claim(
            "buffer-heads",
            "Struct buffer_head",
            ("size limitations: units of a call of 256 KiB, of a page each", ""),
            (64.0, counted.units[0] as f64),
            exact(64.0),
        ),
        claim(
            "bio-size",
            "New 2.6 io unit",
            ("an arbitrary amount of data: bios of a call of 256 KiB", ""),
            (1.0, counted.units[1] as f64),
            exact(1.0),
        ),
        claim(
            "bio-location",
            "New 2.6 io unit",
            ("absolute disk location: (hda4, 0) is (hda, 1004060)", "sector"),
            (1_004_060.0, counted.sector as f64),
            exact(1_004_060.0),
        ),
        claim(
            "plug-threshold",
            "Plugging performance",
            ("thresh=4: requests with which a plugged device starts", ""),
            (4.0, counted.threshold as f64),
            exact(4.0),
        ),
        claim(
            "plug-delay",
            "Plugging performance",
            ("delay=3ms: time after which it starts with fewer", "ms"),
            (3.0, counted.delay.0 as f64 / 1e6),
            exact(3.0),
        ),
    ]
}

fn shares(results: &Results) -> Vec<Claim> {
    let of_processes = |elevator, write| Scene { elevator, write, party: Party::Process, small: BACKLOG };
    let of_users =
        |by_user| Scene { elevator: CFQ2, write: false, party: Party::User { by_user }, small: BACKLOG };
    let fair = (
        "of two processes, one with 56 I/Os waiting and one with 8, the latter has half of the disk",
        "share",
    );
    let unfair = ("without fairness it has the share of its I/Os", "share");
    let rows = [
        (
            "cfq-reads",
            "CFQ scheduler: fairness, reads",
            Kind::Prediction,
            of_processes(CFQ1, false),
            fair,
            HALF,
        ),
        (
            "cfq-writes",
            "CFQ scheduler: fairness, writes",
            Kind::Prediction,
            of_processes(CFQ1, true),
            fair,
            HALF,
        ),
        ("cfq2-reads", "Linux-2.7: CFQ v2", Kind::Prediction, of_processes(CFQ2, false), fair, HALF),
        ("cfq2-writes", "Linux-2.7: CFQ v2", Kind::Prediction, of_processes(CFQ2, true), fair, HALF),
        (
            "cfq-users",
            "CFQ scheduler: groups on per-process/uid",
            Kind::Prediction,
            of_users(true),
            ("of two users, one with 56 processes and one with 8, the latter has half of the disk", "share"),
            HALF,
        ),
        (
            "cfq-users-by-process",
            "CFQ scheduler",
            Kind::Ours,
            of_users(false),
            ("the same, grouped by process: it has the share of its processes", "share"),
            EIGHTH,
        ),
        ("deadline-reads", "CFQ scheduler", Kind::Ours, of_processes(DEADLINE, false), unfair, EIGHTH),
        ("deadline-writes", "CFQ scheduler", Kind::Ours, of_processes(DEADLINE, true), unfair, EIGHTH),
    ];
    let claim = |(id, place, kind, scene, says, rule): (_, _, _, _, _, Rule)| {
        let seeds = results.shares(scene);
        let ours = seeds.first().map(|shares| shares.small);
        Claim {
            ours,
            interval: ours
                .filter(|ours| rule.is_near(*ours))
                .and_then(|ours| interval(ours, seeds.iter().skip(1).map(|shares| Some(shares.small)))),
            ..Claim::new(id, kind, (TOKYO, place), says, rule)
        }
    };
    rows.into_iter().map(claim).collect()
}

fn switching(results: &Results) -> Vec<Claim> {
    let seeds = results.switched();
    let Some(first) = seeds.first() else { return Vec::new() };
    let place = (TOKYO, "Linux-2.7: IO scheduling, online switching");
    let rate = Rule::AtLeast(0.5);
    vec![
        Claim {
            published: Some(1.0),
            ours: Some(first.completed as f64 / first.submitted.max(1) as f64),
            ..Claim::new(
                "switching-loses-nothing",
                Kind::Mechanism,
                place,
                ("part of the I/Os that complete once and without an error under switches", ""),
                exact(1.0),
            )
        },
        Claim {
            ours: Some(first.rate),
            interval: Some(first.rate)
                .filter(|ours| rate.is_near(*ours))
                .and_then(|ours| interval(ours, seeds.iter().skip(1).map(|switched| Some(switched.rate)))),
            ..Claim::new(
                "switching-under-load",
                Kind::Ours,
                place,
                ("rate with a switch after every hundred I/Os, to that with noop throughout", "x"),
                rate,
            )
        },
    ]
}

/// The property of the model because of which a figure is off.
fn why_not(_id: &str) -> &'static str {
    "the model does not show it, and why is not known"
}
