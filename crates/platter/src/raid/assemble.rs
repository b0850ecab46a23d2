//! Opens arrays by the records of their members.

use super::{Held, RaidError, carry_out, examine, read_slots};
use platter_block::backend::Backend;
use platter_disk::device::Device;
use platter_stack::LayerError;
use platter_stack::array_metadata::md::{Level, Superblock, Zones};
use platter_stack::array_metadata::{self, Candidate, Layout, Problem, Select, Slots};
use platter_stack::partition;
use std::sync::Arc;

/// Opens the array that `select` means among `candidates`, which may be in any order. With `write` its
/// members are marked as having been there, so that a copy from before is known as stale.
///
/// # Errors
/// Everything that speaks against it, by device; a device that fails.
pub fn assemble(select: &Select, candidates: &[Device], write: bool) -> Result<Device, RaidError> {
    let mut described = Vec::with_capacity(candidates.len());
    for device in candidates {
        let (name, size) = (device.name().to_string(), device.size());
        described.push(Candidate { name, size, slots: read_slots(device)? });
    }
    let array = match array_metadata::assemble(select, &described) {
        Ok(array) => array,
        Err(problems) => return Err(name_md(problems, candidates)),
    };
    let members: Vec<&Device> = array.members.iter().map(|(at, _)| &candidates[*at]).collect();
    if write {
        let slots: Vec<Slots> = array.members.iter().map(|(at, _)| described[*at].slots.clone()).collect();
        let records: Vec<_> = array.members.iter().map(|(_, record)| record.clone()).collect();
        let devices: Vec<Device> = members.iter().map(|&device| device.clone()).collect();
        let steps = array_metadata::commit_plan(&records, &slots).map_err(RaidError::Refused)?;
        carry_out(&devices, &steps)?;
    }
    let parts = array
        .members
        .iter()
        .zip(&members)
        .map(|((_, record), device)| part(device, record.data_offset, record.data_size));
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    let Some((_, first)) = array.members.first() else {
        return Err(RaidError::Refused("an array needs a device".to_owned()));
    };
    match first.layout {
        Layout::Raid0 => layer("raid0", &[("chunk", first.chunk)], parts),
        Layout::Concat => layer("concat", &[], parts),
    }
}

/// The problems of an array; members of md arrays are named as such.
fn name_md(problems: Vec<Problem>, candidates: &[Device]) -> RaidError {
    let is_md = |name: &str| {
        let device = candidates.iter().find(|device| *device.name() == *name);
        device.is_some_and(|device| matches!(examine(device), Ok(Held::Md(_) | Held::DamagedMd(..))))
    };
    let of_md = problems.iter().filter_map(|problem| match problem {
        Problem::NoRecord(name) if is_md(name) => Some(name.clone()),
        _ => None,
    });
    let of_md: Vec<String> = of_md.collect();
    if of_md.is_empty() {
        return RaidError::Members(problems);
    }
    let verb = if of_md.len() == 1 { "is a member" } else { "are members" };
    let names = of_md.join(", ");
    RaidError::Refused(format!("{names} {verb} of an array of Linux' md: open it with md({names}), to read"))
}

fn part(device: &Device, offset: u64, size: u64) -> Result<Arc<dyn Backend>, LayerError> {
    partition::new(Arc::clone(device.backend()), offset, Some(size))
}

fn layer(name: &str, values: &[(&str, u64)], parts: Vec<Arc<dyn Backend>>) -> Result<Device, RaidError> {
    let Some(row) = platter_stack::by_name(name) else {
        return Err(RaidError::Refused(format!("there is no layer {name}")));
    };
    let values: Vec<(&str, i64)> =
        values.iter().map(|&(name, value)| (name, i64::try_from(value).unwrap_or(i64::MAX))).collect();
    Ok(Device::new(row.make(&values, parts)?))
}

