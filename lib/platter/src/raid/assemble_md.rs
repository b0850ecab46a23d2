//! Opens arrays of Linux' md.

use super::{Held, RaidError, examine};
use platter_disk::device::Device;
use platter_md::assembly::{self, Array, Candidate, Options};
use std::sync::Arc;

/// Opens an array of Linux' md without the kernel's driver, to read: complete or degraded, its members in any order. Nothing
/// is written to them.
///
/// # Errors
/// Everything that speaks against it, by device; a device that fails.
pub fn assemble_md(devices: &[Device], options: &Options) -> Result<Device, RaidError> {
    let array = assemble_array(devices, options)?;
    let backends: Vec<_> = devices.iter().map(|device| Arc::clone(device.backend())).collect();
    Ok(Device::new(platter_stack::md::new(&array, &backends)?))
}

/// Which of the devices form an array.
///
/// # Errors
/// See [`assemble_md`].
pub fn assemble_array(devices: &[Device], options: &Options) -> Result<Array, RaidError> {
    let candidates = devices.iter().map(candidate).collect::<Result<Vec<_>, _>>()?;
    assembly::assemble(&candidates, options).map_err(|refusal| RaidError::Refused(refusal.to_string()))
}

fn candidate(device: &Device) -> Result<Candidate, RaidError> {
    let name = device.name().to_string();
    let refuse = |why: String| Err(RaidError::Refused(why));
    let member = match examine(device)? {
        Held::Md(member) => member,
        Held::DamagedMd(place, what) => {
            return refuse(format!("the superblock {} on {name} cannot be used: {what}", place.version()));
        }
        Held::Foreign(what) => {
            return refuse(format!("{name} has {what}; have the kernel's md assemble it (mdadm --assemble)"));
        }
        Held::Mirror => {
            return refuse(format!(
                "{name} is a member of a mirror of Platter; open it with raid1(DEVICE, ...)"
            ));
        }
        Held::Platter(_) => {
            return refuse(format!("{name} is a member of an array of Platter's: open it with raid(…)"));
        }
        Held::Nothing => {
            return refuse(format!("{name} has no superblock of md (1.0, 1.1 and 1.2 are known)"));
        }
    };
    member.candidate(name, device.size()).map_err(RaidError::Refused)
}
