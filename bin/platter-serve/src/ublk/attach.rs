//! Making a block device, or taking over the one that a dead server has left.

use super::abi::{ANY, DeviceInfo, Params, SECTOR, feature, state};
use crate::error::ServeError;
use rustix::io::Errno;

/// A command that has no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Shows the block device; the value is the number of this process.
    Start,
    /// Removes the block device; its I/O fails from then on.
    Stop,
    /// Removes the driver's device, after its last user.
    Delete,
    /// Begins to take over.
    StartRecovery,
    /// Lets I/O go on; the value is the number of this process.
    EndRecovery,
    /// Changes the size; the value is the number of sectors.
    UpdateSize,
}

/// The driver's control device.
pub(super) trait Control {
    /// What the driver can do.
    fn features(&mut self) -> Result<u64, Errno>;
    /// Adds a device; the driver may change what it is asked for.
    fn add(&mut self, wanted: &DeviceInfo) -> Result<DeviceInfo, Errno>;
    fn info(&mut self, id: u32) -> Result<DeviceInfo, Errno>;
    fn set_params(&mut self, id: u32, params: &Params) -> Result<(), Errno>;
    fn params(&mut self, id: u32) -> Result<Params, Errno>;
    fn command(&mut self, command: Command, id: u32, value: u64) -> Result<(), Errno>;
}

/// What surrounds the driver.
pub(super) trait Surroundings {
    /// Whether there is a process of this number.
    fn is_alive(&self, pid: i32) -> bool;
    /// Waits for a moment; `false`: for long enough.
    fn pause(&mut self) -> bool;
}

/// What is to be had.
pub(super) struct Wanted {
    pub(super) id: Option<u32>,
    /// Take over also what served another spec.
    pub(super) recover: bool,
    /// Do not ask for user copy.
    pub(super) buffers: bool,
    pub(super) queues: u16,
    pub(super) depth: u16,
    /// Stands for the device that is served.
    pub(super) identity: u64,
    pub(super) params: Params,
}

/// A device of the driver that has no server yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Attached {
    pub(super) info: DeviceInfo,
    /// It had a server before.
    pub(super) recovered: bool,
    /// The device has grown since.
    pub(super) has_grown: bool,
}

/// Marks values of devices of this program: the upper 16 bits.
const MARK: u64 = 0x504c << 48;
const MARK_BITS: u64 = 0xffff << 48;

/// The value that stands for a device, from its name: FNV-1a.
pub(super) fn identity(name: &str) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let hash = name.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step);
    hash & !MARK_BITS | MARK
}

fn system(id: u32, what: &str, error: Errno) -> ServeError {
    let advice = match error {
        Errno::PERM | Errno::ACCESS => "; it needs root (CAP_SYS_ADMIN)",
        Errno::NOTSUP | Errno::INVAL => "; Linux 6.4 or later is needed",
        _ => "",
    };
    let device = if id == ANY { "a ublk device".to_owned() } else { format!("ublk device {id}") };
    ServeError::system(format!("cannot {what} {device}: {error}{advice}"))
}

/// Makes the device, or takes it over.
///
/// # Errors
/// Another server uses it; it served something else; the driver refuses.
pub(super) fn attach(
    control: &mut dyn Control,
    wanted: &Wanted,
    around: &mut dyn Surroundings,
) -> Result<Attached, ServeError> {
    let Some(id) = wanted.id else { return add(control, wanted) };
    loop {
        let info = match control.info(id) {
            Ok(info) => info,
            Err(Errno::NODEV) if wanted.recover => {
                return Err(ServeError::usage(format!("there is no ublk device {id} to recover")));
            }
            Err(Errno::NODEV) => return add(control, wanted),
            Err(error) => return Err(system(id, "ask for", error)),
        };
        let is_ours = info.own & MARK_BITS == MARK;
        match info.state {
            state::QUIESCED if is_ours => return recover(control, wanted, info, around),
            state::LIVE if around.is_alive(info.pid) => {
                let pid = info.pid;
                return Err(ServeError::usage(format!("ublk device {id} is served by process {pid}")));
            }
            // The kernel is still closing what the dead process had.
            state::LIVE if is_ours && around.pause() => {}
            state::DEAD if is_ours && !wanted.recover && !around.is_alive(info.pid) => {
                control
                    .command(Command::Delete, id, 0)
                    .map_err(|error| system(id, "remove the remains of", error))?;
            }
            _ => {
                let whose =
                    if is_ours { "is of a server that is starting or ending" } else { "is not of Platter" };
                let advice = "give another number, or auto";
                return Err(ServeError::usage(format!("ublk device {id} exists and {whose}; {advice}")));
            }
        }
    }
}

fn add(control: &mut dyn Control, wanted: &Wanted) -> Result<Attached, ServeError> {
    // Linux 6.4 does not tell.
    let features = control.features().unwrap_or(feature::USER_RECOVERY | feature::RECOVERY_REISSUE);
    let mut flags =
        feature::USER_RECOVERY | feature::RECOVERY_REISSUE | feature::USER_COPY | feature::UPDATE_SIZE;
    if wanted.buffers {
        flags &= !feature::USER_COPY;
    }
    let info = DeviceInfo {
        queues: wanted.queues,
        depth: wanted.depth,
        max_io_bytes: wanted.params.max_sectors * SECTOR as u32,
        id: wanted.id.unwrap_or(ANY),
        flags: flags & features,
        own: wanted.identity,
        ..DeviceInfo::default()
    };
    let info = control.add(&info).map_err(|error| system(info.id, "add", error))?;
    if let Err(error) = control.set_params(info.id, &wanted.params) {
        // It has never been shown, so nothing is lost.
        let _ = control.command(Command::Delete, info.id, 0);
        return Err(system(info.id, "describe", error));
    }
    Ok(Attached { info, recovered: false, has_grown: false })
}

fn recover(
    control: &mut dyn Control,
    wanted: &Wanted,
    info: DeviceInfo,
    around: &mut dyn Surroundings,
) -> Result<Attached, ServeError> {
    let id = info.id;
    let refuse = |what: String| Err(ServeError::usage(format!("cannot take over /dev/ublkb{id}: {what}")));
    if info.own != wanted.identity && !wanted.recover {
        let how = format!("\"{id},recover\" takes it over all the same, if the data is the same");
        return refuse(format!("it was served from another spec; {how}"));
    }
    let before = control.params(id).map_err(|error| system(id, "ask for the parameters of", error))?;
    let now = &wanted.params;
    if before.sectors > now.sectors {
        let (before, now) = (before.sectors * SECTOR, now.sectors * SECTOR);
        return refuse(format!("it has {before} bytes, and the device only {now}"));
    }
    if before.logical_shift != now.logical_shift {
        let (before, now) = (1u32 << before.logical_shift, 1u32 << now.logical_shift);
        return refuse(format!("its blocks have {before} bytes, and those of the device {now}"));
    }
    let unlike = (before.attributes ^ now.attributes) & now.attributes;
    if unlike != 0 {
        let what = "it was writable or without a volatile cache, and the device is not";
        return refuse(what.to_owned());
    }
    loop {
        match control.command(Command::StartRecovery, id, 0) {
            Ok(()) => {
                let has_grown = now.sectors > before.sectors;
                return Ok(Attached { info, recovered: true, has_grown });
            }
            // The dead process still has it open.
            Err(Errno::BUSY) if around.pause() => {}
            Err(error) => return Err(system(id, "take over", error)),
        }
    }
}

#[cfg(test)]
mod tests;
