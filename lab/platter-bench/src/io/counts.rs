//! What the devices count, over the whole run.

use platter_block::counters::Snapshot;
use platter_block::handle::HandleCounters;
use platter_disk::device::Device;

use crate::cache_counts;
use crate::device_stats::DeviceStats;

/// The counts of all devices, added up.
pub(super) struct Counts {
    pub(super) queues: Snapshot,
    pub(super) device: DeviceStats,
    /// `None` without a cache.
    pub(super) cache: Option<HandleCounters>,
}

impl Counts {
    /// The counts at the beginning of a measurement.
    pub(super) fn before(devices: &[Device]) -> Counts {
        Counts { device: DeviceStats::before(devices), ..Counts::of(devices) }
    }

    /// The counts since the devices were opened.
    pub(super) fn of(devices: &[Device]) -> Counts {
        let mut queues = Snapshot::default();
        devices.iter().for_each(|device| queues.merge(&device.counters()));
        Counts { queues, device: DeviceStats::of_all(devices), cache: cache_counts::of_all(devices) }
    }

    /// The counts since `before`.
    pub(super) fn since(&self, before: &Counts) -> Counts {
        let had = before.cache.clone().unwrap_or_default();
        Counts {
            queues: self.queues.since(&before.queues),
            device: self.device.since(&before.device),
            cache: self.cache.as_ref().map(|now| cache_counts::since(now, &had)),
        }
    }
}
