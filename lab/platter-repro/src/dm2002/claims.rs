//! The figures of Tables 3 and 8.

use super::here::Here;
use super::{Results, TRACED};
use crate::claim::{Claim, Rule};
use crate::host::readers::Found;
use crate::kind::Kind;
use crate::seeds::interval;
use platter_bench::ladder::Unit;

const PAPER: &str = "Wong and others, Improving Linux Block I/O for Enterprise Workloads, OLS 2002";

/// A figure of Table 3: its name, kernel, `readv`, whether it is the idle time, kind and value.
type Figure = (&'static str, &'static str, bool, bool, Kind, f64);

const TABLE_3: [Figure; 16] = [
    ("baseline-read-rate", "Baseline", false, false, Kind::Input, 54.0),
    ("baseline-read-idle", "Baseline", false, true, Kind::Prediction, 64.0),
    ("sb-read-rate", "SB", false, false, Kind::Prediction, 133.0),
    ("sb-read-idle", "SB", false, true, Kind::Prediction, 21.0),
    ("sbi-read-rate", "SBI", false, false, Kind::Prediction, 235.0),
    ("sbi-read-idle", "SBI", false, true, Kind::Input, 61.0),
    ("sbir-read-rate", "SBIR", false, false, Kind::Prediction, 240.0),
    ("sbir-read-idle", "SBIR", false, true, Kind::Prediction, 94.0),
    ("2517-read-rate", "2.5.17", false, false, Kind::Input, 243.0),
    ("2517-read-idle", "2.5.17", false, true, Kind::Input, 97.0),
    ("sbir-readv-rate", "SBIR", true, false, Kind::Prediction, 104.0),
    ("sbir-readv-idle", "SBIR", true, true, Kind::Prediction, 41.0),
    ("sbirv-readv-rate", "SBIRV", true, false, Kind::Prediction, 241.0),
    ("sbirv-readv-idle", "SBIRV", true, true, Kind::Prediction, 94.0),
    ("2517-readv-rate", "2.5.17", true, false, Kind::Input, 150.0),
    ("2517-readv-idle", "2.5.17", true, true, Kind::Prediction, 61.0),
];

/// The changes of Table 3 in percent, which follow from two figures of it: the second one and the first one.
const CHANGES: [(&str, &str, &str, f64); 8] = [
    ("sb-rate-change", "sb-read-rate", "baseline-read-rate", 147.0),
    ("sbi-rate-change", "sbi-read-rate", "sb-read-rate", 77.0),
    ("sbir-rate-change", "sbir-read-rate", "sbi-read-rate", 2.0),
    ("sbirv-rate-change", "sbirv-readv-rate", "sbir-readv-rate", 132.0),
    ("sb-idle-change", "sb-read-idle", "baseline-read-idle", -68.0),
    ("sbi-idle-change", "sbi-read-idle", "sb-read-idle", 192.0),
    ("sbir-idle-change", "sbir-read-idle", "sbi-read-idle", 55.0),
    ("sbirv-idle-change", "sbirv-readv-idle", "sbir-readv-idle", 130.0),
];

/// A row of Table 8: the function, and the calls of Baseline and of Baseline with rawvary.
type CallRow = (&'static str, &'static str, Kind, f64, f64, fn(&Found) -> u64);

const TABLE_8: [CallRow; 9] = [
    ("sys_read", "sys_read-rawvary", Kind::Prediction, 138.0, 138.0, |found| found.calls.raw_read),
    ("raw_read", "raw_read-rawvary", Kind::Mechanism, 128.0, 128.0, |found| found.calls.raw_read),
    ("rw_raw_dev", "rw_raw_dev-rawvary", Kind::Mechanism, 128.0, 128.0, |found| found.calls.raw_read),
    ("brw_kiovec", "brw_kiovec-rawvary", Kind::Mechanism, 128.0, 128.0, |found| found.calls.raw_read),
    ("submit_bh", "submit_bh-rawvary", Kind::Mechanism, 32_768.0, 4_096.0, |found| found.calls.submit_bh),
    ("generic_make_request", "generic_make_request-rawvary", Kind::Prediction, 32_789.0, 4_160.0, |found| {
        found.calls.submit_bh
    }),
    ("make_request", "make_request-rawvary", Kind::Prediction, 32_789.0, 4_160.0, |found| {
        found.calls.submit_bh
    }),
    ("elevator_linus_merge", "elevator_linus_merge-rawvary", Kind::Prediction, 32_659.0, 4_029.0, |found| {
        found.calls.elevator_merge
    }),
    ("scsi_back_merge_fn", "scsi_back_merge_fn-rawvary", Kind::Prediction, 32_641.0, 4_013.0, |found| {
        found.calls.back_merge
    }),
];

