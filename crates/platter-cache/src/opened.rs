//! What a cache was opened with and keeps while it is open.

use super::ahead::Prefault;
use super::{Settings, Write};
use platter_block::params::Unit;
use platter_block::status::Item;

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
        let write = match self.write {
            Write::Back => "back",
            Write::Through => "through",
        };
        let prefault = match self.prefault {
            Prefault::Off => "off",
            Prefault::Ahead => "ahead",
            Prefault::Open => "open",
        };
        let mut items = vec![
            Item::text("write", write, "when a write completes: in memory, or on the disk"),
            Item::text("readahead", self.readahead, "policy of each handle"),
            Item::number("window", Unit::Bytes, self.window, "largest readahead window of the policy"),
            Item::text("prefault", prefault, "when memory for pages was to be populated"),
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
