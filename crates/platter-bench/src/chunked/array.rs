//! The devices that the processes of a cell work on.

use super::serial::serial;
use super::{Cell, ChunkedError, Personality};
use crate::report::units;
use platter_block::backend::Backend;
use platter_disk::device::Device;
use platter_stack::LayerError;
use platter_stack::raid0::{self, Sizes};
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

fn array(cell: &Cell, stripe: u64, disks: &[Device]) -> Result<Device, ChunkedError> {
    let member = |disk: &Device| -> Arc<dyn Backend> {
        let backend = Arc::clone(disk.backend());
        if cell.personality == Personality::CsraidPosix { serial(backend) } else { backend }
    };
    let array = raid0::new(disks.iter().map(member).collect(), stripe, Sizes::Truncate);
    array.map(Device::new).map_err(|error| match error {
        LayerError::Unfit(_) => ChunkedError::Unfit(error.to_string()),
        LayerError::Device(error) => ChunkedError::Device(error),
        error => ChunkedError::Option(error.to_string()),
    })
}
