//! Makes new mirrors.

use super::bits::Bits;
use super::format::{DATA_OFFSET, MAX_MEMBERS, Place, Role, Saved, chunk_for};
use super::open::{Settings, check, mirror};
use super::record::Records;
use super::{Mirror, explain, refuse, unfit};
use crate::LayerError;
use crate::array_metadata::Uuid;
use crate::kit::{Below, Frame};
use platter_block::backend::Backend;
use platter_block::fault::Status;
use std::sync::Arc;

/// A mirror to be made.
#[derive(Clone, Debug)]
pub struct NewMirror {
    /// Its number.
    pub array: Uuid,
    /// Its name, at most 64 bytes; may be empty.
    pub name: String,
    /// The numbers of its members, one for each device.
    pub members: Vec<Uuid>,
    /// Bytes for each write-intent bit, a power of two from 4096; `None`: chosen by the size. A record has room for 24,576 bits: an
    /// array that needs more gets a larger chunk.
    pub chunk: Option<u64>,
    /// Write-intent bits. Without them one bit stands for the whole array: after a power cut all of it is copied.
    pub bitmap: bool,
    /// The members are the same already, so nothing is copied at first. If they are not, what was never written may differ from
    /// read to read.
    pub is_clean: bool,
    /// A device may be a member of a mirror already, which is then destroyed.
    pub force: bool,
}

/// Makes a mirror of devices. Their contents are lost, where the mirror has its data and records.
///
/// # Errors
/// Devices that overlap, are too small, are open to read only or are members of a mirror; an I/O error.
pub fn create(devices: &[Arc<dyn Backend>], new: &NewMirror) -> Result<(), LayerError> {
    let stacked = check(devices)?;
    let refuse = |why: &str| Err(unfit(devices, why));
    if devices.len() > MAX_MEMBERS || devices.len() != new.members.len() {
        return refuse("a mirror has up to 16 members, each with a number");
    }
    if stacked.features.read_only {
        return refuse("a device is open to read only");
    }
    if new.name.len() > 64 || new.name.contains(platter_block::text::is_unsafe) {
        return refuse("the name has more than 64 bytes, or control characters");
    }
    if new.chunk.is_some_and(|chunk| !chunk.is_power_of_two() || chunk < 4096) {
        return refuse("the chunk is not a power of two from 4096");
    }
    let smallest = devices.iter().map(|device| device.geometry().size).min().unwrap_or(0);
    let size = smallest.saturating_sub(DATA_OFFSET) / 4096 * 4096;
    if size == 0 {
        let least = DATA_OFFSET + 4096;
        return Err(unfit(devices, format!("a device has {smallest} bytes; it must have at least {least}")));
    }
    let chunk = if new.bitmap { chunk_for(size, new.chunk) } else { size.next_power_of_two() };
    let mut bits = Bits::new(size.div_ceil(chunk));
    if !new.is_clean {
        bits.fill_from(0);
    }
    let saved = Saved {
        array: new.array,
        name: new.name.clone(),
        size,
        offset: DATA_OFFSET,
        chunk,
        events: 1,
        cleared: 1,
        is_clean: new.is_clean,
        places: new.members.iter().map(|&member| Place { member, role: Role::InSync }).collect(),
        bits,
    };
    let below = Below::default();
    let layer = mirror(devices, &below, Settings::default(), false);
    let frame = Frame::new(devices.to_vec(), 1, below, Arc::clone(&layer))?;
    let (work, force) = (Arc::clone(&layer), new.force);
    frame
        .block_on(async move { write(&work, Arc::new(saved), force).await })
        .map_err(|fault| explain(&layer, fault))
}

/// Writes the records: both copies of each, so that no older one is left.
async fn write(mirror: &Arc<Mirror>, saved: Arc<Saved>, force: bool) -> Status {
    for device in 0..mirror.devices.len() {
        let old = mirror.records.load(&mirror.below, device).await?;
        if let Some(old) = old.filter(|_| !force) {
            let (name, array) = (mirror.devices[device].name(), old.saved.array);
            return Err(refuse(mirror, format!("{name} is a member of the mirror {array}")));
        }
    }
    for device in 0..mirror.devices.len() {
        for _ in 0..2 {
            mirror.records.save(&mirror.below, device, &saved, device).await?;
        }
    }
    Ok(())
}
