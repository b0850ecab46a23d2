//! The form of a claim of the paper.

use crate::{Claim, Kind, Rule};

pub(super) const MIB: u64 = 1 << 20;
/// The largest requests of the paper.
pub(super) const LARGEST: u64 = 64 * MIB;

pub(super) fn claim(
    id: &'static str,
    place: &str,
    says: &'static str,
    unit: &'static str,
    rule: Rule,
) -> Claim {
    let kind = match id {
        // The rate of the model's outer zone and the share of bursts of its PCI bus were set with these figures.
        "disk-peak" | "three-disks" => Kind::Input,
        // The paper's arrays had one request at once.
        "several-ahead" | "stripe-above-chunk-several" => Kind::Ours,
        _ => Kind::Prediction,
    };
    Claim::new(id, kind, ("Staelin, Disk I/O in Linux, HPL-2002-352, 2002", place), (says, unit), rule)
}

pub(super) fn ratio(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    Some(one? / other?)
}
