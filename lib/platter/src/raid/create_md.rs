//! Making arrays of Linux' md.

use super::erase::{erase_md, erase_mirror};
use super::{RaidError, carry_out, create, read_slots};
use platter_disk::device::Device;
use platter_md::Uuid;
use platter_md::create::{NewArray, NewDevice, Plan, plan};
use platter_md::superblock::{Level, Name, Place, SUPERBLOCK_BYTES, Time};
use platter_stack::array_metadata::wipe_plan;
use std::time::SystemTime;

/// An array of md to be made.
#[derive(Clone, Debug)]
pub struct MdArray {
    /// Where the superblocks lie.
    pub place: Place,
    /// The level.
    pub level: Level,
    /// The layout, as [`platter_md::layouts::parse`] reads it; `None` for the usual one.
    pub layout: Option<String>,
    /// Bytes of a chunk; `None` for the usual one.
    pub chunk: Option<u64>,
    /// Its name, at most 32 bytes; empty for one from its number.
    pub name: String,
    /// Whether it gets a bitmap.
    pub has_bitmap: bool,
    /// Whether what is on the devices is taken to be in sync.
    pub is_clean: bool,
}

/// An array of md that was made.
#[derive(Clone, Debug)]
pub struct CreatedMd {
    /// Its number.
    pub uuid: Uuid,
    /// Its name.
    pub name: Name,
    /// What was planned, and written.
    pub plan: Plan,
}

/// Creates an array of Linux' md of these members, in this order, and spares. Everything is checked before the first write. What was
/// on the devices of arrays is erased first, then bitmaps and lists of bad blocks are written, and superblocks last; each step is durable before
/// the next. If the write of a superblock fails, those that were written are erased. After a crash the superblocks of some members may be missing.
///
/// The contents of the devices are left as they are elsewhere; whether they may be overwritten is decided when they are opened.
///
/// # Errors
/// What is impossible, with what is possible; a device that fails.
pub fn create_md(members: &[Device], spares: &[Device], array: &MdArray) -> Result<CreatedMd, RaidError> {
    let devices: Vec<Device> = members.iter().chain(spares).cloned().collect();
    let new = new_array(members, spares, array)?;
    let plan = plan(&new).map_err(|why| explain(why, &new, &devices))?;
    for device in &devices {
        erase(device)?;
    }
    flush(&devices)?;
    for (device, planned) in devices.iter().zip(&plan.devices) {
        for (at, bytes) in &planned.beside {
            device.write_at(bytes, *at)?;
        }
    }
    flush(&devices)?;
    if let Err(error) = write_superblocks(&devices, &plan) {
        for (device, planned) in devices.iter().zip(&plan.devices) {
            // The first error is the one that is told.
            let _ = device.write_at(&[0; SUPERBLOCK_BYTES], planned.superblock.position());
            let _ = device.flush();
        }
        return Err(error);
    }
    Ok(CreatedMd { uuid: new.array, name: new.name, plan })
}

fn write_superblocks(devices: &[Device], plan: &Plan) -> Result<(), RaidError> {
    for (device, planned) in devices.iter().zip(&plan.devices) {
        device.write_at(&planned.superblock.encode(), planned.superblock.position())?;
    }
    flush(devices)
}

fn flush(devices: &[Device]) -> Result<(), RaidError> {
    devices.iter().try_for_each(|device| Ok(device.flush()?))
}

fn new_array(members: &[Device], spares: &[Device], array: &MdArray) -> Result<NewArray, RaidError> {
    let all = || members.iter().chain(spares);
    if let Some(device) = all().find(|device| device.geometry().features.read_only) {
        return Err(RaidError::Refused(format!("{} is open to read only", device.name())));
    }
    let block = all().map(|device| device.geometry().limits.logical_block).max().unwrap_or(512);
    if let Some(device) =
        all().find(|device| device.geometry().limits.logical_block > SUPERBLOCK_BYTES as u32)
    {
        return Err(RaidError::Refused(format!(
            "{} has logical blocks of {block} bytes; superblocks of md lie at multiples of {SUPERBLOCK_BYTES}",
            device.name()
        )));
    }
    let uuid = || create::new_uuid().map(|uuid| Uuid(uuid.0));
    let device = |device: &Device| Ok(NewDevice { size: device.size(), uuid: uuid()? });
    let layout = match &array.layout {
        Some(text) => Some(platter_md::layouts::parse(array.level, text).map_err(RaidError::Argument)?),
        None => None,
    };
    let number = uuid()?;
    let name = match array.name.is_empty() {
        true => format!("array-{}", &number.to_string()[..8]),
        false => array.name.clone(),
    };
    if name.contains(platter_block::text::is_unsafe) {
        return Err(RaidError::Argument(format!("the name {name:?} has control characters")));
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Ok(NewArray {
        place: array.place,
        level: array.level,
        layout,
        chunk: array.chunk,
        name: Name::new(&name).map_err(RaidError::Argument)?,
        array: number,
        members: members.iter().map(device).collect::<Result<_, RaidError>>()?,
        spares: spares.iter().map(device).collect::<Result<_, RaidError>>()?,
        has_bitmap: array.has_bitmap,
        is_clean: array.is_clean,
        created: Time { s: now.as_secs(), us: now.subsec_micros() },
        block,
    })
}

/// Why an array cannot be made, with the names of the devices. What is wrong with any devices is wrong in itself.
fn explain(why: String, new: &NewArray, devices: &[Device]) -> RaidError {
    let large = |device: &NewDevice| NewDevice { size: 1 << 40, ..device.clone() };
    let with_any = NewArray {
        members: new.members.iter().map(large).collect(),
        spares: new.spares.iter().map(large).collect(),
        block: 512,
        ..new.clone()
    };
    if plan(&with_any).is_err() {
        return RaidError::Argument(why);
    }
    let named = devices.iter().enumerate().find_map(|(at, device)| {
        let rest = why.strip_prefix(&format!("device {at}"))?;
        rest.starts_with([' ', ',']).then(|| format!("{}{rest}", device.name()))
    });
    RaidError::Refused(named.unwrap_or(why))
}

/// Erases what a device has of other arrays, so that it is not a member of two.
fn erase(device: &Device) -> Result<(), RaidError> {
    let slots = read_slots(device)?;
    if slots.newest().is_some() || slots.damage().is_some() {
        carry_out(std::slice::from_ref(device), &wipe_plan(&[slots]))?;
    }
    erase_mirror(device)?;
    erase_md(device)?;
    Ok(())
}
