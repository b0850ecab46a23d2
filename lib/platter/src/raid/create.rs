//! Making arrays and removing them.

use super::erase::{erase_md, erase_mirror, has_mirror};
use super::{RaidError, carry_out, read_slots};
use crate::spec::format_size;
use platter_block::text::is_unsafe;
use platter_disk::device::Device;
use platter_stack::array_metadata::{Layout, NewArray, Slots, Uuid, create_plan, wipe_plan};
use platter_stack::raid1::{self, NewMirror};
use std::sync::Arc;

/// Largest chunk.
const MAX_CHUNK: u64 = 1 << 30;

/// An array to be made.
#[derive(Clone, Debug)]
pub struct Array {
    /// Its name, at most 64 bytes; empty for [`default_name`].
    pub name: String,
    /// The layout of the data on the members.
    pub layout: Layout,
    /// Bytes on one member before the next: a power of two, at least a logical block. Not used by
    /// [`Layout::Concat`].
    pub chunk: u64,
}

impl Default for Array {
    fn default() -> Array {
        Array { name: String::new(), layout: Layout::Raid0, chunk: 64 << 10 }
    }
}

/// 16 random bytes in the form of RFC 9562, version 4.
pub(super) fn new_uuid() -> Result<Uuid, RaidError> {
    let mut bytes = [0u8; 16];
    // Up to 256 bytes come whole: getrandom(2).
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())
        .map_err(|error| RaidError::Refused(format!("the system gives no random numbers: {error}")))?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(Uuid(bytes))
}

/// The name of an array that was given none: `array-` and the first eight digits of its number.
pub fn default_name(array: Uuid) -> String {
    format!("array-{}", &array.to_string()[..8])
}

fn check(devices: &[Device], array: &Array) -> Result<(), RaidError> {
    let refuse = |why: String| Err(RaidError::Refused(why));
    if devices.is_empty() {
        return Err(RaidError::Argument("an array needs a device".to_owned()));
    }
    if array.name.len() > 64 {
        let (name, bytes) = (&array.name, array.name.len());
        return Err(RaidError::Argument(format!("the name \"{name}\" has {bytes} bytes; 64 are possible")));
    }
    if array.name.contains(is_unsafe) {
        return Err(RaidError::Argument(format!("the name {:?} has control characters", array.name)));
    }
    if let Some(device) = devices.iter().find(|device| device.geometry().features.read_only) {
        return refuse(format!("{} is open to read only", device.name()));
    }
    let blocks = devices.iter().map(|device| u64::from(device.geometry().limits.logical_block));
    let block = blocks.max().unwrap_or(512);
    let chunk = array.chunk;
    if array.layout == Layout::Raid0 && (!chunk.is_power_of_two() || !(block..=MAX_CHUNK).contains(&chunk)) {
        let said = format!(
            "chunk={} is out of range: powers of two from {block} (the largest logical block of the members) \
             to {}",
            format_size(chunk),
            format_size(MAX_CHUNK)
        );
        // A chunk of at least a sector can be wrong only for these devices.
        let possible = chunk.is_power_of_two() && (512..=MAX_CHUNK).contains(&chunk);
        return if possible { refuse(said) } else { Err(RaidError::Argument(said)) };
    }
    Ok(())
}

/// Creates an array of devices, in this order. Everything is checked before the first write; a crash leaves
/// no array (or the previous one) or all of the new one. Returns its number. An array without a name gets
/// [`default_name`].
///
/// The contents of the devices are overwritten where the array uses them; whether that is allowed is decided
/// when they are opened.
///
/// # Errors
/// An invalid chunk, name or device; a device that fails.
pub fn create(devices: &[Device], array: &Array) -> Result<Uuid, RaidError> {
    check(devices, array)?;
    let uuid = new_uuid()?;
    let member = |device: &Device| Ok((new_uuid()?, device.size()));
    let members: Result<Vec<(Uuid, u64)>, RaidError> = devices.iter().map(member).collect();
    let chunk = if array.layout == Layout::Raid0 { array.chunk } else { 0 };
    let name = if array.name.is_empty() { default_name(uuid) } else { array.name.clone() };
    let new = NewArray { array: uuid, name, layout: array.layout, chunk, members: members? };
    let slots: Result<Vec<Slots>, RaidError> = devices.iter().map(read_slots).collect();
    let steps = create_plan(&new, &slots?).map_err(RaidError::Refused)?;
    // What the devices have of arrays of other kinds goes first: none of them is a member of two.
    for device in devices {
        erase_md(device)?;
        erase_mirror(device)?;
    }
    carry_out(devices, &steps)?;
    Ok(uuid)
}

/// A mirror to be made.
#[derive(Clone, Debug)]
pub struct Mirror {
    /// Its name, at most 64 bytes; empty for [`default_name`].
    pub name: String,
    /// Bytes for each write-intent bit, a power of two from 4096; `None`: chosen by the size.
    pub chunk: Option<u64>,
    /// Write-intent bits; without them all of the array is copied after a power cut.
    pub bitmap: bool,
    /// The devices hold the same already, so nothing is copied at first.
    pub is_clean: bool,
    /// A device may be a member of a mirror already, which is then destroyed.
    pub force: bool,
}

impl Default for Mirror {
    fn default() -> Mirror {
        Mirror { name: String::new(), chunk: None, bitmap: true, is_clean: false, force: false }
    }
}

/// Creates a mirror of devices, to be opened by `raid1(DEVICE, …)`. When that is opened first, the contents of the first device are
/// copied to the others. Returns its number. See [`create`] for what is overwritten.
///
/// # Errors
/// An invalid chunk, name or device; a device that fails, or is a member of a mirror already.
pub fn create_mirror(devices: &[Device], mirror: &Mirror) -> Result<Uuid, RaidError> {
    let array = new_uuid()?;
    let members: Result<Vec<Uuid>, RaidError> = devices.iter().map(|_| new_uuid()).collect();
    let name = if mirror.name.is_empty() { default_name(array) } else { mirror.name.clone() };
    let new = NewMirror {
        array,
        name,
        members: members?,
        chunk: mirror.chunk,
        bitmap: mirror.bitmap,
        is_clean: mirror.is_clean,
        force: mirror.force,
    };
    let backends: Vec<_> = devices.iter().map(|device| Arc::clone(device.backend())).collect();
    raid1::create(&backends, &new)?;
    // Only now, because devices may have been refused. Records of other arrays of ours were at the same places.
    for device in devices {
        erase_md(device)?;
    }
    Ok(array)
}

/// Removes the records of arrays, and of mirrors, from devices. A crash leaves the array, or remains that are known as such
/// and can be wiped again.
///
/// # Errors
/// A device that holds no record, before anything is written; a device that fails.
pub fn wipe(devices: &[Device]) -> Result<(), RaidError> {
    let (mut slots, mut with_slots) = (Vec::new(), Vec::new());
    for device in devices {
        let held = read_slots(device)?;
        if held.newest().is_some() || held.damage().is_some() {
            slots.push(held);
            with_slots.push(device.clone());
        } else if !has_mirror(device)? {
            return Err(RaidError::Refused(format!(
                "{} holds no records of a Platter array; nothing was written",
                device.name()
            )));
        }
    }
    carry_out(&with_slots, &wipe_plan(&slots))?;
    for device in devices {
        erase_mirror(device)?;
    }
    Ok(())
}
