//! The figures of Tables 2, 5 and 6, as published.

use crate::host::readers::{S_INTERRUPT, S_QUEUE, S_SEND, S_UNPLUG};
use crate::kind::Kind;
use Kind::{Derived, Input, Prediction};
use Lock::{All, Caller, Queues};
use Measure::{Count, Cpu, Hold, Spin, Utilisation};
use Of::{Idle, Increase, Kernel, User};
use platter_sim::host::Stage;

pub(super) const PAPER: &str =
    "Wong and others, Improving Linux Block I/O for Enterprise Workloads, OLS 2002";

/// A published figure.
pub(super) struct Row {
    pub(super) id: &'static str,
    pub(super) place: &'static str,
    pub(super) kind: Kind,
    pub(super) of: Of,
    pub(super) published: f64,
}

/// What is measured, on which kernel.
#[derive(Clone, Copy)]
pub(super) enum Of {
    /// Rate over that of another kernel.
    Increase(&'static str, &'static str),
    User(&'static str),
    Kernel(&'static str),
    Idle(&'static str),
    Lock(&'static str, Lock, Measure),
}

/// A lock, or one of its callers.
#[derive(Clone, Copy)]
pub(super) enum Lock {
    /// `io_request_lock`.
    All,
    /// The same, taken by this stage.
    Caller(Stage),
    /// The locks of the queues together.
    Queues,
}

/// A column of Lockmeter.
#[derive(Clone, Copy)]
pub(super) enum Measure {
    Utilisation,
    Hold,
    Spin,
    Cpu,
    Count,
}

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    Row { id: "baseline-user", place: "Table 2", kind: Input, of: User("Baseline"), published: 16.0 },
    Row { id: "baseline-kernel", place: "Table 2", kind: Input, of: Kernel("Baseline"), published: 43.0 },
    Row { id: "baseline-idle", place: "Table 2", kind: Derived, of: Idle("Baseline"), published: 41.0 },
    Row { id: "sb-increase", place: "Table 2", kind: Prediction, of: Increase("SB", "Baseline"), published: 37.0 },
    Row { id: "sb-user", place: "Table 2", kind: Prediction, of: User("SB"), published: 22.0 },
    Row { id: "sb-kernel", place: "Table 2", kind: Prediction, of: Kernel("SB"), published: 71.0 },
    Row { id: "sb-idle", place: "Table 2", kind: Prediction, of: Idle("SB"), published: 7.0 },
    Row { id: "sbi-increase", place: "Table 2", kind: Prediction, of: Increase("SBI", "SB"), published: 78.0 },
    Row { id: "sbi-user", place: "Table 2", kind: Prediction, of: User("SBI"), published: 41.0 },
    Row { id: "sbi-kernel", place: "Table 2", kind: Prediction, of: Kernel("SBI"), published: 37.0 },
    Row { id: "sbi-idle", place: "Table 2", kind: Prediction, of: Idle("SBI"), published: 22.0 },
    Row { id: "sbir-increase", place: "Table 2", kind: Prediction, of: Increase("SBIR", "SBI"), published: 16.0 },
    Row { id: "sbir-user", place: "Table 2", kind: Prediction, of: User("SBIR"), published: 47.0 },
    Row { id: "sbir-kernel", place: "Table 2", kind: Prediction, of: Kernel("SBIR"), published: 34.0 },
    Row { id: "sbir-idle", place: "Table 2", kind: Prediction, of: Idle("SBIR"), published: 19.0 },
    Row { id: "sbirv-increase", place: "Table 2", kind: Prediction, of: Increase("SBIRV", "SBIR"), published: 18.0 },
    Row { id: "sbirv-user", place: "Table 2", kind: Prediction, of: User("SBIRV"), published: 55.0 },
    Row { id: "sbirv-kernel", place: "Table 2", kind: Prediction, of: Kernel("SBIRV"), published: 9.0 },
    Row { id: "sbirv-idle", place: "Table 2", kind: Prediction, of: Idle("SBIRV"), published: 36.0 },
    Row { id: "all-increase", place: "section 10", kind: Prediction, of: Increase("SBIRV", "Baseline"), published: 233.0 },
    Row { id: "t5-io-request-lock-utilisation", place: "Table 5", kind: Prediction, of: Of::Lock("SB", All, Utilisation), published: 50.2 },
    Row { id: "t5-io-request-lock-hold", place: "Table 5", kind: Derived, of: Of::Lock("SB", All, Hold), published: 5.2 },
    Row { id: "t5-io-request-lock-spin", place: "Table 5", kind: Prediction, of: Of::Lock("SB", All, Spin), published: 65.0 },
    Row { id: "t5-io-request-lock-cpu", place: "Table 5", kind: Prediction, of: Of::Lock("SB", All, Cpu), published: 66.2 },
    Row { id: "t5-io-request-lock-count", place: "Table 5", kind: Prediction, of: Of::Lock("SB", All, Count), published: 15640659.0 },
    Row { id: "t5-make-request-utilisation", place: "Table 5", kind: Prediction, of: Of::Lock("SB", Caller(S_QUEUE), Utilisation), published: 23.5 },
    Row { id: "t5-make-request-hold", place: "Table 5", kind: Input, of: Of::Lock("SB", Caller(S_QUEUE), Hold), published: 3.8 },
    Row { id: "t5-make-request-spin", place: "Table 5", kind: Prediction, of: Of::Lock("SB", Caller(S_QUEUE), Spin), published: 64.0 },
    Row { id: "t5-make-request-cpu", place: "Table 5", kind: Prediction, of: Of::Lock("SB", Caller(S_QUEUE), Cpu), published: 42.8 },
    Row { id: "t5-make-request-count", place: "Table 5", kind: Input, of: Of::Lock("SB", Caller(S_QUEUE), Count), published: 9973270.0 },
    Row { id: "t5-do-ipsintr-utilisation", place: "Table 5", kind: Prediction, of: Of::Lock("SB", Caller(S_INTERRUPT), Utilisation), published: 8.3 },
    Row { id: "t5-do-ipsintr-hold", place: "Table 5", kind: Input, of: Of::Lock("SB", Caller(S_INTERRUPT), Hold), published: 20.0 },
    Row { id: "t5-do-ipsintr-spin", place: "Table 5", kind: Prediction, of: Of::Lock("SB", Caller(S_INTERRUPT), Spin), published: 66.0 },
    Row { id: "t5-do-ipsintr-cpu", place: "Table 5", kind: Prediction, of: Of::Lock("SB", Caller(S_INTERRUPT), Cpu), published: 3.1 },
    Row { id: "t5-do-ipsintr-count", place: "Table 5", kind: Prediction, of: Of::Lock("SB", Caller(S_INTERRUPT), Count), published: 660212.0 },
    Row { id: "t5-scsi-dispatch-cmd-utilisation", place: "Table 5", kind: Prediction, of: Of::Lock("SB", Caller(S_SEND), Utilisation), published: 6.8 },
    Row { id: "t5-scsi-dispatch-cmd-hold", place: "Table 5", kind: Input, of: Of::Lock("SB", Caller(S_SEND), Hold), published: 13.0 },
    Row { id: "t5-scsi-dispatch-cmd-spin", place: "Table 5", kind: Prediction, of: Of::Lock("SB", Caller(S_SEND), Spin), published: 66.0 },
    Row { id: "t5-scsi-dispatch-cmd-cpu", place: "Table 5", kind: Prediction, of: Of::Lock("SB", Caller(S_SEND), Cpu), published: 3.9 },
    Row { id: "t5-scsi-dispatch-cmd-count", place: "Table 5", kind: Input, of: Of::Lock("SB", Caller(S_SEND), Count), published: 877838.0 },
    Row { id: "t5-generic-unplug-device-utilisation", place: "Table 5", kind: Prediction, of: Of::Lock("SB", Caller(S_UNPLUG), Utilisation), published: 4.5 },
    Row { id: "t5-generic-unplug-device-hold", place: "Table 5", kind: Input, of: Of::Lock("SB", Caller(S_UNPLUG), Hold), published: 8.8 },
    Row { id: "t5-generic-unplug-device-spin", place: "Table 5", kind: Prediction, of: Of::Lock("SB", Caller(S_UNPLUG), Spin), published: 65.0 },
    Row { id: "t5-generic-unplug-device-cpu", place: "Table 5", kind: Prediction, of: Of::Lock("SB", Caller(S_UNPLUG), Cpu), published: 3.2 },
    Row { id: "t5-generic-unplug-device-count", place: "Table 5", kind: Prediction, of: Of::Lock("SB", Caller(S_UNPLUG), Count), published: 835530.0 },
    Row { id: "t6-io-request-lock-utilisation", place: "Table 6", kind: Prediction, of: Of::Lock("SBI", All, Utilisation), published: 39.6 },
    Row { id: "t6-io-request-lock-hold", place: "Table 6", kind: Prediction, of: Of::Lock("SBI", All, Hold), published: 8.7 },
    Row { id: "t6-io-request-lock-spin", place: "Table 6", kind: Prediction, of: Of::Lock("SBI", All, Spin), published: 32.0 },
    Row { id: "t6-io-request-lock-cpu", place: "Table 6", kind: Prediction, of: Of::Lock("SBI", All, Cpu), published: 7.6 },
    Row { id: "t6-io-request-lock-count", place: "Table 6", kind: Prediction, of: Of::Lock("SBI", All, Count), published: 2490263.0 },
    Row { id: "t6-do-ipsintr-utilisation", place: "Table 6", kind: Prediction, of: Of::Lock("SBI", Caller(S_INTERRUPT), Utilisation), published: 16.3 },
    Row { id: "t6-do-ipsintr-hold", place: "Table 6", kind: Prediction, of: Of::Lock("SBI", Caller(S_INTERRUPT), Hold), published: 26.0 },
    Row { id: "t6-do-ipsintr-spin", place: "Table 6", kind: Prediction, of: Of::Lock("SBI", Caller(S_INTERRUPT), Spin), published: 32.0 },
    Row { id: "t6-do-ipsintr-cpu", place: "Table 6", kind: Prediction, of: Of::Lock("SBI", Caller(S_INTERRUPT), Cpu), published: 1.4 },
    Row { id: "t6-do-ipsintr-count", place: "Table 6", kind: Prediction, of: Of::Lock("SBI", Caller(S_INTERRUPT), Count), published: 339486.0 },
    Row { id: "t6-scsi-unplug-device-utilisation", place: "Table 6", kind: Prediction, of: Of::Lock("SBI", Caller(S_UNPLUG), Utilisation), published: 11.7 },
    Row { id: "t6-scsi-unplug-device-hold", place: "Table 6", kind: Prediction, of: Of::Lock("SBI", Caller(S_UNPLUG), Hold), published: 18.0 },
    Row { id: "t6-scsi-unplug-device-spin", place: "Table 6", kind: Prediction, of: Of::Lock("SBI", Caller(S_UNPLUG), Spin), published: 32.0 },
    Row { id: "t6-scsi-unplug-device-cpu", place: "Table 6", kind: Prediction, of: Of::Lock("SBI", Caller(S_UNPLUG), Cpu), published: 1.2 },
    Row { id: "t6-scsi-unplug-device-count", place: "Table 6", kind: Prediction, of: Of::Lock("SBI", Caller(S_UNPLUG), Count), published: 357540.0 },
    Row { id: "t6-scsi-dispatch-cmd-utilisation", place: "Table 6", kind: Prediction, of: Of::Lock("SBI", Caller(S_SEND), Utilisation), published: 8.4 },
    Row { id: "t6-scsi-dispatch-cmd-hold", place: "Table 6", kind: Prediction, of: Of::Lock("SBI", Caller(S_SEND), Hold), published: 13.0 },
    Row { id: "t6-scsi-dispatch-cmd-spin", place: "Table 6", kind: Prediction, of: Of::Lock("SBI", Caller(S_SEND), Spin), published: 31.0 },
    Row { id: "t6-scsi-dispatch-cmd-cpu", place: "Table 6", kind: Prediction, of: Of::Lock("SBI", Caller(S_SEND), Cpu), published: 1.4 },
    Row { id: "t6-scsi-dispatch-cmd-count", place: "Table 6", kind: Prediction, of: Of::Lock("SBI", Caller(S_SEND), Count), published: 363421.0 },
    Row { id: "t6-scsi-make-request-utilisation", place: "Table 6", kind: Prediction, of: Of::Lock("SBI", Queues, Utilisation), published: 15.3 },
    Row { id: "t6-scsi-make-request-hold", place: "Table 6", kind: Prediction, of: Of::Lock("SBI", Queues, Hold), published: 0.9 },
    Row { id: "t6-scsi-make-request-spin", place: "Table 6", kind: Prediction, of: Of::Lock("SBI", Queues, Spin), published: 13.0 },
    Row { id: "t6-scsi-make-request-cpu", place: "Table 6", kind: Prediction, of: Of::Lock("SBI", Queues, Cpu), published: 0.3 },
    Row { id: "t6-scsi-make-request-count", place: "Table 6", kind: Prediction, of: Of::Lock("SBI", Queues, Count), published: 9520872.0 },
];
