//! The simulated disks of experiments, each in a world of its own.

use super::{Elevators, ReproError};
use platter_block::driver::Geometry;
use platter_block::queue::{PlugSettings, PoolRules};
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_sim::catalogue::{self, Choices};
use platter_sim::{SimDisk, World};

/// A disk with its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiskPlan {
    /// Name in the catalogue.
    pub(super) disk: &'static str,
    /// Most commands with the disk at once.
    pub(super) depth: u32,
    /// Whether the device plugs.
    pub(super) plug: bool,
    /// Most bytes of a command.
    pub(super) max_transfer: u32,
}

/// Most bytes of a request of 2.4: the buffer heads of 4 KiB that fit into its 255 sectors (`MAX_SECTORS`), for none is split.
const REQUEST_OF_2_4: u32 = 31 * 4096;
/// Requests for each direction in 2.4: half of the 128 that a queue has on machines with more than 32 MB.
pub(super) const REQUESTS_OF_2_4: u32 = 64;

/// The IDE disk of 2004, one command at a time, of at most 256 sectors, the limit of 28-bit addresses.
pub(super) const IDE: DiskPlan = DiskPlan { disk: "ide2004", depth: 1, plug: true, max_transfer: 128 << 10 };

/// A SCSI disk with 16 tagged commands of at most 1024 sectors, as in 2.6.
pub(super) const SCSI: DiskPlan =
    DiskPlan { disk: "man3367mp", depth: 16, plug: true, max_transfer: 512 << 10 };

/// Opens the disk in a new world, with an elevator as a kernel had it; `elevator` is a kernel and one of its elevators. Bios go to the queue one by one, as in 2.6 before 2.6.39.
pub(super) fn open(
    plan: DiskPlan,
    elevator: (&'static str, &'static str),
    seed: u64,
) -> Result<Device, ReproError> {
    open_changed(plan, elevator, seed, &Elevators::default())
}

/// [`open`] with other elevators than the published ones.
pub(super) fn open_changed(
    plan: DiskPlan,
    elevator: (&'static str, &'static str),
    seed: u64,
    elevators: &Elevators,
) -> Result<Device, ReproError> {
    open_with(plan, (elevator, elevators), seed, |_, _| ())
}

/// [`open_changed`] for a file system of 2004, which does not flush the disk's own cache; with another number of requests for each
/// direction, if one is given.
pub(super) fn open_unflushed(
    plan: DiskPlan,
    elevator: ((&'static str, &'static str), &Elevators),
    seed: u64,
    requests: Option<u32>,
) -> Result<Device, ReproError> {
    open_with(plan, elevator, seed, |geometry, settings| {
        geometry.features.write_cache = false;
        settings.queue.nr_requests = requests.unwrap_or(settings.queue.nr_requests);
    })
}

/// Whether a kernel has the plug, the pool and the limits of 2.4.
pub(super) fn is_2_4(kernel: &str) -> bool {
    kernel.starts_with("2.4.")
}

fn open_with(
    plan: DiskPlan,
    ((kernel, elevator), elevators): ((&'static str, &'static str), &Elevators),
    seed: u64,
    change: impl FnOnce(&mut Geometry, &mut DiskSettings),
) -> Result<Device, ReproError> {
    let row = catalogue::by_name(plan.disk).ok_or(ReproError::NoDisk(plan.disk))?;
    let choices = Choices { seed, ..Choices::default() };
    let model = row.make(choices).map_err(|_| ReproError::NoDisk(plan.disk))?;
    let disk = SimDisk::new(&World::new(seed), model, None);
    let mut settings = DiskSettings::default().with_caller_plug(false);
    settings.queue.depth = plan.depth;
    if !plan.plug {
        settings.queue.plug = None;
    }
    let elevator = elevators.make(kernel, elevator)?;
    let mut geometry = disk.geometry();
    geometry.limits.max_transfer = geometry.limits.max_transfer.min(plan.max_transfer);
    if is_2_4(kernel) {
        geometry.limits.max_transfer = geometry.limits.max_transfer.min(REQUEST_OF_2_4);
        settings.queue.nr_requests = REQUESTS_OF_2_4;
        settings.queue.pool = PoolRules::Quarter;
        settings.queue.plug = settings.queue.plug.map(|_| PlugSettings::BY_WAITERS);
    }
    change(&mut geometry, &mut settings);
    Device::from_disk(disk.attach(plan.disk).with_geometry(geometry), settings, Some(elevator))
        .map_err(|error| ReproError::Processes(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn param(kernel: &'static str, elevator: &'static str, name: &str) -> i64 {
        let device = open(IDE, (kernel, elevator), 1).unwrap();
        let params = device.elevator_params();
        params.iter().find(|(param, _)| param.name == name).unwrap().1
    }

    #[test]
    fn the_elevator_is_that_of_the_kernel() {
        let rules = ["2.5.61", "2.6.5", "2.6.28"].map(|kernel| param(kernel, "deadline", "batch_rule"));
        assert_eq!(rules, [0, 0, 1]);
        let rules = ["2.6.5", "2.6.7", "2.6.16"].map(|kernel| param(kernel, "anticipatory", "rule"));
        assert_eq!(rules, [1, 1, 2]);
        // Linux 2.4: requests of 248 sectors, 64 for each direction.
        let limits = [("2.4.25", "linus"), ("2.6.5", "deadline")].map(|elevator| {
            let device = open(IDE, elevator, 1).unwrap();
            let requests = device.facts().into_iter().find(|(name, _)| *name == "nr_requests");
            (device.geometry().limits.max_transfer, requests.unwrap().1)
        });
        assert_eq!(limits, [(126_976, "64".to_owned()), (131_072, "128".to_owned())]);
        assert_eq!(param("2.4.25", "linus", "max_sectors"), 255);
        let error = open(IDE, ("2.4.25", "cfq"), 1).err().map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.contains("no elevator `cfq` of Linux 2.4.25")));
    }
}
