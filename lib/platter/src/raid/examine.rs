//! The array metadata on a device.

use super::erase::has_mirror;
use super::{MdMember, RaidError, md};
use platter_disk::device::Device;
use platter_md::superblock::Place;
use platter_stack::array_metadata::{RECORD_BYTES, SLOTS, Slots};

/// The array metadata on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// Nothing.
    Nothing,
    /// Records of a Platter array, or their remains.
    Platter(Slots),
    /// Records of a mirror, which `raid1(…)` opens.
    Mirror,
    /// A superblock of Linux' md.
    Md(MdMember),
    /// A superblock of Linux' md that is damaged or in the wrong place: where, and how.
    DamagedMd(Place, String),
    /// Metadata of an array that cannot be read here: which.
    Foreign(&'static str),
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

/// Reads the array metadata of a device.
///
/// # Errors
/// The device fails.
pub fn examine(device: &Device) -> Result<Held, RaidError> {
    let slots = read_slots(device)?;
    if slots.newest().is_some() || slots.damage().is_some() {
        return Ok(Held::Platter(slots));
    }
    if has_mirror(device)? {
        return Ok(Held::Mirror);
    }
    Ok(match md::read(device)? {
        md::Found::Nothing => Held::Nothing,
        md::Found::Member(member) => Held::Md(*member),
        md::Found::Damaged(place, what) => Held::DamagedMd(place, what),
        md::Found::Foreign(what) => Held::Foreign(what),
    })
}
