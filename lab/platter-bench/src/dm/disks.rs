//! The disks: files that are created and removed, memory, or devices that the caller opens.

use super::options::RAM_BYTES;
use super::{DmError, Options};
use crate::ladder::{Ladder, Rung};
use crate::report::units;
use platter_block::disk::FnDisk;
use platter_block::driver::Driver;
use platter_block::elevator::Elevator;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::drivers::memory::Memory;
use platter_disk::open::DiskOptions;
use platter_disk::sys::{Pattern, Progress, TempFiles, TempSpec};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Opens one disk with the settings and the elevator of a rung.
pub type OpenDisk =
    Box<dyn Fn(DiskSettings, Option<Box<dyn Elevator>>) -> Result<Device, DmError> + Send + Sync>;

/// Disks of one kind, one for each worker.
pub struct Disks {
    /// Their name in results: `file`, `ram`.
    pub on: String,
    /// A description for people.
    pub about: String,
    /// One for each disk.
    pub open: Vec<OpenDisk>,
    /// Removes the files when dropped, if they were created for this.
    _files: Option<TempFiles>,
}

/// Seed of the contents of the disks.
const SEED: u64 = 2002;
/// Bytes of a disk in memory that are filled at a time.
const FILL: u64 = 1 << 20;

impl Disks {
    /// Disks that the caller opens.
    pub fn given(on: impl Into<String>, about: impl Into<String>, open: Vec<OpenDisk>) -> Disks {
        Disks { on: on.into(), about: about.into(), open, _files: None }
    }

    /// Creates files of incompressible data, in `dir`, in the current directory or in `$TMPDIR`. They are
    /// removed when this is dropped or the process ends.
    ///
    /// # Errors
    /// No directory on a disk, no space, or no permission; the message says which.
    pub fn files(
        options: &Options,
        dir: Option<&Path>,
        interrupted: &AtomicBool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Disks, DmError> {
        options.check()?;
        let (count, size) = (options.disks, options.size);
        let spec = TempSpec { dir, count, size, seed: SEED, cancel: Some(interrupted) };
        let files = TempFiles::create(&spec, progress).map_err(|error| match error.errno {
            Some(libc::ECANCELED) => DmError::Interrupted,
            _ => error.into(),
        })?;
        let open = files.paths().into_iter().map(|path| {
            let open: OpenDisk = Box::new(move |settings, elevator| {
                let options = DiskOptions::default().with_settings(settings).with_elevator(elevator);
                Ok(Device::open(&path, options)?)
            });
            open
        });
        let open = open.collect();
        let size = units::bytes(size);
        let place = format!("{} ({})", files.dir().display(), files.filesystem());
        let about = format!("{count} files of {size} in {place}");
        Ok(Disks { on: "file".to_owned(), about, open, _files: Some(files) })
    }

    /// Disks in memory, 1 MiB each or as large as the options say if that is less.
    ///
    /// # Errors
    /// No memory.
    pub fn ram(options: &Options) -> Result<Disks, DmError> {
        options.check()?;
        let size = options.size.min(RAM_BYTES);
        let open: Result<Vec<_>, DmError> = (0..options.disks).map(|disk| ram_disk(size, disk)).collect();
        let about = format!("{} disks of {} in memory", options.disks, units::bytes(size));
        Ok(Disks { on: "ram".to_owned(), about, open: open?, _files: None })
    }

    /// Opens all disks on a rung.
    pub(crate) fn open(&self, row: &Rung) -> Result<Vec<Ladder>, DmError> {
        let open = |disk: &OpenDisk| Ladder::open(row.switches, DiskSettings::default(), disk);
        self.open.iter().map(open).collect()
    }
}

/// A disk in memory, filled once, that is reopened for every rung.
///
/// # Errors
/// No memory, or a size of 0.
pub fn ram_disk(size: u64, number: usize) -> Result<OpenDisk, DmError> {
    let memory =
        Memory::new(size).map_err(|error| DmError::Open(format!("no memory for a disk: {error}")))?;
    let open: OpenDisk = Box::new(move |settings, elevator| {
        let channels = memory.clone();
        let depth = settings.queue.depth;
        let channel = move |_| Ok(Box::new(channels.channel(depth)) as Box<dyn Driver>);
        let disk = FnDisk::new("ram", memory.geometry(), channel).with_driver_name("ram");
        Ok(Device::from_disk(disk, settings, elevator)?)
    });
    let device = open(DiskSettings::default(), None)?;
    let mut contents = vec![0; FILL.min(size) as usize];
    for at in (0..size).step_by(contents.len().max(1)) {
        let part = &mut contents[..FILL.min(size - at) as usize];
        Pattern::new(SEED, number as u64).fill(at, part);
        device.write_at(part, at)?;
    }
    Ok(open)
}
