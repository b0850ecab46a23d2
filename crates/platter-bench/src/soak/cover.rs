//! What runs of the soak came across.

macro_rules! cover {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of what runs came across, so that one can see that they did.
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
    /// Bios submitted.
    bios,
    /// Bios that failed.
    failed,
    /// Sectors read and compared.
    sectors_checked,
    /// Hard barriers that ended well.
    hard_barriers,
    /// Soft barriers that ended well.
    soft_barriers,
    /// Flushes that ended well.
    flushes,
    /// Writes with FUA that ended well.
    fua,
    /// Bios with a preflush that ended well.
    preflushes,
    /// Discards and write-zeroes that ended well.
    discards,
    /// Bios that joined a request, and requests that joined another.
    merges,
    /// Pieces that bios were split into.
    splits,
    /// Flushes that shared one.
    flushes_coalesced,
    /// Bytes that went through bounce buffers.
    bytes_bounced,
    /// Bios started again after their request failed, or requests that the disk had no room for.
    requeues,
    /// Bios that timed out.
    timeouts,
    /// Elevators switched.
    switches,
    /// Elevators switched while bios were under way.
    switches_in_flight,
    /// Power cuts.
    cuts,
    /// Power cuts while the disk had a flush.
    cuts_in_flush,
    /// Power cuts while the disk had a write.
    cuts_in_write,
    /// Writes of which a cut left a part.
    torn_writes,
    /// Sectors that went back to an older version in a cut.
    sectors_lost,
    /// I/Os that failed by plan.
    errors,
    /// Flushes that failed by plan.
    flush_errors,
    /// I/Os that took longer by plan.
    spikes,
    /// I/Os that were stuck by plan.
    stuck,
    /// Disks that died and came back.
    deaths,
    /// Elevators that were found to be wrong.
    elevator_faults,
    /// Virtual time, in ms.
    virtual_ms,
}
