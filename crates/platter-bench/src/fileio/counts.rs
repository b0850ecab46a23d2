//! The counters of a device during a run.

use super::report::OnDevice;
use crate::about::about;
use crate::device_stats::DeviceStats;
use platter_block::counters::Snapshot;
use platter_block::handle::HandleCounters;
use platter_cache::readahead::Counters;
use platter_disk::device::Device;

/// The counts of a device at the beginning.
pub(super) struct Before<'a> {
    device: &'a Device,
    counters: Snapshot,
    stats: DeviceStats,
    cache: Option<HandleCounters>,
}

impl<'a> Before<'a> {
    pub(super) fn new(device: &'a Device) -> Before<'a> {
        let (counters, cache) = (device.counters(), device.cache_counters());
        Before { device, counters, stats: DeviceStats::of(device), cache }
    }

    /// The counts since then.
    pub(super) fn until_now(self) -> OnDevice {
        let before = self.cache.unwrap_or_default();
        OnDevice {
            facts: self.device.facts(),
            parts: about(self.device),
            counters: self.device.counters().since(&self.counters),
            stats: DeviceStats::of(self.device).since(&self.stats),
            cache: self.device.cache_counters().map(|now| since(&now, &before)),
        }
    }
}

fn since(now: &HandleCounters, before: &HandleCounters) -> HandleCounters {
    let (read, had) = (&now.readahead, &before.readahead);
    HandleCounters {
        readahead: Counters {
            closed_by_miss: read.closed_by_miss - had.closed_by_miss,
            closed_by_hit: read.closed_by_hit - had.closed_by_hit,
            shrunk: read.shrunk - had.shrunk,
            contiguous: read.contiguous - had.contiguous,
            random: read.random - had.random,
            windows: read.windows - had.windows,
            lookups: read.lookups - had.lookups,
        },
        hits: now.hits - before.hits,
        misses: now.misses - before.misses,
        pages_read_ahead: now.pages_read_ahead - before.pages_read_ahead,
        pages_used: now.pages_used - before.pages_used,
        pages_evicted_unused: now.pages_evicted_unused - before.pages_evicted_unused,
        reads: std::array::from_fn(|class| now.reads[class] - before.reads[class]),
    }
}
