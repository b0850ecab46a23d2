//! The figures of the slide, and what the list costs.

use super::Results;
use super::machines::SIZE;
use super::system::{Found, Plugs};
use crate::claim::{Claim, Rule};
use crate::kind::Kind;
use crate::seeds::interval;

const TOKYO: &str = "Axboe, Linux Block IO - present and future, Tokyo, 15 October 2004";
const PLACE: &str = "Plugging scalability";

/// A figure holds within this factor.
const NEAR: f64 = 1.15;

type Row = (&'static str, Kind, (&'static str, Plugs), (&'static str, &'static str), f64, fn(&Found) -> f64);

fn thousands(found: &Found) -> f64 {
    found.rate / 1e3
}

fn mib(found: &Found) -> f64 {
    found.rate * SIZE as f64 / 1024.0
}

const RATE: (&str, &str) = ("reads", "1,000/s");
const BANDWIDTH: (&str, &str) = ("bandwidth, from the rate", "MiB/s");
const INTEL: (&str, Plugs) = ("Intel", Plugs::Listed);
const INTEL_PATCHED: (&str, Plugs) = ("Intel", Plugs::PerDevice);

const ROWS: [Row; 6] = [
    ("intel-list", Kind::Input, INTEL, RATE, 40.0, thousands),
    ("intel-per-device", Kind::Prediction, INTEL_PATCHED, RATE, 110.0, thousands),
    ("sgi-list", Kind::Input, ("SGI", Plugs::Listed), RATE, 44.0, thousands),
    ("sgi-per-device", Kind::Prediction, ("SGI", Plugs::PerDevice), RATE, 48.0, thousands),
    ("intel-list-bandwidth", Kind::Derived, INTEL, BANDWIDTH, 95.0, mib),
    ("intel-per-device-bandwidth", Kind::Derived, INTEL_PATCHED, BANDWIDTH, 230.0, mib),
];

pub(super) fn all(results: &Results) -> Vec<Claim> {
    let mut claims: Vec<Claim> = ROWS.iter().map(|row| figure(results, row)).collect();
    claims.push(gain(results));
    claims.extend(counted(results));
    for claim in claims.iter_mut().filter(|claim| claim.holds() != Some(true)) {
        claim.reason = Some(why_not(claim.id).to_owned());
    }
    claims
}

fn figure(results: &Results, (id, kind, (machine, plugs), text, published, figure): &Row) -> Claim {
    let seeds: Vec<f64> = results.of(machine, *plugs).iter().map(|found| figure(found)).collect();
    let rule = Rule::Between(published / NEAR, published * NEAR);
    let near = seeds.first().filter(|ours| rule.is_near(**ours));
    Claim {
        published: Some(*published),
        ours: seeds.first().copied(),
        interval: near.and_then(|ours| interval(*ours, seeds.iter().skip(1).map(|value| Some(*value)))),
        ..Claim::new(id, *kind, (TOKYO, PLACE), *text, rule)
    }
}

/// What the SGI system gained: nothing would be within the bounds of its rates.
fn gain(results: &Results) -> Claim {
    let [list, own] = [Plugs::Listed, Plugs::PerDevice].map(|plugs| results.of("SGI", plugs));
    let seeds: Vec<f64> = own.iter().zip(&list).map(|(own, list)| own.rate / list.rate).collect();
    let (published, text) = (48.0 / 44.0, ("reads with a plug for each device / with the list", ""));
    let rule = Rule::change(published);
    let near = seeds.first().filter(|ours| rule.is_near(**ours));
    Claim {
        published: Some(published),
        ours: seeds.first().copied(),
        interval: near.and_then(|ours| interval(*ours, seeds.iter().skip(1).map(|value| Some(*value)))),
        ..Claim::new("sgi-gain", Kind::Derived, (TOKYO, PLACE), text, rule)
    }
}

/// Counts for each I/O with a plug for each device: exact, in the model and here.
fn counted(results: &Results) -> [Claim; 2] {
    let ours = |count: fn(&Found) -> u64| {
        let found = *results.of("Intel", Plugs::PerDevice).first()?;
        Some(count(found) as f64 / found.ios as f64)
    };
    let here = results.here(Plugs::PerDevice);
    let per_io = |count: u64| here.map(|counts| count as f64 / counts.ios as f64);
    let claim = |id, says, ours, here| Claim {
        published: Some(0.0),
        ours,
        here,
        ..Claim::new(
            id,
            Kind::Mechanism,
            (TOKYO, "Per-backing device unplugs"),
            (says, "per I/O"),
            Rule::Between(0.0, 0.0),
        )
    };
    [
        claim(
            "foreign-starts",
            "requests that a thread starts for another one, with a plug for each device",
            ours(|found| found.foreign),
            per_io(here.map_or(0, |counts| counts.foreign)),
        ),
        claim(
            "list-lock",
            "acquisitions of a lock of all queues, with a plug for each device",
            ours(|found| found.list.acquisitions),
            per_io(here.map_or(0, |counts| counts.acquisitions)),
        ),
    ]
}

/// The property of the model because of which a figure is off.
fn why_not(id: &str) -> &'static str {
    match id {
        "intel-per-device" => "the disks of the system are not published; those of the model are chosen",
        "intel-list-bandwidth" | "intel-per-device-bandwidth" => {
            "blocks of the model have 2 KiB; the slide's rates and bandwidths give 2.4 KiB with the list and 2.1 KiB without"
        }
        "sgi-gain" => {
            "the processors of the model are 2 % busy, so threads hardly meet at the lock; those of the system were 16 % busy with the \
             list and 8 % without (Barnes, linux-kernel, 10 March 2004): its functions and its memory cost more than \
             those of dm2002 at another clock"
        }
        _ => "the model has no cause for it",
    }
}