/// Opens an array of Linux' md (raid0 or linear, superblock 1.0, 1.1 or 1.2) without the kernel's driver.
/// Its superblocks are not changed.
///
/// # Errors
/// Everything that speaks against it, by device; a device that fails.
pub fn assemble_md(candidates: &[Device]) -> Result<Device, RaidError> {
    let mut members: Vec<(Superblock, &Device)> = Vec::with_capacity(candidates.len());
    for device in candidates {
        members.push((superblock_of(device)?, device));
    }
    members.sort_by_key(|(superblock, _)| superblock.index);
    check_md(&members)?;
    let Some((first, _)) = members.first() else {
        return Err(RaidError::Refused("an array needs a device".to_owned()));
    };
    let unit = if first.chunk == 0 { 512 } else { first.chunk };
    let parts = members
        .iter()
        .map(|(superblock, device)| part(device, superblock.data_offset, superblock.data_size / unit * unit));
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    match first.level {
        Level::Linear => layer("concat", &[], parts),
        _ => layer(
            "raid0",
            &[("chunk", first.chunk), ("sizes", if first.zones == Zones::Original { 2 } else { 0 })],
            parts,
        ),
    }
}

fn superblock_of(device: &Device) -> Result<Superblock, RaidError> {
    let name = device.name();
    let refuse = |why: String| Err(RaidError::Refused(why));
    let superblock = match examine(device)? {
        Held::Md(superblock) => superblock,
        Held::DamagedMd(place, what) => {
            let version = place.version();
            return refuse(format!("the superblock {version} on {name} is damaged: {what}"));
        }
        Held::Platter(_) => {
            return refuse(format!("{name} is a member of an array of Platter's: open it with raid(…)"));
        }
        Held::Nothing => {
            return refuse(format!("{name} has no superblock of md (1.0, 1.1 and 1.2 are known)"));
        }
    };
    if let Level::Other(_) = superblock.level {
        let level = superblock.level;
        return refuse(format!("{name} is a member of a {level}; raid0 and linear can be opened"));
    }
    if superblock.unknown_features != 0 {
        let needs = superblock.needs();
        return refuse(format!(
            "{name}: its array needs what is not supported here: {needs}; use the kernel's md"
        ));
    }
    if superblock.index.is_none() {
        return refuse(format!("{name} is a spare or failed member"));
    }
    if superblock.data_offset.saturating_add(superblock.data_size) > device.size() {
        let needed = superblock.data_offset.saturating_add(superblock.data_size);
        return refuse(format!("{name} has {} bytes, and the array needs {needed} of it", device.size()));
    }
    Ok(superblock)
}

fn check_md(members: &[(Superblock, &Device)]) -> Result<(), RaidError> {
    let refuse = |why: String| Err(RaidError::Refused(why));
    let Some((first, first_device)) = members.first() else { return Ok(()) };
    for (superblock, device) in members {
        let (name, other) = (device.name(), first_device.name());
        if superblock.array != first.array {
            return refuse(format!("{name} and {other} are members of different arrays"));
        }
        if superblock.events != first.events {
            return refuse(format!(
                "{name} has seen {} events and {other} {}: one of them is an old copy",
                superblock.events, first.events
            ));
        }
        if (superblock.level, superblock.chunk, superblock.members)
            != (first.level, first.chunk, first.members)
        {
            return refuse(format!("{name} and {other} disagree about their array"));
        }
    }
    for pair in members.windows(2) {
        if pair[0].0.index == pair[1].0.index {
            let (a, b) = (pair[0].1.name(), pair[1].1.name());
            return refuse(format!("{a} and {b} are the same member: one is a copy of the other"));
        }
    }
    if members.len() < first.members as usize {
        let is_there = |index: &u32| members.iter().any(|(superblock, _)| superblock.index == Some(*index));
        let missing: Vec<String> =
            (0..first.members).filter(|index| !is_there(index)).map(|index| index.to_string()).collect();
        // A superblock of md has the number of its own member only.
        return refuse(format!(
            "the array \"{}\" ({}) has {} members, and these are missing: {}",
            first.name,
            first.array,
            first.members,
            missing.join(", ")
        ));
    }
    let sizes_differ = members.iter().any(|(superblock, _)| superblock.data_size != first.data_size);
    if first.level == Level::Raid0 && sizes_differ && first.zones == Zones::Unsaid {
        return refuse(
            "the superblock does not say by which rule its unequal members are striped; let the kernel \
             assemble it once with raid0.default_layout set"
                .to_owned(),
        );
    }
    Ok(())
}
