//! The figures of Tables 2, 5 and 6 and of section 10.

use crate::kind::Kind::{self, Input, Prediction};

/// Which acquisitions: of `io_request_lock`, all or those of a function; or of the locks of queues to queue a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    All,
    Queue,
    Interrupt,
    Send,
    Unplug,
    QueueLocks,
}
use By::{All, Interrupt, Queue, QueueLocks, Send, Unplug};

/// A column of Lockmeter's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Utilisation,
    Hold,
    Wait,
    Spin,
    Acquisitions,
}
use Column::{Acquisitions, Hold, Spin, Utilisation, Wait};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The increase of the metric from the kernel before, and that of all patches.
    Metric,
    Product,
    User,
    Kernel,
    Idle,
    Lock(By, Column),
}
use What::{Idle, Kernel, Lock, Metric, Product, User};

/// A figure: name, kind, place, kernel, what and value.
pub(super) type Row = (&'static str, Kind, &'static str, &'static str, What, f64);

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    ("t2-baseline-user", Input, "Table 2", "Baseline", User, 16.0),
    ("t2-baseline-kernel", Prediction, "Table 2", "Baseline", Kernel, 43.0),
    ("t2-baseline-idle", Prediction, "Table 2", "Baseline", Idle, 41.0),
    ("t2-sb-moi", Prediction, "Table 2", "SB", Metric, 37.0),
    ("t2-sb-user", Prediction, "Table 2", "SB", User, 22.0),
    ("t2-sb-kernel", Prediction, "Table 2", "SB", Kernel, 71.0),
    ("t2-sb-idle", Prediction, "Table 2", "SB", Idle, 7.0),
    ("t2-sbi-moi", Prediction, "Table 2", "SBI", Metric, 78.0),
    ("t2-sbi-user", Prediction, "Table 2", "SBI", User, 41.0),
    ("t2-sbi-kernel", Prediction, "Table 2", "SBI", Kernel, 37.0),
    ("t2-sbi-idle", Prediction, "Table 2", "SBI", Idle, 22.0),
    ("t2-sbir-moi", Prediction, "Table 2", "SBIR", Metric, 16.0),
    ("t2-sbir-user", Prediction, "Table 2", "SBIR", User, 47.0),
    ("t2-sbir-kernel", Prediction, "Table 2", "SBIR", Kernel, 34.0),
    ("t2-sbir-idle", Prediction, "Table 2", "SBIR", Idle, 19.0),
    ("t2-sbirv-moi", Prediction, "Table 2", "SBIRV", Metric, 18.0),
    ("t2-sbirv-user", Prediction, "Table 2", "SBIRV", User, 55.0),
    ("t2-sbirv-kernel", Prediction, "Table 2", "SBIRV", Kernel, 9.0),
    ("t2-sbirv-idle", Prediction, "Table 2", "SBIRV", Idle, 36.0),
    ("t5-io_request_lock-util", Prediction, "Table 5", "SB", Lock(All, Utilisation), 50.2),
    ("t5-io_request_lock-hold", Input, "Table 5", "SB", Lock(All, Hold), 5.2),
    ("t5-io_request_lock-wait", Prediction, "Table 5", "SB", Lock(All, Wait), 65.0),
    ("t5-io_request_lock-spin", Prediction, "Table 5", "SB", Lock(All, Spin), 66.2),
    ("t5-io_request_lock-acquisitions", Input, "Table 5", "SB", Lock(All, Acquisitions), 15640659.0),
    ("t5-make_request-util", Prediction, "Table 5", "SB", Lock(Queue, Utilisation), 23.5),
    ("t5-make_request-hold", Input, "Table 5", "SB", Lock(Queue, Hold), 3.8),
    ("t5-make_request-wait", Prediction, "Table 5", "SB", Lock(Queue, Wait), 64.0),
    ("t5-make_request-spin", Prediction, "Table 5", "SB", Lock(Queue, Spin), 42.8),
    ("t5-make_request-acquisitions", Input, "Table 5", "SB", Lock(Queue, Acquisitions), 9973270.0),
    ("t5-do_ipsintr-util", Prediction, "Table 5", "SB", Lock(Interrupt, Utilisation), 8.3),
    ("t5-do_ipsintr-hold", Input, "Table 5", "SB", Lock(Interrupt, Hold), 20.0),
    ("t5-do_ipsintr-wait", Prediction, "Table 5", "SB", Lock(Interrupt, Wait), 66.0),
    ("t5-do_ipsintr-spin", Prediction, "Table 5", "SB", Lock(Interrupt, Spin), 3.1),
    ("t5-do_ipsintr-acquisitions", Input, "Table 5", "SB", Lock(Interrupt, Acquisitions), 660212.0),
    ("t5-scsi_dispatch_cmd-util", Prediction, "Table 5", "SB", Lock(Send, Utilisation), 6.8),
    ("t5-scsi_dispatch_cmd-hold", Input, "Table 5", "SB", Lock(Send, Hold), 13.0),
    ("t5-scsi_dispatch_cmd-wait", Prediction, "Table 5", "SB", Lock(Send, Wait), 66.0),
    ("t5-scsi_dispatch_cmd-spin", Prediction, "Table 5", "SB", Lock(Send, Spin), 3.9),
    ("t5-scsi_dispatch_cmd-acquisitions", Input, "Table 5", "SB", Lock(Send, Acquisitions), 877838.0),
    ("t5-generic_unplug_device-util", Prediction, "Table 5", "SB", Lock(Unplug, Utilisation), 4.5),
    ("t5-generic_unplug_device-hold", Input, "Table 5", "SB", Lock(Unplug, Hold), 8.8),
    ("t5-generic_unplug_device-wait", Prediction, "Table 5", "SB", Lock(Unplug, Wait), 65.0),
    ("t5-generic_unplug_device-spin", Prediction, "Table 5", "SB", Lock(Unplug, Spin), 3.2),
    ("t5-generic_unplug_device-acquisitions", Input, "Table 5", "SB", Lock(Unplug, Acquisitions), 835530.0),
    ("t6-io_request_lock-util", Prediction, "Table 6", "SBI", Lock(All, Utilisation), 39.6),
    ("t6-io_request_lock-hold", Prediction, "Table 6", "SBI", Lock(All, Hold), 8.7),
    ("t6-io_request_lock-wait", Prediction, "Table 6", "SBI", Lock(All, Wait), 32.0),
    ("t6-io_request_lock-spin", Prediction, "Table 6", "SBI", Lock(All, Spin), 7.6),
    ("t6-io_request_lock-acquisitions", Prediction, "Table 6", "SBI", Lock(All, Acquisitions), 2490263.0),
    ("t6-do_ipsintr-util", Prediction, "Table 6", "SBI", Lock(Interrupt, Utilisation), 16.3),
    ("t6-do_ipsintr-hold", Prediction, "Table 6", "SBI", Lock(Interrupt, Hold), 26.0),
    ("t6-do_ipsintr-wait", Prediction, "Table 6", "SBI", Lock(Interrupt, Wait), 32.0),
    ("t6-do_ipsintr-spin", Prediction, "Table 6", "SBI", Lock(Interrupt, Spin), 1.4),
    ("t6-do_ipsintr-acquisitions", Prediction, "Table 6", "SBI", Lock(Interrupt, Acquisitions), 339486.0),
    ("t6-scsi_unplug_device-util", Prediction, "Table 6", "SBI", Lock(Unplug, Utilisation), 11.7),
    ("t6-scsi_unplug_device-hold", Prediction, "Table 6", "SBI", Lock(Unplug, Hold), 18.0),
    ("t6-scsi_unplug_device-wait", Prediction, "Table 6", "SBI", Lock(Unplug, Wait), 32.0),
    ("t6-scsi_unplug_device-spin", Prediction, "Table 6", "SBI", Lock(Unplug, Spin), 1.2),
    ("t6-scsi_unplug_device-acquisitions", Prediction, "Table 6", "SBI", Lock(Unplug, Acquisitions), 357540.0),
    ("t6-scsi_dispatch_cmd-util", Prediction, "Table 6", "SBI", Lock(Send, Utilisation), 8.4),
    ("t6-scsi_dispatch_cmd-hold", Prediction, "Table 6", "SBI", Lock(Send, Hold), 13.0),
    ("t6-scsi_dispatch_cmd-wait", Prediction, "Table 6", "SBI", Lock(Send, Wait), 31.0),
    ("t6-scsi_dispatch_cmd-spin", Prediction, "Table 6", "SBI", Lock(Send, Spin), 1.4),
    ("t6-scsi_dispatch_cmd-acquisitions", Prediction, "Table 6", "SBI", Lock(Send, Acquisitions), 363421.0),
    ("t6-scsi_make_request-util", Prediction, "Table 6", "SBI", Lock(QueueLocks, Utilisation), 15.3),
    ("t6-scsi_make_request-hold", Input, "Table 6", "SBI", Lock(QueueLocks, Hold), 0.9),
    ("t6-scsi_make_request-wait", Prediction, "Table 6", "SBI", Lock(QueueLocks, Wait), 13.0),
    ("t6-scsi_make_request-spin", Prediction, "Table 6", "SBI", Lock(QueueLocks, Spin), 0.3),
    ("t6-scsi_make_request-acquisitions", Input, "Table 6", "SBI", Lock(QueueLocks, Acquisitions), 9520872.0),
    ("all-patches", Prediction, "section 10", "SBIRV", Product, 233.0),
];
