//! Kernels and the machine of the paper, as data.
//!
//! Every function on a path takes the same time, one time for those of a unit and one for those of a command: the paper gives no
//! other costs of this workload. That was fixed before anything was run. The times are such that the inputs come out.

use platter_bench::ladder::{self, Switches, Unit, Vector};
use platter_block::time::Span;

/// What a lock serialises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// All queues.
    All,
    /// The queues of one adapter.
    Adapter,
    /// One queue.
    Queue,
}

/// A kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel {
    /// The paper's name of it.
    pub(super) name: &'static str,
    pub(super) bounce: bool,
    pub(super) unit: Unit,
    pub(super) vector: Vector,
    /// The lock under which bios are queued.
    pub(super) queueing: Scope,
    /// The lock under which requests are taken from the queue, sent to the adapter and found complete. Where it is not
    /// the lock of the queue, requests are taken from the queue under both.
    pub(super) sending: Scope,
    /// Processor time of a function that is called for each unit.
    pub(super) per_unit: Span,
    /// Processor time of a function that is called for each command.
    pub(super) per_command: Span,
    /// Time to copy a KiB through low memory.
    pub(super) copy_kib: Span,
}

/// Functions on the path of a unit, by where they run: before the queue's lock, under it, and at completion. Their number is
/// from section 2, Tables 7 and 8.
pub(super) const BUILD: [&str; 2] = ["submit_bh", "generic_make_request"];
pub(super) const QUEUE: [&str; 3] = ["__make_request", "elevator_linus_merge", "scsi_back_merge_fn"];
pub(super) const END: [&str; 2] = ["end_that_request_first", "end_buffer_io_kiobuf"];

/// Functions on the path of a command.
pub(super) const CALL: [&str; 5] = ["sys_read", "raw_read", "rw_raw_dev", "map_user_kiobuf", "brw_kiovec"];
pub(super) const WAIT: [&str; 3] = ["kiobuf_wait_for_io", "run_task_queue", "schedule"];
pub(super) const UNPLUG: [&str; 3] = ["generic_unplug_device", "scsi_request_fn", "blkdev_dequeue_request"];
pub(super) const SEND: [&str; 2] = ["scsi_dispatch_cmd", "ips_make_passthru"];
pub(super) const INTERRUPT: [&str; 2] = ["do_ipsintr", "scsi_done"];
pub(super) const COMPLETE: [&str; 6] = [
    "do_softirq",
    "tasklet_hi_action",
    "bh_action",
    "scsi_bottom_half_handler",
    "scsi_io_completion",
    "scsi_release_buffers",
];

/// The machine of the microbenchmark: section 3.
pub(super) const PROCESSORS: usize = 8;
pub(super) const ADAPTERS: usize = 4;
pub(super) const DISKS: usize = 32;

/// Time of a command on an adapter. Set by the two rates of 2.5.17.
pub(super) const ADAPTER_COMMAND: Span = Span(44_600);
/// Time of a KiB on an adapter. Set by the two rates of 2.5.17.
pub(super) const ADAPTER_KIB: Span = Span(16_164);
/// Time to copy a KiB through low memory. Set by the rate of Baseline.
const COPY_KIB: Span = Span(14_991);

/// Of 2.4.17. Set by the idle times of SBI and SBIR.
const UNIT_2_4: Span = Span(775);
const COMMAND_2_4: Span = Span(719);
/// Of 2.5.17. Set by its idle time with `read`.
const COMMAND_2_5: Span = Span(2_136);

fn rung(name: &'static str) -> Option<Kernel> {
    let Switches { bounce, unit, vector, lock, .. } = ladder::find(name)?.switches;
    let (queueing, sending) = match lock {
        ladder::Lock::All => (Scope::All, Scope::All),
        _ => (Scope::Queue, Scope::All),
    };
    let (per_unit, per_command) = (UNIT_2_4, COMMAND_2_4);
    Some(Kernel { name, bounce, unit, vector, queueing, sending, per_unit, per_command, copy_kib: COPY_KIB })
}

/// The kernels of Table 3. Those of 2.4 have the switches of the ladder's rungs.
pub(super) fn kernels() -> Vec<Kernel> {
    let mut all: Vec<Kernel> =
        ["Baseline", "SB", "SBI", "SBIR", "SBIRV"].into_iter().filter_map(rung).collect();
    all.push(Kernel {
        name: "2.5.17",
        bounce: false,
        unit: Unit::Call,
        // Section 9.4: the readv path has not seen the benefits of the bio.
        vector: Vector::PerSegment,
        queueing: Scope::Adapter,
        sending: Scope::Adapter,
        per_unit: UNIT_2_4,
        per_command: COMMAND_2_5,
        copy_kib: COPY_KIB,
    });
    all
}
