//! Defects that this project once had, kept so that its test instruments can be tested: with the feature `defects` each
//! can be put back while a test runs, and the soak must find it. Without the feature [`is_on`] is always `false` and costs
//! nothing.

/// A defect that can be put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u8)]
pub enum Defect {
    /// A barrier waits for requests that have timed out, and everything behind it with it.
    BarrierWaitsForQuarantine,
    /// A bio's deadline is only looked at once the driver has it.
    DeadlineFromStart,
    /// What a request that timed out may still change is written, read and flushed as if nothing were to come.
    DoubtIgnored,
    /// A queue of a disk without a volatile cache takes FUA and PREFLUSH off the submitter's bio, which is then written
    /// without them to the next disk.
    FuaStripped,
    /// The number of bios in a request wraps at 65,536, and the rest of them never complete.
    MergedCountWraps,
    /// Requests that have timed out and fill the depth keep the rest waiting without an end.
    StuckDepthIgnored,
    /// An interruption or a shortage of memory in the system fails the bio, and every later flush.
    TransientFails,
}

impl Defect {
    /// All defects.
    pub const ALL: &[Defect] = &[
        Defect::BarrierWaitsForQuarantine,
        Defect::DeadlineFromStart,
        Defect::DoubtIgnored,
        Defect::FuaStripped,
        Defect::MergedCountWraps,
        Defect::StuckDepthIgnored,
        Defect::TransientFails,
    ];

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Defect::BarrierWaitsForQuarantine => "barrier-waits-for-quarantine",
            Defect::DeadlineFromStart => "deadline-from-start",
            Defect::DoubtIgnored => "doubt-ignored",
            Defect::FuaStripped => "fua-stripped",
            Defect::MergedCountWraps => "merged-count-wraps",
            Defect::StuckDepthIgnored => "stuck-depth-ignored",
            Defect::TransientFails => "transient-fails",
        }
    }

    /// One line about it.
    pub const fn summary(self) -> &'static str {
        match self {
            Defect::BarrierWaitsForQuarantine => "a barrier waits for requests that have timed out",
            Defect::DeadlineFromStart => "a bio that waits in a queue does not time out",
            Defect::DoubtIgnored => {
                "nothing waits for a write that has timed out and may still reach the disk"
            }
            Defect::FuaStripped => "a bio that is used again has lost FUA and PREFLUSH",
            Defect::MergedCountWraps => {
                "a request of more than 65,535 bios loses count and never completes them"
            }
            Defect::StuckDepthIgnored => {
                "requests that have timed out and fill the depth stop the device silently"
            }
            Defect::TransientFails => "an interrupted request fails its bio and every later flush",
        }
    }
}

#[cfg(feature = "defects")]
static ON: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(0);

/// Whether the defect is put back. Always `false` without the feature `defects`.
#[inline(always)]
pub fn is_on(defect: Defect) -> bool {
    #[cfg(feature = "defects")]
    return ON.load(core::sync::atomic::Ordering::Relaxed) & 1 << defect as u8 != 0;
    #[cfg(not(feature = "defects"))]
    {
        let _ = defect;
        false
    }
}

/// Puts a defect back, or takes it out again, for the whole process. Tests that do so run in a process of their own.
#[cfg(feature = "defects")]
pub fn set(defect: Defect, on: bool) {
    use core::sync::atomic::Ordering;
    let bit = 1 << defect as u8;
    if on {
        ON.fetch_or(bit, Ordering::Relaxed);
    } else {
        ON.fetch_and(!bit, Ordering::Relaxed);
    }
}
