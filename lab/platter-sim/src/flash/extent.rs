//! Which units of the translation layer a command touches.

use super::params::UNIT;
use crate::model::Command;

/// The units that a command touches.
pub(super) fn all_units(command: Command) -> std::ops::RangeInclusive<u32> {
    let last = command.sector + u64::from(command.sectors.max(1)) - 1;
    (command.sector * 512 / UNIT) as u32..=(last * 512 / UNIT) as u32
}

/// The units that a command covers completely: first, and the one after the last.
pub(super) fn whole_units(command: Command) -> (u32, u32) {
    let end = (command.sector + u64::from(command.sectors)) * 512;
    ((command.sector * 512).div_ceil(UNIT) as u32, (end / UNIT) as u32)
}

/// The first and the last unit, if the command covers them only in part.
pub(super) fn edges(command: Command) -> [Option<u32>; 2] {
    let (first, last) = (*all_units(command).start(), *all_units(command).end());
    let part = |unit: u32| Some(unit).filter(|&unit| u64::from(overlap(command, unit)) < UNIT);
    [part(first), part(last).filter(|_| last != first)]
}

/// Bytes of a unit that a command covers.
pub(super) fn overlap(command: Command, unit: u32) -> u32 {
    let (start, end) = (command.sector * 512, (command.sector + u64::from(command.sectors)) * 512);
    let from = start.max(u64::from(unit) * UNIT);
    let to = end.min((u64::from(unit) + 1) * UNIT);
    to.saturating_sub(from) as u32
}
