//! How the bytes of a copy were dealt with.

/// Bytes that this run has copied, by method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Written.
    pub(super) written: u64,
    /// Made zero without being written.
    pub(super) zeroed: u64,
    /// Left out: the destination reads as zeroes there.
    pub(super) skipped: u64,
}

impl Totals {
    /// The sum.
    pub(super) fn sum(&self) -> u64 {
        self.written + self.zeroed + self.skipped
    }
}
