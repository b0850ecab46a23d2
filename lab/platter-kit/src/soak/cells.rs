//! Counts combinations of operations, flags, layers and faults, because a combination that never occurred was never
//! tested.

use serde_json::{Value, json};
use std::fmt::Write;

/// Operations.
pub(super) const OPS: [&str; 6] = ["read", "write", "flush", "flush of a range", "discard", "write-zeroes"];

/// Flags of an I/O, and the interface that submitted it.
pub(super) const FLAGS: [&str; 14] = [
    "plain",
    "sync",
    "fua",
    "preflush",
    "soft-barrier",
    "hard-barrier",
    "readahead",
    "nomerge",
    "atomic",
    "deadline",
    "call",
    "future",
    "used again",
    "lent",
];

/// Layers, the disk first.
pub(super) const LAYERS: [&str; 14] = [
    "disk",
    "partition",
    "raid0",
    "concat",
    "limit",
    "delay",
    "error",
    "verify",
    "cache",
    "snapshot",
    "snapshot-origin",
    "snapshot-merge",
    "multipath",
    "raid1",
];

/// Faults and changes while an I/O was in flight.
pub(super) const FAULTS: [&str; 13] = [
    "nothing",
    "spike",
    "stuck",
    "transient",
    "error",
    "flush error",
    "death",
    "cut",
    "cancel",
    "switch",
    "neglect",
    "resize",
    "late",
];

const CELLS: usize = OPS.len() * FLAGS.len() * LAYERS.len() * FAULTS.len();

/// Cells that cannot occur: their operations, flags and faults, and the reason.
struct Impossible {
    what: &'static str,
    why: &'static str,
    is: fn(op: &str, flag: &str, layer: &str, fault: &str) -> bool,
}

const IMPOSSIBLE: &[Impossible] = &[
    Impossible {
        what: "readahead of anything but reads",
        why: "only reads can be ahead",
        is: |op, flag, _, _| flag == "readahead" && op != "read",
    },
    Impossible {
        what: "atomic anything but writes",
        why: "the flag says something of a write's data",
        is: |op, flag, _, _| flag == "atomic" && op != "write",
    },
    Impossible {
        what: "bios used again without data",
        why: "what is used again is a bio with its memory",
        is: |op, flag, _, _| flag == "used again" && !matches!(op, "read" | "write"),
    },
    Impossible {
        what: "merges of snapshots",
        why: "a merge changes the origin on its own; a test of power cuts tries it",
        is: |_, _, layer, _| layer == "snapshot-merge",
    },
    Impossible {
        what: "mirrors",
        why: "their members must be made first, and may fail apart from each other: tests of their own do that",
        is: |_, _, layer, _| layer == "raid1",
    },
    Impossible {
        what: "several paths to disks that fail, and atomic writes through them",
        why: "what a disk behind a target reports of its faults goes through sense data, which says less",
        is: |_, flag, layer, fault| {
            let whole = ["nothing", "spike", "cancel", "switch", "neglect", "late"].contains(&fault);
            layer == "multipath" && (!whole || flag == "atomic")
        },
    },
    Impossible {
        what: "lent memory of I/O without data",
        why: "it has none",
        is: |op, flag, _, _| flag == "lent" && !matches!(op, "read" | "write"),
    },
    Impossible {
        what: "snapshots over disks that fail, and atomic writes to them",
        why: "a disk that fails while its snapshot is opened ends the run",
        is: |_, flag, layer, fault| {
            let whole = ["nothing", "spike", "cut", "cancel", "switch", "neglect", "late"].contains(&fault);
            layer.starts_with("snapshot") && (!whole || flag == "atomic")
        },
    },
    Impossible {
        what: "calls that are cancelled, or during which the elevator is switched",
        why: "one thread does everything, and it is in the call",
        is: |_, flag, _, fault| flag == "call" && matches!(fault, "cancel" | "switch"),
    },
];

/// Number of occurrences of each combination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cells(Vec<u64>);

impl Default for Cells {
    fn default() -> Cells {
        Cells(vec![0; CELLS])
    }
}

/// Numbers of flags, layers or faults, as bits.
pub(super) type Bits = u16;

fn bits(of: Bits, count: usize) -> impl Iterator<Item = usize> {
    (0..count).filter(move |&at| of & 1 << at != 0)
}

fn index(op: usize, flag: usize, layer: usize, fault: usize) -> usize {
    ((op * FLAGS.len() + flag) * LAYERS.len() + layer) * FAULTS.len() + fault
}

/// The number of a name in a list.
pub(super) fn number(list: &[&str], name: &str) -> Option<usize> {
    list.iter().position(|known| *known == name)
}

