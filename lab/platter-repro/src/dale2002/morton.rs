//! Morton's remarks: one "(oldish) scsi disk on aic7xxx" written with kiobufs and with bios. The disk is one of the catalogue.

use crate::ReproError;
use crate::disk::REQUESTS_OF_2_4;
use platter_bench::processes::{Placement, Process, RunLimits, WritePlan, run, write_file};
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_elevators::presets::{self, Preset};
use platter_sim::catalogue::{self, Choices};
use platter_sim::{SimDisk, World};
use std::sync::atomic::AtomicBool;

/// Sizes of Morton's calls, and of a kiobuf, after which 2.5.25 waits.
pub(super) const SMALL: u64 = 128 << 10;
pub(super) const LARGE: u64 = 1 << 20;
pub(super) const KIOBUF: u64 = 512 << 10;
/// A SCSI disk of 1998. Its write cache is off, and it gets eight commands at a time.
const DISK: &str = "cheetah9lp";
const DEPTH: u32 = 8;
/// Bytes written, unless scaled.
const BYTES: u64 = 512 << 20;
const FEWEST: u64 = 32 << 20;

/// Writes of one size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writes {
    /// Bytes of a call.
    pub(super) bytes: u64,
    /// Bytes after which it waits.
    pub(super) wait: u64,
    seed: u64,
}

pub(super) fn all(seed: u64) -> impl Iterator<Item = Writes> {
    // A call that is no longer than a kiobuf is the same with kiobufs and with bios.
    [(SMALL, SMALL), (LARGE, KIOBUF), (LARGE, LARGE)].into_iter().map(move |(bytes, wait)| Writes {
        bytes,
        wait,
        seed,
    })
}

/// MiB/s.
pub(super) fn write(writes: &Writes, scale: u64, cancel: &AtomicBool) -> Result<f64, ReproError> {
    let device = open(writes.seed)?;
    let file = Placement::new(device.size()).file((BYTES / scale).max(FEWEST))?;
    let process = Process::new("dd", 1, write_file(file, WritePlan::direct(writes.wait)));
    let outcome = run(
        &device,
        vec![process],
        &RunLimits { time: None, cancel, sync_writes: false, flusher_starts: false },
    )?;
    match outcome.records.first() {
        Some(record) if !outcome.cancelled => Ok(record.mib_per_s()),
        _ => Err(ReproError::Interrupted),
    }
}

fn open(seed: u64) -> Result<Device, ReproError> {
    let row = catalogue::by_name(DISK).ok_or(ReproError::NoDisk(DISK))?;
    let choices = Choices { seed, write_cache: Some(false), ..Choices::default() };
    let model = row.make(choices).map_err(|_| ReproError::NoDisk(DISK))?;
    let disk = SimDisk::new(&World::new(seed), model, None);
    let mut settings = DiskSettings::default().with_caller_plug(false);
    (settings.queue.depth, settings.queue.nr_requests) = (DEPTH, REQUESTS_OF_2_4);
    // 2.5.25 had the elevator of 2.4.18 until 2.5.35.
    let (kernel, elevator) = ("2.4.18", "linus");
    let preset = presets::find(kernel, elevator).and_then(Preset::make);
    let preset = preset.ok_or(ReproError::NoPreset { kernel, elevator })?;
    let mut geometry = disk.geometry();
    geometry.limits.max_transfer = geometry.limits.max_transfer.min(64 << 10);
    Device::from_disk(disk.attach(DISK).with_geometry(geometry), settings, Some(preset))
        .map_err(|error| ReproError::Processes(error.into()))
}

pub(super) fn method() -> String {
    format!(
        "Morton's disk is not named: it is {DISK} of the catalogue, its write cache off, {DEPTH} commands at a time of at most \
         64 KiB, chosen before the model was run."
    )
}
