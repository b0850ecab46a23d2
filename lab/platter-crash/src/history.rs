//! The calls before a cut, for people.

use crate::change::{Change, Kind, shown};
use crate::explore::Cut;
use crate::recording::Recording;
use crate::tree::Tree;
use crate::volume::{Lost, parts};

/// One call of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Number of the step.
    pub step: usize,
    /// The thread that made it.
    pub thread: u32,
    /// The call, and what it did.
    pub text: String,
    /// What the cut takes of it, and what would have kept it.
    pub lost: Option<String>,
}

/// The calls before a cut, and what is lost of each.
pub fn history(recording: &Recording, cut: &Cut) -> Vec<Line> {
    let mut tree = Tree::default();
    recording.initial.iter().for_each(|change| tree.apply(change));
    let mut lines = Vec::new();
    for (number, step) in recording.steps.iter().take(cut.steps).enumerate() {
        let text = format!("{} {}", step.call, describe(&tree, &step.change));
        let lost = lost(&tree, number, &step.change, &cut.lost);
        lines.push(Line { step: number, thread: step.thread, text, lost });
        tree.apply(&step.change);
    }
    lines
}

/// What a change does. Before it is applied.
fn describe(tree: &Tree, change: &Change) -> String {
    match change {
        Change::Create { place: Some(place), kind: Kind::Symlink(target), .. } => {
            format!("{} -> {}", tree.path_of(place), shown(target))
        }
        Change::Create { place: Some(place), kind, .. } => format!("{}: new {kind}", tree.path_of(place)),
        Change::Create { place: None, .. } => "a new file without a name".to_owned(),
        Change::Link { id, place } => format!("{} to {}", tree.path_of(place), tree.name_of(*id)),
        Change::Remove { place } => tree.path_of(place),
        Change::Rename { from, to } => format!("{} to {}", tree.path_of(from), tree.path_of(to)),
        Change::Exchange { from, to } => format!("{} and {} exchanged", tree.path_of(from), tree.path_of(to)),
        Change::Write { id, at, data } => format!("{}: {} bytes at {at}", tree.name_of(*id), data.len()),
        Change::Resize { id, len } => format!("{}: {len} bytes long", tree.name_of(*id)),
        Change::Mode { id, mode } => format!("{}: mode {mode:o}", tree.name_of(*id)),
        Change::Sync { id } => tree.name_of(*id),
        Change::SyncRange { id, at, len } => format!("{}: {len} bytes at {at}", tree.name_of(*id)),
        Change::SyncAll => "everything".to_owned(),
        Change::Output { text } => format!("\"{}\" to standard output", shown(text)),
    }
}

/// What the cut takes of a change.
fn lost(tree: &Tree, step: usize, change: &Change, all: &Lost) -> Option<String> {
    let lost: Vec<u32> = all.range((step, 0)..(step + 1, 0)).map(|(_, part)| *part).collect();
    if lost.is_empty() {
        return None;
    }
    let count = parts(change) - 1;
    let sectors = lost.iter().filter(|part| **part < count).count();
    let length = lost.contains(&count);
    Some(match change {
        Change::Write { .. } => {
            let what = match (sectors, length) {
                (0, _) => "the new length".to_owned(),
                (all, true) if all == count as usize => "all of it".to_owned(),
                (all, false) if all == count as usize => "its data, but not the length".to_owned(),
                (some, _) => format!("{some} of its {count} sectors"),
            };
            format!("{what}; no sync of the file has followed")
        }
        Change::Resize { .. } => "the new length; no sync of the file has followed".to_owned(),
        change => {
            let dirs: Vec<String> = match change.places().as_slice() {
                [from, to] if from.dir != to.dir => vec![tree.name_of(from.dir), tree.name_of(to.dir)],
                places => places.iter().take(1).map(|place| tree.name_of(place.dir)).collect(),
            };
            format!("the name; no sync of its directory has followed ({})", dirs.join(" and "))
        }
    })
}
