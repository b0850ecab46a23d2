//! The eight runs, and what the plug gains.

use super::Results;
use crate::claim::{Claim, Rule};
use crate::kind::Kind;
use crate::seeds::interval;

const TOKYO: &str = "Axboe, Linux Block IO - present and future, Tokyo, 15 October 2004";
const PLACE: &str = "Plugging performance";

/// A figure holds within this factor.
const NEAR: f64 = 1.01;

/// A run: its name, elevator, plug and seconds.
type Row = (&'static str, &'static str, bool, f64);

const ROWS: [Row; 8] = [
    ("deadline-plugged-1", "deadline", true, 151.0),
    ("deadline-plugged-2", "deadline", true, 152.0),
    ("as-plugged-1", "anticipatory", true, 150.0),
    ("as-plugged-2", "anticipatory", true, 150.0),
    ("deadline-unplugged-1", "deadline", false, 154.0),
    ("deadline-unplugged-2", "deadline", false, 154.0),
    ("as-unplugged-1", "anticipatory", false, 154.0),
    ("as-unplugged-2", "anticipatory", false, 154.0),
];

/// Means of two runs without the plug over those with it.
const GAINS: [(&str, &str, f64); 2] =
    [("gain-deadline", "deadline", 154.0 / 151.5), ("gain-as", "anticipatory", 154.0 / 150.0)];

pub(super) fn all(results: &Results) -> Vec<Claim> {
    let mut claims: Vec<Claim> = ROWS.iter().map(|row| seconds(results, row)).collect();
    claims.extend(GAINS.iter().map(|row| gain(results, row)));
    for claim in claims.iter_mut().filter(|claim| claim.holds() != Some(true)) {
        claim.reason = Some(WHY_NOT.to_owned());
    }
    claims
}

fn claim(
    (id, kind): (&'static str, Kind),
    text: (&'static str, &'static str),
    (published, rule): (f64, Rule),
    seeds: &[f64],
) -> Claim {
    let ours = seeds.first().copied();
    let near = ours.filter(|ours| rule.is_near(*ours));
    Claim {
        published: Some(published),
        ours,
        interval: near.and_then(|ours| interval(ours, seeds.iter().skip(1).map(|value| Some(*value)))),
        ..Claim::new(id, kind, (TOKYO, PLACE), text, rule)
    }
}

fn seconds(results: &Results, &(id, elevator, plug, published): &Row) -> Claim {
    let seeds = results.of(elevator, plug);
    let kind = if id == "deadline-plugged-1" { Kind::Input } else { Kind::Prediction };
    let rule = Rule::Between(published / NEAR, published * NEAR);
    let text = if plug { ("two trees compared", "s") } else { ("two trees compared, without the plug", "s") };
    claim((id, kind), text, (published, rule), &seeds)
}

fn gain(results: &Results, &(id, elevator, published): &(&'static str, &str, f64)) -> Claim {
    let [with, without] = [true, false].map(|plug| results.of(elevator, plug));
    let gains: Vec<f64> = without.iter().zip(&with).map(|(without, with)| without / with).collect();
    let text = ("two trees compared, without the plug / with it", "");
    claim((id, Kind::Derived), text, (published, Rule::change(published)), &gains)
}

/// The property of the model because of which a figure is off.
const WHY_NOT: &str = "diff reads one file at a time, with a window of readahead as one bio, so the plug of the model has nothing to \
    collect, and figures differ only by the elevator, of which one process needs nothing. What the plug collected in the kernel is not \
    published";
