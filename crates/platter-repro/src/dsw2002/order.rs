//! Tables 1, 4 and 7: profiles of the kernel by function. They are of one query, and Table 2 is of the suite, so only the order of the
//! functions is compared.

use super::tables::PAPER;
use super::{Results, Row};
use crate::claim::{Claim, Rule};
use crate::host::kernel::{Kernel, times};
use crate::host::readers::{Found, S_INTERRUPT, S_QUEUE, S_SEND, S_UNPLUG};
use crate::kind::Kind;
use platter_block::time::Span;
use platter_sim::host::Stage;

/// A profile: its claim, the kernel, and its functions with their shares in percent.
pub(super) struct Profile {
    id: &'static str,
    pub(super) place: &'static str,
    kernel: &'static str,
    pub(super) functions: &'static [(&'static str, f64)],
}

/// The three tables. `scsi_back_merge_fn_dc` and `scsi_back_merge_fn_` are one function in the model.
pub(super) static PROFILES: [Profile; 3] = [
    Profile {
        id: "t1-order",
        place: "Table 1",
        kernel: "Baseline",
        functions: &[
            ("default_idle", 52.0),
            ("bounce_end_io_read", 8.0),
            ("do_softirq", 7.0),
            ("tasklet_hi_action", 6.0),
            ("__make_request", 3.0),
        ],
    },
    Profile {
        id: "t4-order",
        place: "Table 4",
        kernel: "SB",
        functions: &[
            ("__make_request", 35.0),
            ("default_idle", 17.0),
            ("scsi_dispatch_cmd", 4.0),
            ("do_ipsintr", 4.0),
            ("scsi_request_fn", 4.0),
        ],
    },
    Profile {
        id: "t7-order",
        place: "Table 7",
        kernel: "SBI",
        functions: &[
            ("default_idle", 41.0),
            ("schedule", 4.0),
            ("ips_make_passthru", 4.0),
            ("tasklet_hi_action", 3.0),
            ("do_softirq", 3.0),
            ("brw_kiovec", 3.0),
            ("scsi_back_merge_fn_dc", 3.0),
            ("scsi_release_buffers", 3.0),
            ("scsi_back_merge_fn_", 2.0),
            ("scsi_dispatch_cmd", 2.0),
            ("end_buffer_io_kiobuf", 2.0),
        ],
    },
];

impl Profile {
    /// The kernel that was profiled, and its outcome with the first seed.
    pub(super) fn of<'a>(&self, results: &'a Results) -> Option<(&'a Row, &'a Found)> {
        let row = results.of(self.kernel)?;
        Some((row, row.seeds.first()?))
    }
}

/// One claim for each profile: how many pairs of functions are in the published order.
pub(super) fn all(results: &Results) -> Vec<Claim> {
    PROFILES.iter().map(|profile| claim(results, profile)).collect()
}

fn claim(results: &Results, profile: &Profile) -> Claim {
    let pairs = pairs(profile);
    let kept = profile.of(results).map(|(row, found)| {
        let share = |function| share(row, found, function);
        pairs.iter().filter(|(more, less)| share(more) > share(less)).count()
    });
    let all = pairs.len() as f64;
    let wrong = kept.map(|kept| pairs.len() - kept).filter(|wrong| *wrong > 0);
    Claim {
        published: Some(all),
        ours: kept.map(|kept| kept as f64),
        reason: wrong.map(|wrong| {
            format!(
                "{wrong} pairs are in another order: a stage's functions share its time equally in the model, and one query was \
                 profiled"
            )
        }),
        ..Claim::new(
            profile.id,
            Kind::Prediction,
            (PAPER, profile.place),
            ("pairs of functions of the profile in this order of their time", "pairs"),
            Rule::Between(all, all),
        )
    }
}

/// Pairs of functions with different published shares, the larger first.
fn pairs(profile: &Profile) -> Vec<(&'static str, &'static str)> {
    let functions = profile.functions;
    let after = |at: usize| functions[at + 1..].iter();
    let pairs = functions.iter().enumerate().flat_map(|(at, (more, high))| {
        after(at).filter(move |(_, low)| low < high).map(move |(less, _)| (*more, *less))
    });
    pairs.collect()
}

/// Share of a function in the processors' time, in percent.
pub(super) fn share(row: &Row, found: &Found, function: &str) -> f64 {
    found.usage.percent(time(&row.kernel, found, function))
}

/// Processor time of a function. Functions of a stage share its time equally; a function that takes a lock also spins for it. A
/// processor that tries again to run bottom halves does so in `do_softirq` and `tasklet_hi_action`.
fn time(kernel: &Kernel, found: &Found, function: &str) -> Span {
    let (usage, calls) = (&found.usage, &found.calls);
    let stage = |stage: Stage, functions: u64| usage.stages[usize::from(stage.0)].0 / functions;
    let spun = |stage: Stage| found.callers.get(&stage).map_or(0, |used| used.spun.0);
    let of_commands = times(calls.commands as usize, kernel.per_command).0;
    let of_units = times(calls.submit_bh as usize, kernel.per_unit).0;
    let time = match function {
        "default_idle" => usage.idle.0,
        "bounce_end_io_read" if kernel.bounce => found.bytes / 1024 * kernel.copy_kib.0,
        "do_softirq" | "tasklet_hi_action" => usage.retry.0 / 2 + of_commands,
        "__make_request" => stage(S_QUEUE, 3) + spun(S_QUEUE),
        "scsi_back_merge_fn_dc" | "scsi_back_merge_fn_" => stage(S_QUEUE, 3),
        "scsi_dispatch_cmd" => stage(S_SEND, 2) + spun(S_SEND),
        "ips_make_passthru" => stage(S_SEND, 2),
        "do_ipsintr" => stage(S_INTERRUPT, 2) + spun(S_INTERRUPT),
        "scsi_request_fn" => stage(S_UNPLUG, 3),
        "schedule" | "scsi_release_buffers" => of_commands,
        "brw_kiovec" => times(calls.raw_read as usize, kernel.per_command).0,
        "end_buffer_io_kiobuf" => of_units,
        _ => 0,
    };
    Span(time)
}
