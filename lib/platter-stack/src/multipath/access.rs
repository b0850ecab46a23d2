//! Asymmetric access (ALUA; SPC-4, 5.15): what the target says of the ports by which the paths reach it.

use super::identity::{IDENTIFICATION, ROOM, TRIES, ask, descriptors, question, room};
use crate::kit::{Below, Buffer};
use platter_block::backend::Backend;
use std::sync::Arc;

/// How well a path reaches the unit; the better ones come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Access {
    /// Active/optimized, and every path of a target that does not tell.
    #[default]
    Optimized,
    /// Active/non-optimized.
    NonOptimized,
    /// The state changes.
    Transitioning,
    /// Standby, unavailable or offline: the unit cannot be reached.
    Unreachable,
}

impl Access {
    fn of(code: u8) -> Access {
        match code & 0xf {
            0 => Access::Optimized,
            // Logical block dependent: some blocks are reached as well as by an optimized one.
            1 | 4 => Access::NonOptimized,
            0xf => Access::Transitioning,
            _ => Access::Unreachable,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Access::Optimized => "optimized",
            Access::NonOptimized => "non-optimized",
            Access::Transitioning => "transitioning",
            Access::Unreachable => "unreachable",
        }
    }
}

/// REPORT TARGET PORT GROUPS.
const GROUPS: [u8; 12] = {
    let [_, _, high, low] = (ROOM as u32).to_be_bytes();
    [0xa3, 0x0a, 0, 0, 0, 0, 0, 0, high, low, 0, 0]
};

/// The target port group of a path and its access, if the target tells (VPD page 83h: association 1, type 5h).
pub(super) fn of_path(path: &Arc<dyn Backend>) -> Option<(u16, Access)> {
    let page = ask(path, &IDENTIFICATION).ok().flatten()?;
    let group = descriptors(page.bytes()).find_map(|descriptor| match descriptor {
        (1, 5, &[_, _, high, low]) => Some(u16::from_be_bytes([high, low])),
        _ => None,
    })?;
    let groups = ask(path, &GROUPS).ok().flatten()?;
    find(groups.bytes(), group).map(|access| (group, access))
}

/// Asks for the access of a group through a path. `None`: the path or the target does not tell.
pub(super) async fn of_group(below: &Below, path: usize, group: u16, block: u32) -> Option<Access> {
    for _ in 0..TRIES {
        let command = Arc::new(question(&GROUPS)?);
        let answer = below.command(path, Arc::clone(&command), Buffer::new(room(block))).await;
        if command.outcome()?.is_good() {
            return find(answer.ok()?.bytes(), group);
        }
    }
    None
}

/// The access of a group in the data of REPORT TARGET PORT GROUPS.
fn find(data: &[u8], group: u16) -> Option<Access> {
    let length = u32::from_be_bytes(data.get(..4)?.try_into().ok()?) as usize;
    let mut rest = data.get(4..data.len().min(4 + length))?;
    while let Some(&[state, _, high, low, _, _, _, ports]) = rest.get(..8) {
        if u16::from_be_bytes([high, low]) == group {
            return Some(Access::of(state));
        }
        rest = rest.get(8 + 4 * usize::from(ports)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_behind_others() {
        let data = [
            0, 0, 0, 32, 0x80, 0xf, 0, 1, 0, 2, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0x02, 0xf, 1, 2, 0, 2, 0, 1, 0,
            0, 0, 3, 0xff, 0xff, 0xff, 0xff, 0, 1, 0, 0,
        ];
        assert_eq!(find(&data, 1), Some(Access::Optimized), "preferred");
        assert_eq!(find(&data, 0x102), Some(Access::Unreachable));
        assert_eq!(find(&data, 0xffff), None, "behind the end");
        for len in 0..data.len() {
            find(&data[..len], 0xffff);
        }
        for (code, access) in
            [(1, Access::NonOptimized), (4, Access::NonOptimized), (0xe, Access::Unreachable)]
        {
            assert_eq!(Access::of(code), access);
        }
        assert!(Access::of(0xf) > Access::NonOptimized && Access::of(0xf) < Access::of(2));
    }
}
