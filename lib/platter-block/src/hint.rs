//! What a program tells a cache about its reads, and what a cache counts of them.

/// A program's hint about its future reads (`posix_fadvise`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Hint {
    /// No hint: what was said before, [`NoReuse`](Hint::NoReuse) included, no longer holds.
    #[default]
    Normal,
    /// Reads will be sequential: windows are twice as large.
    Sequential,
    /// Reads will be random: no readahead.
    Random,
    /// The range will be needed soon: it is read now.
    WillNeed,
    /// The range will not be needed any more: its clean pages are dropped, and its dirty ones written.
    DontNeed,
    /// Each byte will be needed once: pages that are read from the disk for it are evicted before others. A read that is answered
    /// from memory alone counts as a use all the same, so reads should have the size of a page or more. Holds until
    /// [`Normal`](Hint::Normal).
    NoReuse,
}

/// The counts of a readahead policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadaheadCounters {
    /// How often readahead was switched off because accesses were not sequential.
    pub closed_by_miss: u64,
    /// How often readahead was switched off because pages were cached.
    pub closed_by_hit: u64,
    /// How often a window shrank because its pages were cached.
    pub shrunk: u64,
    /// Accesses that continued earlier ones.
    pub contiguous: u64,
    /// Accesses that did not.
    pub random: u64,
    /// Windows that were read.
    pub windows: u64,
    /// How often the policy was called and had to examine its state or the cache.
    pub lookups: u64,
}