fn impossible(op: usize, flag: usize, layer: usize, fault: usize) -> bool {
    IMPOSSIBLE.iter().any(|rule| (rule.is)(OPS[op], FLAGS[flag], LAYERS[layer], FAULTS[fault]))
}

impl Cells {
    /// An I/O ended.
    pub(super) fn met(&mut self, op: usize, flags: Bits, layers: Bits, faults: Bits) {
        for flag in bits(flags, FLAGS.len()) {
            for layer in bits(layers, LAYERS.len()) {
                for fault in bits(faults, FAULTS.len()) {
                    self.0[index(op, flag, layer, fault)] += 1;
                }
            }
        }
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Cells) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, count)| *sum += count);
    }

    /// Every cell that can occur, with its count: operation, flag, layer, fault.
    pub fn rows(&self) -> impl Iterator<Item = ([&'static str; 4], u64)> {
        let all = (0..OPS.len()).flat_map(|op| (0..FLAGS.len()).map(move |flag| (op, flag)));
        let all = all.flat_map(|(op, flag)| (0..LAYERS.len()).map(move |layer| (op, flag, layer)));
        let all =
            all.flat_map(|(op, flag, layer)| (0..FAULTS.len()).map(move |fault| (op, flag, layer, fault)));
        all.filter(|&(op, flag, layer, fault)| !impossible(op, flag, layer, fault)).map(
            |(op, flag, layer, fault)| {
                let count = self.0[index(op, flag, layer, fault)];
                ([OPS[op], FLAGS[flag], LAYERS[layer], FAULTS[fault]], count)
            },
        )
    }

    /// Cells that can occur and did not.
    pub fn empty(&self) -> Vec<[&'static str; 4]> {
        self.rows().filter(|(_, count)| *count == 0).map(|(cell, _)| cell).collect()
    }
}

/// A summary as text, with at most `most` lines about combinations that did not occur.
pub(super) fn text(cells: &Cells, most: usize) -> String {
    let (all, empty) = (cells.rows().count(), cells.empty());
    // Writing to a string does not fail.
    let mut out = String::new();
    let met = all - empty.len();
    let _ = writeln!(out, "{met} of {all} combinations of operation, flag, layer and fault were met");
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for [op, flag, layer, fault] in empty {
        let (head, cell) = (format!("{op}, {flag}"), format!("{layer} and {fault}"));
        match lines.last_mut() {
            Some((last, cells)) if *last == head => cells.push(cell),
            _ => lines.push((head, vec![cell])),
        }
    }
    let left = lines.len().saturating_sub(most);
    for (head, cells) in lines.into_iter().take(most) {
        let more = if cells.len() > 4 { format!(", {} more", cells.len() - 4) } else { String::new() };
        let _ = writeln!(out, "  never {head}: {}{more}", cells[..cells.len().min(4)].join(", "));
    }
    if left > 0 {
        let _ = writeln!(out, "  and {left} lines more; --json has all");
    }
    out
}

/// As JSON: `possible`, `met`, `empty` (a list of `[operation, flag, layer, fault]`) and `impossible`, a list of objects
/// with `what` and `why`.
pub(super) fn json(cells: &Cells) -> Value {
    let (all, empty) = (cells.rows().count(), cells.empty());
    let impossible = |rule: &Impossible| json!({ "what": rule.what, "why": rule.why });
    json!({
        "possible": all,
        "met": all - empty.len(),
        "empty": empty,
        "impossible": IMPOSSIBLE.iter().map(impossible).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_counted_and_what_is_empty_is_said() {
        let mut cells = Cells::default();
        let (read, plain) = (0, 1 << number(&FLAGS, "plain").unwrap());
        let layers = 1 | 1 << number(&LAYERS, "cache").unwrap();
        cells.met(read, plain, layers, 1 | 1 << number(&FAULTS, "cut").unwrap());
        let met: Vec<_> = cells.rows().filter(|(_, count)| *count > 0).map(|(cell, _)| cell).collect();
        let expected = [
            ["read", "plain", "disk", "nothing"],
            ["read", "plain", "disk", "cut"],
            ["read", "plain", "cache", "nothing"],
            ["read", "plain", "cache", "cut"],
        ];
        assert_eq!(met, expected);
        assert!(!cells.empty().iter().any(|[op, flag, ..]| *flag == "readahead" && *op != "read"));
        let said = text(&cells, 3);
        assert!(said.contains("never read, plain: disk and spike"), "{said}");
        assert!(said.contains("lines more"), "{said}");
        assert_eq!(json(&cells)["met"], 4);
        assert!(IMPOSSIBLE.iter().all(|rule| !rule.why.is_empty()));
        // Each layer of the table has its cells.
        for row in platter_cache::layers() {
            assert!(number(&LAYERS, row.name).is_some(), "{}: the soak does not know this layer", row.name);
        }
    }
}
