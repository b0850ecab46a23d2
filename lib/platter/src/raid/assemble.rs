//! Opens arrays by the records of their members.

use super::{Held, RaidError, carry_out, examine, read_slots};
use platter_block::backend::Backend;
use platter_disk::device::Device;
use platter_stack::LayerError;
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
