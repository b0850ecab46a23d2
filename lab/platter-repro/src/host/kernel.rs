//! A kernel: in what pieces it reads, under which locks, and for how long each function keeps a processor.
//!
//! Every function on a path takes the same time, one time for those of a unit and one for those of a command, except under a lock whose
//! holds were measured.

use platter_bench::ladder::{self, Unit};
use platter_block::time::Span;

/// What a lock serialises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All queues.
    All,
    /// The queues of one adapter.
    Adapter,
    /// One queue.
    Queue,
}

/// A kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    /// The source's name of it.
    pub(crate) name: &'static str,
    pub(crate) bounce: bool,
    /// Most bytes of a unit: a buffer head or a bio.
    pub(crate) unit: u64,
    /// Most bytes of a call that are in flight before it waits for them.
    pub(crate) chunk: u64,
    /// Most bytes of a command.
    pub(crate) command: u32,
    /// A call for several pieces of memory is one for each.
    pub(crate) per_segment: bool,
    /// The lock under which bios are queued.
    pub(crate) queueing: Scope,
    /// The lock under which requests are taken from the queue, sent to the adapter and found complete. Where it is not
    /// the lock of the queue, requests are taken from the queue under both.
    pub(crate) sending: Scope,
    /// Processor time of a function that is called for each unit.
    pub(crate) per_unit: Span,
    /// Processor time of a function that is called for each command.
    pub(crate) per_command: Span,
    /// Time to copy a KiB through low memory.
    pub(crate) copy_kib: Span,
    /// How long locks are held, where that was measured; otherwise for the time of the functions under them.
    pub(crate) holds: Option<Holds>,
}

/// Measured times for which a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holds {
    /// To queue a unit.
    pub(crate) queue: Span,
    /// To take the requests from a queue.
    pub(crate) unplug: Span,
    /// To send a command.
    pub(crate) send: Span,
    /// Of an interrupt.
    pub(crate) interrupt: Span,
    /// Of each further acquisition of the lock of all queues.
    pub(crate) other: Span,
    /// How many of these a command has after it was sent, and as many at its completion.
    pub(crate) others: u32,
}

pub(super) fn times(count: usize, cost: Span) -> Span {
    Span(count as u64 * cost.0)
}

/// For how long locks are held.
impl Kernel {
    pub(super) fn queues(&self) -> Span {
        self.holds.map_or(times(QUEUE.len(), self.per_unit), |holds| holds.queue)
    }

    pub(super) fn unplugs(&self) -> Span {
        self.holds.map_or(times(UNPLUG.len(), self.per_command), |holds| holds.unplug)
    }

    pub(super) fn sends(&self) -> Span {
        self.holds.map_or(times(SEND.len(), self.per_command), |holds| holds.send)
    }

    pub(super) fn interrupts(&self, commands: usize) -> Span {
        self.holds.map_or(times(commands * INTERRUPT.len(), self.per_command), |holds| holds.interrupt)
    }

    pub(super) fn relocks(&self) -> u32 {
        self.holds.map_or(0, |holds| holds.others)
    }

    pub(super) fn relock_hold(&self) -> Span {
        self.holds.map_or(Span::ZERO, |holds| holds.other)
    }
}

/// No limit of a size.
pub(crate) const UNLIMITED: u64 = u64::MAX;

/// Bytes of a unit of a rung.
pub(crate) const fn unit_bytes(unit: ladder::Unit) -> u64 {
    match unit {
        Unit::Sector => 512,
        Unit::Page => 4096,
        Unit::Call => UNLIMITED,
    }
}

/// Functions on the path of a unit, by where they run: before the queue's lock, under it, and at completion. Their number is
/// from section 2, Tables 7 and 8 of the paper of 2002.
pub(crate) const BUILD: [&str; 2] = ["submit_bh", "generic_make_request"];
pub(crate) const QUEUE: [&str; 3] = ["__make_request", "elevator_linus_merge", "scsi_back_merge_fn"];
pub(crate) const END: [&str; 2] = ["end_that_request_first", "end_buffer_io_kiobuf"];

/// Functions on the path of a command.
pub(crate) const CALL: [&str; 5] = ["sys_read", "raw_read", "rw_raw_dev", "map_user_kiobuf", "brw_kiovec"];
pub(crate) const WAIT: [&str; 3] = ["kiobuf_wait_for_io", "run_task_queue", "schedule"];
pub(crate) const UNPLUG: [&str; 3] = ["generic_unplug_device", "scsi_request_fn", "blkdev_dequeue_request"];
pub(crate) const SEND: [&str; 2] = ["scsi_dispatch_cmd", "ips_make_passthru"];
pub(crate) const INTERRUPT: [&str; 2] = ["do_ipsintr", "scsi_done"];
pub(crate) const COMPLETE: [&str; 6] = [
    "do_softirq",
    "tasklet_hi_action",
    "bh_action",
    "scsi_bottom_half_handler",
    "scsi_io_completion",
    "scsi_release_buffers",
];
