//! A simulated disk as the host sees it.

use crate::SimDisk;
use platter_block::allocation::Extent;
use platter_block::backend::{Fact, LaneUse};
use platter_block::disk::{Disk, DiskChannel};
use platter_block::driver::Geometry;
use platter_block::fault::Error;
use platter_block::time::VirtualClock;
use std::sync::Arc;

/// A simulated disk with a name and, where they differ, the limits of the adapter that it is attached to.
#[derive(Clone)]
pub struct Attached {
    disk: SimDisk,
    name: Arc<str>,
    geometry: Geometry,
    facts: Vec<Fact>,
}

impl SimDisk {
    /// The disk as a [`Disk`], which queues can be put over.
    ///
    /// ```
    /// use platter_block::disk::Disk;
    /// use platter_block::time::Span;
    /// use platter_sim::ideal::Ideal;
    /// use platter_sim::{SimDisk, World};
    ///
    /// let ideal = Ideal { size: 1 << 20, latency: Span::from_micros(100), depth: 32, write_cache: false };
    /// let disk = SimDisk::new(&World::new(1), ideal.into(), None);
    /// assert_eq!(&*disk.attach("fast").name(), "fast");
    /// ```
    pub fn attach(&self, name: &str) -> Attached {
        Attached { disk: self.clone(), name: Arc::from(name), geometry: self.geometry(), facts: Vec::new() }
    }
}

impl Attached {
    /// With another geometry than the disk's own.
    #[must_use]
    pub fn with_geometry(mut self, geometry: Geometry) -> Attached {
        self.geometry = geometry;
        self
    }

    /// With further facts for reports.
    #[must_use]
    pub fn with_facts(mut self, facts: Vec<Fact>) -> Attached {
        self.facts.extend(facts);
        self
    }
}

impl Disk for Attached {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn open_channel(&self, _lane_use: LaneUse) -> Result<DiskChannel, Error> {
        Ok(self.disk.channel())
    }

    fn depth(&self) -> Option<u32> {
        Some(self.disk.depth())
    }

    fn clock(&self) -> Option<Arc<VirtualClock>> {
        Some(Arc::clone(self.disk.world().clock()))
    }

    fn facts(&self) -> Vec<Fact> {
        [("driver", "simulated".to_owned())].into_iter().chain(self.facts.clone()).collect()
    }

    fn holds_unflushed(&self) -> bool {
        true
    }

    fn allocation(&self, pos: u64, len: u64) -> Result<Extent, Error> {
        Ok(self.disk.allocation(pos, len))
    }

    fn current_size(&self) -> Result<Option<u64>, Error> {
        Ok(self.disk.current_size())
    }
}
