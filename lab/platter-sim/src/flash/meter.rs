//! Counters of a flash disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a flash disk; clones show the same disk. Sizes in units of 4 KiB.
#[derive(Clone, Debug, Default)]
pub struct SsdMeter(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    host: AtomicU64,
    programmed: AtomicU64,
    copied: AtomicU64,
    erased: AtomicU64,
    trimmed: AtomicU64,
    reads: AtomicU64,
}

impl SsdMeter {
    pub(super) fn count_host(&self, units: u64) {
        self.0.host.fetch_add(units, Ordering::Relaxed);
    }

    pub(super) fn count_programmed(&self, units: u64) {
        self.0.programmed.fetch_add(units, Ordering::Relaxed);
    }

    pub(super) fn count_copied(&self, units: u64) {
        self.0.copied.fetch_add(units, Ordering::Relaxed);
    }

    pub(super) fn count_erased(&self) {
        self.0.erased.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_trimmed(&self, units: u64) {
        self.0.trimmed.fetch_add(units, Ordering::Relaxed);
    }

    pub(super) fn count_read(&self) {
        self.0.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Units that the host wrote.
    pub fn host_units(&self) -> u64 {
        self.0.host.load(Ordering::Relaxed)
    }

    /// Units of flash that were programmed, filling included.
    pub fn programmed_units(&self) -> u64 {
        self.0.programmed.load(Ordering::Relaxed)
    }

    /// Units that garbage collection copied.
    pub fn copied_units(&self) -> u64 {
        self.0.copied.load(Ordering::Relaxed)
    }

    /// Blocks erased, those of all planes of a die as one.
    pub fn erased_blocks(&self) -> u64 {
        self.0.erased.load(Ordering::Relaxed)
    }

    /// Units that discards freed.
    pub fn trimmed_units(&self) -> u64 {
        self.0.trimmed.load(Ordering::Relaxed)
    }

    /// Pages read from flash, those of all planes of a die as one.
    pub fn page_reads(&self) -> u64 {
        self.0.reads.load(Ordering::Relaxed)
    }

    /// Write amplification in thousandths: flash programmed for each unit that the host wrote. `None` before
    /// the first write.
    pub fn write_amplification(&self) -> Option<u64> {
        (self.programmed_units() * 1000).checked_div(self.host_units())
    }
}
