//! Shared by the tests of the cache.

use platter_block::backend::Backend;
use platter_block::disk::FnDisk;
use platter_block::driver::Driver;
use platter_block::time::Span;
use platter_cache::{self as cache, Settings};
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_scsi::disk::ScsiTarget;
use platter_sim::fault::FaultPlan;
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::power::Supply;
use platter_sim::{Options, SimDisk, World};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What takes longer, in real time, is considered hung.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for what other threads do. Returns whether that happened.
pub(crate) fn until(mut done: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while !done() {
        if begin.elapsed() > PATIENCE {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// A simulated disk with the same time for every command, and its power supply.
pub(crate) fn disk(world: &Arc<World>, ideal: Ideal, faults: Option<FaultPlan>) -> (SimDisk, Supply) {
    let supply = Supply::new();
    let options = Options { medium: Some(Medium::new()), faults, supply: Some(supply.clone()) };
    (SimDisk::with(world, ideal.into(), options), supply)
}

/// A simulated disk as a device.
pub(crate) fn backend(disk: &SimDisk, settings: DiskSettings) -> Arc<dyn Backend> {
    Arc::new(DiskBackend::new(disk.attach("sim"), settings, None).unwrap())
}

/// A simulated disk behind a SCSI target, which takes commands.
pub(crate) fn behind_target(disk: &SimDisk, settings: DiskSettings) -> Arc<dyn Backend> {
    let target = ScsiTarget::new(backend(disk, DiskSettings::default()));
    let port = target.port(platter_scsi::disk::Options::default()).unwrap();
    Arc::new(DiskBackend::new(port, settings, None).unwrap())
}

/// As `backend`, with drivers of the test.
pub(crate) fn backend_by(
    disk: &SimDisk,
    settings: DiskSettings,
    driver: impl Fn() -> Box<dyn Driver> + Send + Sync + 'static,
) -> Arc<dyn Backend> {
    let mut settings = settings;
    settings.queue.depth = settings.queue.depth.min(disk.depth());
    let clock = Arc::clone(disk.world().clock());
    let disk = FnDisk::new("sim", disk.geometry(), move |_| Ok(driver())).with_clock(clock);
    Arc::new(DiskBackend::new(disk, settings, None).unwrap())
}

/// A cache over it.
pub(crate) fn cached(below: Arc<dyn Backend>, settings: &Settings) -> Device {
    Device::new(cache::new(below, settings).unwrap())
}

/// Settings of a small cache: `pages` pages, a window of four, no write-back by age.
pub(crate) fn small(pages: u64) -> Settings {
    let expire = Span::from_secs(3600);
    Settings { size: pages * 4096, window: 16384, expire, gather: 0, ..Settings::default() }
}
