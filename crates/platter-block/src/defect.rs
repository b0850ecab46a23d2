//! Defects that this project once had, kept so that its test instruments can be tested: with the feature `defects` each
//! can be put back while a test runs, and the soak must find it. Without the feature [`is_on`] is always `false` and costs
//! nothing.

/// A defect that can be put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u8)]
pub enum Defect {
    /// A cache writes a page again, and reports it durable, while a write of it that timed out may still reach the disk.
    CacheFlushIgnoresDoubt,
    /// The frames of a cache's I/Os that timed out are never used again, even when the disk has given them back.
    CacheFramesStayLost,
    /// A cache reads nothing ahead while many I/Os of any kind are under way.
    CacheReadaheadCountsAllIo,
    /// A page that was read into a cache on demand may be evicted before its reader gets it.
    CacheReadersLosePages,
    /// A cache writes nothing back while 1,024 I/Os of any kind are under way.
    CacheWriteBackCountsAllIo,
    /// A barrier of a layer waits for lanes that are not run without end, and everything behind it with it.
    LayerBarrierNeverFails,
    /// The number of bios in a request wraps at 65,536, and the rest of them never complete.
    MergedCountWraps,
}

impl Defect {
    /// All defects.
    pub const ALL: &[Defect] = &[
        Defect::CacheFlushIgnoresDoubt,
        Defect::CacheFramesStayLost,
        Defect::CacheReadaheadCountsAllIo,
        Defect::CacheReadersLosePages,
        Defect::CacheWriteBackCountsAllIo,
        Defect::LayerBarrierNeverFails,
        Defect::MergedCountWraps,
    ];

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Defect::CacheFlushIgnoresDoubt => "cache-flush-ignores-doubt",
            Defect::CacheFramesStayLost => "cache-frames-stay-lost",
            Defect::CacheReadaheadCountsAllIo => "cache-readahead-counts-all-io",
            Defect::CacheReadersLosePages => "cache-readers-lose-pages",
            Defect::CacheWriteBackCountsAllIo => "cache-write-back-counts-all-io",
            Defect::LayerBarrierNeverFails => "layer-barrier-never-fails",
            Defect::MergedCountWraps => "merged-count-wraps",
        }
    }

    /// One line about it.
    pub const fn summary(self) -> &'static str {
        match self {
            Defect::CacheFlushIgnoresDoubt => {
                "a cache reports a page durable while an older write of it may still reach the disk"
            }
            Defect::CacheFramesStayLost => "a cache never uses the frames of an I/O that timed out again",
            Defect::CacheReadaheadCountsAllIo => {
                "a cache reads nothing ahead while many reads of any kind are under way"
            }
            Defect::CacheReadersLosePages => {
                "a cache evicts a page before the reader that asked for it gets it"
            }
            Defect::CacheWriteBackCountsAllIo => {
                "a cache writes nothing back while 1,024 I/Os of any kind are under way"
            }
            Defect::LayerBarrierNeverFails => {
                "a barrier of a layer waits without end for a lane that is not run"
            }
            Defect::MergedCountWraps => {
                "a request of more than 65,535 bios loses count and never completes them"
            }
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
