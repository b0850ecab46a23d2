//! What a snapshot tells operators: its status, and the parameters of its merge.

use super::Cow;
use super::format::Status;
use super::state::Health;
use crate::kit::WorkTable;
use platter_block::params::{Param, ParamError, Unit};
use platter_block::status::Item;

/// The merge, as background work.
pub(super) const MERGE: WorkTable = WorkTable {
    state: "merge state",
    done: "merge done",
    total: "merge total",
    failure: "merge failure",
    params: [
        Param::number(
            "rate",
            Unit::Bytes,
            0,
            (0, i64::MAX),
            "most bytes that are copied back each second; 0: no limit",
        ),
        Param::number("pause", Unit::Switch, 0, (0, 1), "do not copy back until this is switched off"),
    ],
};

/// Whether the snapshot can be used, as an item.
pub(super) fn state(cow: &Cow) -> Item {
    let state = cow.state();
    let word = match (&state.health, state.header.status) {
        (Health::Failing(_) | Health::Failed(..), _) => "invalid",
        (_, Status::Merging) => "merging",
        (_, Status::Merged) => "merged",
        _ => "valid",
    };
    Item::text("snapshot", word, "state of the snapshot: valid, invalid, merging or merged")
}

pub(super) fn status(cow: &Cow) -> Vec<Item> {
    let mut items = Vec::from([state(cow)]);
    {
        let state = cow.state();
        let (kept, header) = (state.kept.len() as u64, &state.header);
        let number = |name, unit, value, help| Item::number(name, unit, value, help);
        items.extend([
            number("snapshot chunk", Unit::Bytes, header.chunk, "unit of copies"),
            number("snapshot chunks kept", Unit::Count, kept, "chunks in the store"),
            number(
                "snapshot chunks in store",
                Unit::Count,
                header.slots,
                "chunks that the store has room for",
            ),
            number(
                "snapshot store used",
                Unit::Bytes,
                kept * header.chunk,
                "bytes of the chunks in the store",
            ),
        ]);
        if let Health::Failing(why) | Health::Failed(why, _) = &state.health {
            items.push(Item::text("snapshot failure", why.clone(), "why the snapshot is invalid"));
        }
    }
    if cow.is_merging() {
        items.extend(cow.merge.status(&MERGE));
    }
    items
}

pub(super) fn params(cow: &Cow) -> Vec<(Param, i64)> {
    if cow.is_merging() { cow.merge.params(&MERGE) } else { Vec::new() }
}

pub(super) fn set_param(cow: &Cow, name: &str, value: i64) -> Result<(), ParamError> {
    if !cow.is_merging() {
        return platter_block::params::check("a snapshot that is not merged", &[], name, value).map(|_| ());
    }
    cow.merge.set_param(&MERGE, "snapshot-merge", name, value)
}
