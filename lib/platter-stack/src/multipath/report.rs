//! The status of a multipath device.

use super::MAX_PATHS;
use super::paths::Path;
use platter_block::params::Unit;
use platter_block::status::Item;

/// The paths in the order of the device spec. Names of items have no digits.
const NAMES: [&str; MAX_PATHS] = [
    "path a", "path b", "path c", "path d", "path e", "path f", "path g", "path h", "path i", "path j",
    "path k", "path l", "path m", "path n", "path o", "path p",
];

const HELP: &str = "whether the path works, how it reaches the unit if the target tells, I/Os that it has and has carried out, and how often it has failed";

/// The state of one path.
pub(super) fn path(number: usize, path: &Path) -> Item {
    let mut state = match path.is_up {
        true => "up".to_owned(),
        false => format!("down ({})", path.why),
    };
    if let Some(group) = path.group {
        state += &format!(", {} (target port group {group})", path.access.name());
    }
    let text = format!("{state}; {} in flight, {} done, failed {} times", path.ios, path.done, path.failures);
    Item::text(NAMES.get(number).copied().unwrap_or("path"), text, HELP)
}

/// All items.
pub(super) fn items(identity: &str, paths: &[Path]) -> Vec<Item> {
    let up = paths.iter().filter(|path| path.is_up).count() as u64;
    let mut items = vec![
        Item::text("disk", identity, "what tells that all paths lead to one disk"),
        Item::number("paths up", Unit::Count, up, "paths that work"),
    ];
    items.extend(paths.iter().enumerate().map(|(number, one)| path(number, one)));
    items
}
