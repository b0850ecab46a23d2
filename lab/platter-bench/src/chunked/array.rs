//! The devices that the processes of a cell work on.

use super::serial::serial;
use super::{Cell, ChunkedError, Personality};
use crate::report::units;
use platter_aio::disk::AioDisk;
use platter_block::backend::Backend;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_stack::LayerError;
use platter_stack::raid0::{self, Sizes};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

/// The disks themselves, one for each process, or one array of them.
pub(super) fn targets(cell: &Cell, disks: &[Device]) -> Result<Vec<Device>, ChunkedError> {
    let Some(disks) = disks.get(..cell.disks) else {
        let (wanted, given) = (cell.disks, disks.len());
        return Err(ChunkedError::Option(format!(
            "{wanted} disks where {given} are given: give more, or ask for fewer"
        )));
    };
    let targets = match cell.stripe() {
        None => disks.to_vec(),
        Some(stripe) => vec![array(cell, stripe, disks)?],
    };
    for target in &targets {
        let least = cell.chunk().unwrap_or(cell.request);
        if target.size() < least {
            let (name, size, least) = (target.name(), units::bytes(target.size()), units::bytes(least));
            return Err(ChunkedError::Unfit(format!(
                "{name} has {size}, less than a chunk of {least}: ask for smaller chunks and requests, or give larger disks"
            )));
        }
        let block = u64::from(target.geometry().limits.logical_block);
        if !cell.request.is_multiple_of(block) || !cell.stripe().unwrap_or(block).is_multiple_of(block) {
            let name = target.name();
            return Err(ChunkedError::Unfit(format!(
                "{name} has blocks of {block} bytes: requests and stripes must be multiples of that"
            )));
        }
    }
    Ok(targets)
}

/// A disk as the array sees it.
fn member(cell: &Cell, disk: &Device) -> Result<Arc<dyn Backend>, ChunkedError> {
    let backend = Arc::clone(disk.backend());
    Ok(match cell.personality {
        Personality::CsraidPosix => serial(backend),
        Personality::CsraidAio => over_aio(disk)?,
        _ => backend,
    })
}

/// The file or block device of a disk, opened again, with its I/O by POSIX aio.
fn over_aio(disk: &Device) -> Result<Arc<dyn Backend>, ChunkedError> {
    let name = disk.name();
    let is_file =
        std::fs::metadata(&*name).is_ok_and(|found| found.is_file() || found.file_type().is_block_device());
    if !is_file {
        return Err(ChunkedError::Unfit(format!(
            "csraid-aio on {name}: POSIX aio needs a file or block device; give paths with --on"
        )));
    }
    let settings = DiskSettings::default();
    let depth = settings.queue.depth;
    let opened = AioDisk::open(Path::new(&*name), disk.geometry(), depth);
    let opened =
        opened.map_err(|error| ChunkedError::Open(format!("{name} for csraid-aio: {error}").into()))?;
    let device = Device::from_disk(opened, settings, None).map_err(ChunkedError::Device)?;
    Ok(Arc::clone(device.backend()))
}

fn array(cell: &Cell, stripe: u64, disks: &[Device]) -> Result<Device, ChunkedError> {
    let members = disks.iter().map(|disk| member(cell, disk)).collect::<Result<_, _>>()?;
    let array = raid0::new(members, stripe, Sizes::Truncate);
    array.map(Device::new).map_err(|error| match error {
        LayerError::Unfit(_) => ChunkedError::Unfit(error.to_string()),
        LayerError::Device(error) => ChunkedError::Device(error),
        error => ChunkedError::Option(error.to_string()),
    })
}
