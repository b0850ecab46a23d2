//! Tables 1, 4 and 7: the shares of functions, as Kernprof showed them, and their order.

use crate::host::kernel::{BUILD, CALL, COMPLETE, END, INTERRUPT, QUEUE, SEND, UNPLUG, WAIT};
use crate::host::readers::{Cell, Found, STAGES};
use platter_block::time::Span;

/// A table: place, name of its claim, kernel, and the functions with their shares in percent.
pub(super) type Profile = (&'static str, &'static str, &'static str, &'static [(&'static str, f64)]);

/// The second `scsi_back_merge_fn` of Table 7 is left out: the model has one.
pub(super) const PROFILES: [Profile; 3] = [
    (
        "Table 1",
        "t1-order",
        "Baseline",
        &[
            ("default_idle", 52.0),
            ("bounce_end_io_read", 8.0),
            ("do_softirq", 7.0),
            ("tasklet_hi_action", 6.0),
            ("__make_request", 3.0),
        ],
    ),
    (
        "Table 4",
        "t4-order",
        "SB",
        &[
            ("__make_request", 35.0),
            ("default_idle", 17.0),
            ("scsi_dispatch_cmd", 4.0),
            ("do_ipsintr", 4.0),
            ("scsi_request_fn", 4.0),
        ],
    ),
    (
        "Table 7",
        "t7-order",
        "SBI",
        &[
            ("default_idle", 41.0),
            ("schedule", 4.0),
            ("ips_make_passthru", 4.0),
            ("tasklet_hi_action", 3.0),
            ("do_softirq", 3.0),
            ("brw_kiovec", 3.0),
            ("scsi_back_merge_fn", 3.0),
            ("scsi_release_buffers", 3.0),
            ("scsi_dispatch_cmd", 2.0),
            ("end_buffer_io_kiobuf", 2.0),
        ],
    ),
];

/// The functions of a stage that shares its time equally, and that of them which spins for the lock.
type Stage = (&'static str, &'static [&'static str], &'static str);

const SHARED: [Stage; 7] = [
    ("call", &CALL, ""),
    ("build", &BUILD, ""),
    ("queue", &QUEUE, "__make_request"),
    ("wait", &WAIT, ""),
    ("unplug", &UNPLUG, "generic_unplug_device"),
    ("send", &SEND, "scsi_dispatch_cmd"),
    ("interrupt", &INTERRUPT, "do_ipsintr"),
];

/// The share of a function in percent; `None` if the model has no such function.
pub(super) fn share((cell, found): &(Cell, Found), function: &str) -> Option<f64> {
    let usage = &found.usage;
    let copied = match cell.kernel.bounce {
        true => cell.kernel.copy_kib.0 * found.bytes / 1024,
        false => 0,
    };
    match function {
        "default_idle" => return Some(usage.percent(usage.idle)),
        "bounce_end_io_read" => return Some(usage.percent(Span(copied))),
        _ => {}
    }
    let of_stage = |stage: &str| STAGES.iter().position(|name| *name == stage);
    if let Some((stage, functions, spins)) =
        SHARED.iter().find(|(_, functions, _)| functions.contains(&function))
    {
        let at = of_stage(stage)?;
        let queues = if *stage == "queue" { found.queue_lock.spun.0 } else { 0 };
        let spun = if function == *spins { found.callers[at].spun.0 + queues } else { 0 };
        return Some(usage.percent(Span(usage.stages[at].0 / functions.len() as u64 + spun)));
    }
    let completion = usage.stages[of_stage("complete")?].0.saturating_sub(copied);
    let units = END.len() as u64 * cell.kernel.per_unit.0 * found.calls.submit_bh;
    if END.contains(&function) {
        return Some(usage.percent(Span(units / END.len() as u64)));
    }
    // A processor that tries again to run bottom halves is in these two.
    let retry = match function {
        "do_softirq" | "tasklet_hi_action" => usage.retry.0 / 2,
        _ => 0,
    };
    let commands = completion.saturating_sub(units) / COMPLETE.len() as u64;
    COMPLETE.contains(&function).then(|| usage.percent(Span(commands + retry)))
}

/// Of the pairs of functions whose published shares differ: how many there are, and how many are in the same order here.
pub(super) fn order(row: &(Cell, Found), functions: &[(&'static str, f64)]) -> Option<(usize, usize)> {
    let ours: Vec<f64> = functions.iter().map(|(name, _)| share(row, name)).collect::<Option<_>>()?;
    let pairs = (0..functions.len()).flat_map(|one| (0..one).map(move |other| (other, one)));
    let strict = pairs.filter(|&(first, second)| functions[first].1 > functions[second].1);
    let same: Vec<bool> = strict.map(|(first, second)| ours[first] > ours[second]).collect();
    Some((same.len(), same.iter().filter(|same| **same).count()))
}