/// A figure holds within this part of it.
const NEAR: f64 = 0.15;
/// Rows of Table 8 that contain I/O of others.
const FOREIGN: f64 = 0.02;

fn around(published: f64, part: f64) -> Rule {
    let (one, other) = (published / (1.0 + part), published * (1.0 + part));
    Rule::Between(one.min(other), one.max(other))
}

pub(super) fn all(results: &Results, here: Option<&Here>) -> Vec<Claim> {
    let mut claims: Vec<Claim> = TABLE_3.iter().map(|figure| measured(results, here, figure)).collect();
    let changes: Vec<Claim> = CHANGES.iter().filter_map(|row| change(&claims, row)).collect();
    claims.extend(changes);
    claims.extend(TABLE_8.iter().flat_map(|row| counted(results, here, row)));
    for claim in claims.iter_mut().filter(|claim| claim.holds() != Some(true)) {
        claim.reason = Some(why_not(claim.id).to_owned());
    }
    claims
}

fn measured(
    results: &Results,
    here: Option<&Here>,
    &(id, kernel, readv, idle, kind, published): &Figure,
) -> Claim {
    let figure = |found: &Found| if idle { found.idle } else { found.rate };
    let seeds = results.of(kernel, readv);
    let ours = seeds.first().map(|found| figure(found));
    let text = if idle { ("idle time of the processors", "%") } else { ("rate of 32 disks", "MB/s") };
    let rule = around(published, NEAR);
    Claim {
        published: Some(published),
        ours,
        interval: ours
            .filter(|ours| kind == Kind::Prediction && rule.is_near(*ours))
            .and_then(|ours| interval(ours, seeds.iter().skip(1).map(|found| Some(figure(found))))),
        here: here.and_then(|here| if idle { here.idle(kernel, readv) } else { here.rate(kernel, readv) }),
        ..Claim::new(id, kind, (PAPER, "Table 3"), text, rule)
    }
}

fn change(claims: &[Claim], &(id, of, from, published): &(&'static str, &str, &str, f64)) -> Option<Claim> {
    let find = |id: &str| claims.iter().find(|claim| claim.id == id);
    let change = |of: f64, from: f64| (of / from - 1.0) * 100.0;
    let (of, from) = (find(of)?, find(from)?);
    // From nothing there is no change in percent.
    let here = of.here.zip(from.here).filter(|(_, from)| *from > 0.0);
    let text = ("change from the kernel before", "%");
    Some(Claim {
        published: Some(published),
        ours: Some(change(of.ours?, from.ours?)),
        here: here.map(|(of, from)| change(of, from)),
        ..Claim::new(id, Kind::Derived, (PAPER, "Table 3"), text, around(published, NEAR))
    })
}

fn counted(
    results: &Results,
    here: Option<&Here>,
    &(id, rawvary, kind, baseline, reduced, count): &CallRow,
) -> [Claim; 2] {
    let bios = |unit| here?.bios(unit, TRACED.bytes * TRACED.calls);
    [(id, Unit::Sector, baseline), (rawvary, Unit::Page, reduced)].map(|(id, unit, published)| Claim {
        published: Some(published),
        ours: results.traced(unit).map(|found| count(found) as f64),
        here: if id.starts_with("submit_bh") { bios(unit) } else { None },
        ..Claim::new(
            id,
            kind,
            (PAPER, "Table 8"),
            ("calls for 128 reads of 128 KiB", ""),
            if kind == Kind::Mechanism {
                Rule::Between(published, published)
            } else {
                around(published, FOREIGN)
            },
        )
    })
}

/// The property of the model because of which a figure is off.
fn why_not(id: &str) -> &'static str {
    match id {
        "sb-read-rate" | "sb-read-idle" | "sb-rate-change" | "sb-idle-change" | "sbi-rate-change"
        | "sbi-idle-change" => {
            "on SB the lock of all queues is always busy in the model: with holds, its hand-over for seven spinners and the holds of \
             commands. That a fifth of the processors is idle meanwhile needs processes that wait while the lock is free"
        }
        "sbir-readv-rate" | "sbir-readv-idle" | "sbirv-rate-change" | "sbirv-idle-change" => {
            "the holds of Table 5, 55 us of the lock of all queues for each command, bound a rate of commands of 4 KiB to 75 MB/s. They \
             were measured on another workload and with Lockmeter; Table 3 was not"
        }
        "2517-readv-idle" => "commands of 4 KiB and of 64 KiB cost the processors the same in the model",
        "sys_read" | "sys_read-rawvary" => "ten of the calls are not of the reads that were counted",
        "sbir-rate-change" => {
            "both rates are those of the adapters in the model; a change of 2 % is within its error"
        }
        "sbir-idle-change" => {
            "a command costs what Table 5 has for its functions, and no longer what the idle time of SBIR leaves for it"
        }
        _ => "the model has no cause for it",
    }
}
