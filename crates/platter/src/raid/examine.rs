//! The array metadata on a device.

use super::RaidError;
use platter_disk::device::Device;
use platter_stack::array_metadata::md::{self, NoSuperblock, Place, SUPERBLOCK_BYTES, Superblock};
use platter_stack::array_metadata::{RECORD_BYTES, SLOTS, Slots};

/// The array metadata on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// Nothing.
    Nothing,
    /// Records of a Platter array, or their remains.
    Platter(Slots),
    /// A superblock of Linux' md.
    Md(Superblock),
    /// A superblock of Linux' md that is damaged: where, and how.
    DamagedMd(Place, String),
}

/// Reads the records of a device; a device without room for them holds none.
///
/// # Errors
/// The device fails.
pub fn read_slots(device: &Device) -> Result<Slots, RaidError> {
    let mut slots = [vec![0; RECORD_BYTES], vec![0; RECORD_BYTES]];
    for (slot, at) in slots.iter_mut().zip(SLOTS) {
        if at + RECORD_BYTES as u64 <= device.size() {
            device.read_at(slot, at)?;
        }
    }
    Ok(Slots::decode([&slots[0], &slots[1]]))
}

/// Looks for Linux' superblock in all places it may be at.
fn read_md(device: &Device) -> Result<Held, RaidError> {
    let mut found = Held::Nothing;
    for place in Place::ALL {
        let Some(at) = place.offset(device.size()) else { continue };
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        device.read_at(&mut bytes, at)?;
        match md::parse(place, &bytes) {
            Ok(superblock) => return Ok(Held::Md(superblock)),
            Err(NoSuperblock::Damaged(what)) if found == Held::Nothing => {
                found = Held::DamagedMd(place, what);
            }
            Err(_) => {}
        }
    }
    Ok(found)
}

/// Reads the array metadata of a device.
///
/// # Errors
/// The device fails.
pub fn examine(device: &Device) -> Result<Held, RaidError> {
    let slots = read_slots(device)?;
    if slots.newest().is_some() || slots.damage().is_some() {
        return Ok(Held::Platter(slots));
    }
    read_md(device)
}
