//! What a cache was opened with and keeps while it is open.

use super::ahead::Prefault;
use super::{Settings, Write};
use platter_block::params::{Param, Unit};
use platter_block::status::Item;

/// The parameter `write`. Its words are in the order of [`Write`].
pub(super) const WRITE: Param =
    Param::word("write", &["back", "through"], 0, "when a write completes: in memory, or on the disk");

/// The parameter `prefault`. Its words are in the order of [`Prefault`].
pub(super) const PREFAULT: Param = Param::word(
    "prefault",
    &["off", "ahead", "open"],
    1,
    "memory for pages is populated on first use, ahead of use in the background, or at opening",
);

/// The meaning of a value of the parameter `write`.
pub(super) fn write(value: i64) -> Write {
    if value == Write::Back as i64 { Write::Back } else { Write::Through }
}

/// The meaning of a value of the parameter `prefault`.
pub(super) fn prefault(value: i64) -> Prefault {
    let all = [Prefault::Off, Prefault::Ahead];
    all.into_iter().find(|&when| when as i64 == value).unwrap_or(Prefault::Open)
}

/// The value of a parameter, one of its words, as an item of the status.
fn word(param: &Param, value: i64) -> Item {
    Item::text(param.name, param.show(value), param.help)
}

/// The settings of a cache that cannot be set while it is open.
#[derive(Clone, Copy)]
pub(super) struct Opened {
    write: Write,
    readahead: &'static str,
    window: u64,
    prefault: Prefault,
    shards: u32,
    extent: u64,
    max_size: u64,
    min_size: u64,
}

impl Opened {
    pub(super) fn with(settings: &Settings) -> Opened {
        Opened {
            write: settings.write,
            readahead: settings.readahead.name,
            window: settings.window,
            prefault: settings.prefault,
            shards: settings.shards,
            extent: settings.extent,
            max_size: settings.max_size,
            min_size: settings.min_size,
        }
    }

    /// The settings as items of the status; those without effect are left out.
    pub(super) fn items(&self) -> Vec<Item> {
        let mut items = vec![
            word(&WRITE, self.write as i64),
            Item::text("readahead", self.readahead, "policy of each handle"),
            Item::number("window", Unit::Bytes, self.window, "largest readahead window of the policy"),
            word(&PREFAULT, self.prefault as i64),
        ];
        let bytes = [
            (
                "extent",
                self.extent,
                self.shards > 1,
                "the device is divided among the shards by extents of this",
            ),
            ("max size", self.max_size, self.max_size > 0, "most that the size can be set to"),
            ("min size", self.min_size, self.min_size > 0, "memory pressure takes no more than down to this"),
        ];
        let set = bytes.into_iter().filter(|(_, _, has_effect, _)| *has_effect);
        items.extend(set.map(|(name, value, _, help)| Item::number(name, Unit::Bytes, value, help)));
        items
    }
}
