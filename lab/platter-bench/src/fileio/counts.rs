//! The counters of a device during a run.

use super::report::OnDevice;
use crate::about::about;
use crate::cache_counts;
use crate::device_stats::DeviceStats;
use platter_block::counters::Snapshot;
use platter_block::handle::HandleCounters;
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
        Before { device, counters, stats: DeviceStats::before([device]), cache }
    }

    /// The counts since then.
    pub(super) fn until_now(self) -> OnDevice {
        let before = self.cache.unwrap_or_default();
        OnDevice {
            facts: self.device.facts(),
            parts: about(self.device),
            counters: self.device.counters().since(&self.counters),
            stats: DeviceStats::of(self.device).since(&self.stats),
            cache: self.device.cache_counters().map(|now| cache_counts::since(&now, &before)),
        }
    }
}
