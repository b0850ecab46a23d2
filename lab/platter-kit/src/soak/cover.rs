//! Counts of the events of soak runs.

use super::plan::Node;
use platter_block::bio::{Flags, Op};
use platter_sim::fault::Injected;

macro_rules! cover {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of events, to show that the runs exercised them.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Cover {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Cover {
            /// Adds the counts of another run.
            pub fn add(&mut self, other: &Cover) {
                $(self.$name += other.$name;)*
            }

            /// Name and value of each count, for reports.
            pub fn rows(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

cover! {
    /// Bios submitted through channels and as futures.
    bios,
    /// Synchronous calls.
    calls,
    /// I/Os that failed.
    failed,
    /// Sectors read and compared.
    sectors_checked,
    /// Hard barriers that succeeded.
    hard_barriers,
    /// Soft barriers that succeeded.
    soft_barriers,
    /// Flushes that ended well.
    flushes,
    /// Writes with FUA that succeeded.
    fua,
    /// I/Os with a preflush that succeeded.
    preflushes,
    /// Discards and write-zeroes that succeeded.
    discards,
    /// Atomic writes that succeeded.
    atomic_writes,
    /// Bios that were reused after completion.
    reused,
    /// Bios that joined a request, and requests that joined another.
    merges,
    /// Pieces that bios were split into.
    splits,
    /// Flushes that shared one.
    flushes_coalesced,
    /// Calls that began or ended inside a block.
    misplaced,
    /// Bytes that went through bounce buffers.
    bytes_bounced,
    /// Bios that were retried after their request failed, and requests that the disk rejected as busy.
    requeues,
    /// Bios that timed out.
    timeouts,
    /// Disks that were failed because they did not answer.
    failed_disks,
    /// I/Os that ended while a disk had had a command for a second, or a change was late.
    late,
    /// The same under a page cache over raid0 over several paths.
    late_deep,
    /// The same of a snapshot or its origin.
    late_snapshots,
    /// The same of two arrays over the same disks in opposite order.
    late_twins,
    /// Synchronous calls that overlap a late change of a channel or future of the same thread.
    late_calls,
    /// Elevator switches at such a time.
    late_switches,
    /// Disks that were resized at such a time.
    late_resizes,
    /// Devices and channels that were closed at such a time.
    late_closes,
    /// I/Os of which the memory was lent until they ended.
    lent,
    /// The same that took a second or more.
    lent_late,
    /// I/Os that the program cancelled.
    cancels,
    /// Channels and futures dropped with I/O in flight.
    dropped,
    /// Channels that were not polled for some time.
    neglected,
    /// Hints about future reads.
    hints,
    /// Devices that were closed and opened again.
    reopened,
    /// Runs with a layer.
    layered,
    /// Runs with an array.
    arrays,
    /// Runs with two arrays over the same disks in opposite order.
    twins,
    /// Runs with a page cache.
    caches,
    /// Elevators switched.
    switches,
    /// Elevator switches with bios in flight.
    switches_in_flight,
    /// Power cuts.
    cuts,
    /// Power cuts with a flush in a disk.
    cuts_in_flush,
    /// Power cuts with a write in a disk.
    cuts_in_write,
    /// Writes of which a power cut left only a part on disk.
    torn_writes,
    /// Sectors that a power cut returned to an older version.
    sectors_lost,
    /// Commands that failed with EIO.
    errors,
    /// Commands that failed with a transient error.
    transient,
    /// Commands that ended because they were cancelled.
    aborted,
    /// Flushes that failed.
    flush_errors,
    /// Commands that took longer.
    spikes,
    /// Commands that were stuck.
    stuck,
    /// Disks that failed and recovered.
    deaths,
    /// Disks that shrank or grew.
    resizes,
    /// Disks that were removed and returned.
    removals,
    /// Times that the program accepted the sizes of the disks.
    refreshes,
    /// I/Os that failed because a disk was removed or too small.
    gone,
    /// Elevators that broke their contract.
    elevator_faults,
    /// Virtual time, in ms.
    virtual_ms,
}

impl Cover {
    pub(super) fn stack(&mut self, stack: &Node) {
        self.layered += u64::from(stack.kind() != "disk");
        self.arrays += u64::from(stack.spreads());
        self.caches += u64::from(stack.has("cache"));
    }

    pub(super) fn completed(&mut self, op: Op, flags: Flags, well: bool) {
        if !well {
            self.failed += 1;
            return;
        }
        let has = |flag| u64::from(flags.contains(flag));
        self.hard_barriers += has(Flags::HARD_BARRIER);
        self.soft_barriers += has(Flags::SOFT_BARRIER);
        self.preflushes += has(Flags::PREFLUSH);
        self.atomic_writes += has(Flags::ATOMIC);
        self.fua += if op == Op::Write { has(Flags::FUA) } else { 0 };
        self.flushes += u64::from(op == Op::Flush);
        self.discards += u64::from(matches!(op, Op::Discard | Op::WriteZeroes));
    }

    /// Faults injected into the disks so far.
    pub(super) fn faults(&mut self, injected: &Injected) {
        self.errors = injected.read_errors + injected.write_errors;
        self.flush_errors = injected.flush_errors;
        self.transient = injected.transient;
        self.aborted = injected.aborted;
        self.spikes = injected.spikes;
        self.stuck = injected.stuck;
        self.deaths = injected.deaths;
    }
}
