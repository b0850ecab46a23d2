//! Mirrors over simulated disks.

use platter_block::backend::Backend;
use platter_block::queue::Settings as QueueSettings;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::power::Supply;
use platter_sim::{Options, SimDisk, World};
use platter_stack::LayerError;
use platter_stack::array_metadata::Uuid;
use platter_stack::raid1::{NewMirror, Raid1, Settings, create};
use std::sync::Arc;

/// Where the data of a member begins.
pub(crate) const FRONT: u64 = 1 << 20;
pub(crate) const CHUNK: u64 = 4096;
/// Bytes of the arrays.
pub(crate) const SIZE: u64 = 16 * CHUNK;

/// Disks with volatile caches at one supply.
pub(crate) struct Rig {
    pub(crate) world: Arc<World>,
    pub(crate) supply: Supply,
    pub(crate) disks: Vec<SimDisk>,
}

impl Rig {
    pub(crate) fn new(seed: u64, count: usize) -> Rig {
        let (world, supply) = (World::by_hand(seed), Supply::new());
        let disk = |nth: usize| {
            let latency = Span::from_micros(100 + 37 * nth as u64);
            let model = Ideal { size: FRONT + SIZE, latency, depth: 8, write_cache: true };
            let options = Options { medium: Some(Medium::new()), supply: Some(supply.clone()), faults: None };
            SimDisk::with(&world, model.into(), options)
        };
        let disks = (0..count).map(disk).collect();
        Rig { world, supply, disks }
    }

    /// The disks as devices: a request that takes 50 ms is aborted, and 50 ms later the disk is failed.
    pub(crate) fn devices(&self) -> Vec<Arc<dyn Backend>> {
        (0..self.disks.len()).map(|nth| self.device(nth)).collect()
    }

    pub(crate) fn device(&self, nth: usize) -> Arc<dyn Backend> {
        let limit = Some(Span::from_millis(50));
        let queue = QueueSettings { timeout: limit, abort_grace: limit, ..QueueSettings::default() };
        let settings = DiskSettings::default().with_queue(queue);
        let disk = self.disks[nth].attach(["a", "b", "c", "d"][nth]);
        Arc::new(DiskBackend::new(disk, settings, None).unwrap())
    }

    /// Makes a mirror of the first `members` disks.
    pub(crate) fn create(&self, members: usize, bitmap: bool) {
        create(&self.devices()[..members], &new(members, bitmap)).unwrap();
    }

    pub(crate) fn open(&self, settings: Settings) -> Result<Raid1, LayerError> {
        Raid1::open(self.devices(), settings)
    }

    /// The data on the medium of a disk.
    pub(crate) fn medium(&self, nth: usize) -> Vec<u8> {
        let mut data = vec![0; SIZE as usize];
        self.disks[nth].contents(FRONT / 512, &mut data);
        data
    }

    pub(crate) fn pass(&self, span: Span) {
        let clock = self.world.clock();
        clock.advance_to(clock.now() + span);
    }
}

pub(crate) fn uuid(nth: usize) -> Uuid {
    Uuid([nth as u8 + 1; 16])
}

pub(crate) fn new(members: usize, bitmap: bool) -> NewMirror {
    NewMirror {
        array: Uuid([77; 16]),
        name: "data".into(),
        members: (0..members).map(uuid).collect(),
        chunk: Some(CHUNK),
        bitmap,
        is_clean: true,
        force: false,
    }
}

/// Fast ones for tests.
pub(crate) fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.tidy_delay = Span::from_millis(5);
    settings
}

pub(crate) fn text(device: &Device, name: &str) -> String {
    let layers = device.layers();
    layers[0].value(name).unwrap_or_else(|| panic!("no {name}: {layers:?}")).to_string()
}
