//! Erases what a device has of arrays of other kinds, so that it is not a member of two.

use super::RaidError;
use platter_disk::device::Device;
use platter_md::superblock::{self, Place, SUPERBLOCK_BYTES};
use platter_stack::raid1;

/// Erases superblocks of Linux' md, of every version and in whatever state. Returns whether there was any.
pub(super) fn erase_md(device: &Device) -> Result<bool, RaidError> {
    let places = Place::ALL.into_iter().filter_map(|place| place.offset(device.size()));
    let places = places.chain(superblock::old_offset(device.size()));
    erase(device, places, SUPERBLOCK_BYTES, superblock::is_superblock)
}

/// Erases the records of a mirror. Returns whether there was any.
pub(super) fn erase_mirror(device: &Device) -> Result<bool, RaidError> {
    erase(device, raid1::RECORDS.into_iter(), raid1::RECORD_BYTES, raid1::is_record)
}

/// Whether a device has records of a mirror.
pub(super) fn has_mirror(device: &Device) -> Result<bool, RaidError> {
    let mut bytes = [0; raid1::RECORD_BYTES];
    for at in raid1::RECORDS {
        if at + bytes.len() as u64 <= device.size() {
            device.read_at(&mut bytes, at)?;
            if raid1::is_record(&bytes) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn erase(
    device: &Device,
    places: impl Iterator<Item = u64>,
    len: usize,
    is_one: fn(&[u8]) -> bool,
) -> Result<bool, RaidError> {
    let (mut bytes, mut any) = (vec![0; len], false);
    for at in places.filter(|at| at + len as u64 <= device.size()) {
        device.read_at(&mut bytes, at)?;
        if is_one(&bytes) {
            device.write_at(&vec![0; len], at)?;
            any = true;
        }
    }
    if any {
        device.flush()?;
    }
    Ok(any)
}
