//! What a mirror tells operators: its members, whether it is degraded, the copying, and its parameters.

use super::format::Role;
use super::{MAX_MEMBERS, Mirror};
use crate::kit::WorkTable;
use platter_block::params::{Param, Unit};
use platter_block::status::Item;

const DAY_MS: i64 = 86_400_000;

/// The copying to members that lack data, as background work.
pub(super) const COPYING: WorkTable = WorkTable {
    state: "copying",
    done: "copying done",
    total: "copying total",
    failure: "copying failure",
    params: [
        Param::number(
            "rate",
            Unit::Bytes,
            0,
            (0, i64::MAX),
            "most bytes that are copied each second to members that lack data; 0: no limit",
        ),
        Param::number("pause", Unit::Switch, 0, (0, 1), "do not copy to members until this is switched off"),
    ],
};

pub(crate) const PARAMS: &[Param] = &[
    COPYING.params[0],
    COPYING.params[1],
    Param::number(
        "degraded",
        Unit::Switch,
        0,
        (0, 1),
        "open although members are missing that the others do not know as failed: what only those have is lost",
    ),
    Param::number(
        "readd",
        Unit::Switch,
        0,
        (0, 1),
        "bring members that are behind up to date; otherwise they are left as they are",
    ),
    Param::number(
        "tidy_delay",
        Unit::Millis,
        5_000,
        (1, DAY_MS),
        "time after a change before its bit is cleared and the array is marked clean",
    ),
];

/// The devices in the order of the device spec. Names of items have no digits.
const NAMES: [&str; MAX_MEMBERS] = [
    "member a", "member b", "member c", "member d", "member e", "member f", "member g", "member h",
    "member i", "member j", "member k", "member l", "member m", "member n", "member o", "member p",
];

const HELP: &str = "what the device is: in sync, recovering, failed, or no member; and its failures";

/// What one device is.
pub(super) fn member(mirror: &Mirror, device: usize) -> Item {
    let state = mirror.state();
    let member = &state.members[device];
    let mut text = match state.role(device) {
        Role::Vacant => "no member".to_owned(),
        Role::InSync => "in sync".to_owned(),
        Role::Failed(_) if member.why.is_empty() => "failed".to_owned(),
        Role::Failed(_) => format!("failed ({})", member.why),
        Role::Recovering { .. } => format!("recovering, {} bytes are up to date", state.upto(device)),
    };
    if member.failures > 0 || member.repaired > 0 {
        text += &format!("; failures {}, blocks written again {}", member.failures, member.repaired);
    }
    if member.left > 0 {
        text += &format!("; has {} changes that are not waited for", member.left);
    }
    Item::text(NAMES.get(device).copied().unwrap_or("member"), text, HELP)
}

/// Whether the array is complete.
pub(super) fn condition(mirror: &Mirror) -> Item {
    let state = mirror.state();
    let recovers = (0..state.members.len()).any(|at| matches!(state.role(at), Role::Recovering { .. }));
    let word = match () {
        () if recovers => "recovering",
        () if state.is_resyncing() => "resyncing",
        () if state.saved.is_degraded() => "degraded",
        () => "complete",
    };
    Item::text("mirror", word, "state of the array: complete, resyncing, recovering or degraded")
}

/// All items.
pub(super) fn status(mirror: &Mirror) -> Vec<Item> {
    let mut items = vec![condition(mirror)];
    {
        let state = mirror.state();
        let saved = &state.saved;
        let (places, bits) = (saved.places.len() as u64, saved.bits.count());
        items.extend([
            Item::text("mirror uuid", saved.array.to_string(), "number of the array"),
            Item::number("mirror members", Unit::Count, places, "members of the complete array"),
            Item::number(
                "mirror members in sync",
                Unit::Count,
                saved.in_sync() as u64,
                "members that have all data",
            ),
            Item::number("mirror chunk", Unit::Bytes, saved.chunk, "bytes for each write-intent bit"),
            Item::number("mirror bits set", Unit::Count, bits, "write-intent bits that are set"),
            Item::switch("mirror clean", saved.is_clean, "whether members in sync are known not to differ"),
            Item::number("mirror events", Unit::Count, saved.events, "changes of the array's state"),
        ]);
        if !saved.name.is_empty() {
            items.push(Item::text("mirror name", saved.name.clone(), "name of the array"));
        }
    }
    items.extend((0..mirror.devices.len()).map(|device| member(mirror, device)));
    let copies = mirror.state().is_copying;
    if copies || mirror.pace.progress().result.is_some() {
        items.extend(mirror.pace.status(&COPYING));
    }
    items
}
