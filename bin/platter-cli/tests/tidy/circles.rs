//! Circles of files, and types whose methods are spread over many files.

use crate::lexer::words;
use crate::modules::{Target, path_at};
use crate::tree::File;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// In how many files a type may have methods of its own (`impl Type`, not `impl Trait for Type`).
const MAX_FILES: usize = 4;

/// Circles that stay, each with the reason. The list may only get shorter.
const CIRCLES: &[(&[&str], &str)] = &[
    (
        &["lib/platter-block/src/deferred.rs", "lib/platter-block/src/owner.rs"],
        "an owner that is dropped under a lock becomes a deferred action, which holds the owner",
    ),
    (
        &[
            "lib/platter-cache/src/engine.rs",
            "lib/platter-cache/src/handles.rs",
            "lib/platter-cache/src/jobs.rs",
            "lib/platter-cache/src/task.rs",
            "lib/platter-cache/src/writeback.rs",
        ],
        "the engine holds the handles and jobs, whose steps are methods of the engine because each may evict, read or write any page",
    ),
    (
        &[
            "lib/platter-disk/src/background.rs",
            "lib/platter-disk/src/callers.rs",
            "lib/platter-disk/src/channel.rs",
            "lib/platter-disk/src/device.rs",
            "lib/platter-disk/src/future/lane.rs",
            "lib/platter-disk/src/future/lane/call.rs",
            "lib/platter-disk/src/handle.rs",
            "lib/platter-disk/src/service.rs",
            "lib/platter-disk/src/submitter.rs",
            "lib/platter-disk/src/sync_io.rs",
            "lib/platter-disk/src/sync_io/lane.rs",
        ],
        "the device has a constructor for each way to call it, and each of these keeps the device alive",
    ),
    (
        &["lib/platter-disk/src/drivers/choose.rs", "lib/platter-disk/src/drivers/file.rs"],
        "opening a file chooses a driver, whose probe needs the options of the file",
    ),
    (
        &["lib/platter-disk/src/disk_backend/lane.rs", "lib/platter-disk/src/disk_backend/listen.rs"],
        "a lane stands in the list of lanes that sleep, and the list's entries wake the lane",
    ),
    (
        &["lab/platter-engines/src/sqlite/file.rs", "lab/platter-engines/src/sqlite/vfs.rs"],
        "the file system opens files, and each file works on the disk of its file system",
    ),
    (
        &["lab/platter-sim/src/bus/bused.rs", "lab/platter-sim/src/bus/fabric.rs"],
        "attaching a disk to a fabric returns the model that keeps the fabric",
    ),
    (
        &["lab/platter-sim/src/channel.rs", "lab/platter-sim/src/disk_state.rs"],
        "a disk opens channels, and each channel works on the state of its disk",
    ),
    (
        &["lab/platter-sim/src/disk/machine.rs", "lab/platter-sim/src/disk/medium.rs"],
        "the state of the medium is part of the disk, and its methods move the arm of the disk",
    ),
    (
        &["lab/platter-sim/src/flash/collect.rs", "lab/platter-sim/src/flash/ssd.rs"],
        "the state of garbage collection is part of the disk, and its methods read and program the dies of the disk",
    ),
];

/// Types with methods in more files than [`MAX_FILES`]: file, type, number of files, and the reason. The numbers
/// may only get smaller.
const SPREAD: &[(&str, &str, usize, &str)] = &[
    (
        "lib/platter-block/src/queue/sched.rs",
        "SchedQueue",
        5,
        "merging, barriers, flush sequences and ordered tags have a file each",
    ),
    (
        "lib/platter-cache/src/engine.rs",
        "Engine",
        7,
        "one state under one lock; each file has the steps of one kind of task",
    ),
    (
        "lib/platter-disk/src/device.rs",
        "Device",
        10,
        "the handle that programs hold; each file has one way to call",
    ),
    (
        "lab/platter-kit/src/lib.rs",
        "Kit",
        6,
        "what a test does with its engine; each file has one way to fail it",
    ),
    (
        "lab/platter-kit/src/soak/run.rs",
        "Run",
        13,
        "the state of one soak; each file has one kind of action and its check",
    ),
    (
        "lab/platter-sim/src/disk/machine.rs",
        "MechanicalDisk",
        5,
        "one disk; each file has one kind of command or one part of the mechanism",
    ),
    (
        "lab/platter-sim/src/disk_state.rs",
        "DiskState",
        5,
        "the state of a disk under one lock; faults and power cuts are apart from commands",
    ),
];

/// Circles of files that are not in the list, and entries of the list that no longer hold.
///
/// A file uses another if a `use` declaration or a path from `crate`, `self` or `super` leads to an item that is
/// defined there, tests aside. A module and those inside it may use each other: they are one thing in several
/// files.
pub(crate) fn problems(targets: &[Target<'_>]) -> Vec<String> {
    judge(targets, CIRCLES)
}

fn judge(targets: &[Target<'_>], allowed: &[(&[&str], &str)]) -> Vec<String> {
    let found: Vec<Circle<'_>> = targets.iter().filter(|t| is_product(t)).flat_map(circles).collect();
    let mut problems = Vec::new();
    for circle in &found {
        if !allowed.iter().any(|(files, _)| *files == circle.files) {
            problems.push(format!("a circle of files: {}", circle.edges.join("\n    ")));
        }
    }
    for (files, _) in allowed {
        if !found.iter().any(|circle| circle.files == *files) {
            problems.push(format!("in the list of circles, but not one any more: {}", files.join(", ")));
        }
    }
    problems
}

/// Whether a target is a library or a program, not a test or an example.
fn is_product(target: &Target<'_>) -> bool {
    !target.modules[0].test
}

/// Files each of which reaches all others.
struct Circle<'a> {
    files: Vec<&'a str>,
    /// Which of them uses which, for a message.
    edges: Vec<String>,
}

/// The circles of a target.
fn circles<'a>(target: &Target<'a>) -> Vec<Circle<'a>> {
    let count = target.modules.len();
    let path = |number: usize| target.modules[number].file.path.as_str();
    let uses: Vec<BTreeMap<usize, String>> =
        (0..count).map(|n| if target.modules[n].test { BTreeMap::new() } else { target.uses(n) }).collect();
    let reached: Vec<HashSet<usize>> = (0..count).map(|from| reach(&uses, from)).collect();
    let mut circles = BTreeMap::new();
    for from in (0..count).filter(|&n| reached[n].contains(&n)) {
        let both = |to: &usize| reached[from].contains(to) && reached[*to].contains(&from);
        let mut members: Vec<usize> = (0..count).filter(both).collect();
        members.sort_by_key(|n| path(*n));
        circles.entry(members[0]).or_insert(members);
    }
    let circle = |members: Vec<usize>| {
        let edges = members.iter().flat_map(|from| {
            let inside = uses[*from].iter().filter(|(to, _)| members.contains(to));
            inside.map(|(to, by)| format!("{} uses {} ({by})", path(*from), path(*to)))
        });
        Circle { edges: edges.collect(), files: members.iter().map(|n| path(*n)).collect() }
    };
    circles.into_values().map(circle).collect()
}

fn reach(uses: &[BTreeMap<usize, String>], from: usize) -> HashSet<usize> {
    let mut reached = HashSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        open.extend(uses[at].keys().filter(|to| reached.insert(**to)));
    }
    reached
}

/// Types whose methods are in too many files, and entries of the list that no longer hold.
pub(crate) fn spread(targets: &[Target<'_>]) -> Vec<String> {
    judge_spread(targets, SPREAD)
}

fn judge_spread(targets: &[Target<'_>], allowed: &[(&str, &str, usize, &str)]) -> Vec<String> {
    let mut found: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for target in targets.iter().filter(|t| is_product(t)) {
        for (number, module) in target.modules.iter().enumerate().filter(|(_, m)| !m.test) {
            for path in inherent(module.file.live()) {
                let home = target.resolve(number, &path).unwrap_or(number);
                let key = (target.modules[home].file.path.as_str(), path[path.len() - 1]);
                found.entry(key).or_default().insert(&module.file.path);
            }
        }
    }
    let mut problems = Vec::new();
    for ((path, name), files) in found.iter().filter(|(_, files)| files.len() > MAX_FILES) {
        if !allowed.iter().any(|(p, n, count, _)| (p, n, *count) == (path, name, files.len())) {
            let files: Vec<&str> = files.iter().copied().collect();
            problems.push(format!(
                "{path}: {name} has methods in {} files: {}",
                files.len(),
                files.join(", ")
            ));
        }
    }
    for (path, name, count, _) in allowed {
        if found.get(&(*path, *name)).map(BTreeSet::len) != Some(*count) {
            problems.push(format!(
                "{path}: {name} is in the list with {count} files; correct or remove the entry"
            ));
        }
    }
    problems
}

/// The types of the blocks `impl Type`, as paths.
fn inherent(code: &str) -> Vec<Vec<&str>> {
    let mut found = Vec::new();
    for at in words(code, "impl") {
        let starts =
            code[..at].lines().next_back().is_none_or(|l| l.trim().is_empty()) || code[..at].ends_with('\n');
        let Some(end) = code[at..].find('{') else { continue };
        let header = without_parameters(&code[at + 4..at + end]);
        if starts && words(header, "for").next().is_none() {
            let path = path_at(header);
            found.extend((!path.is_empty()).then_some(path));
        }
    }
    found
}

/// The header of an `impl` without its own parameters: `<T: Fn() -> u8> Type<T>` becomes `Type<T>`.
fn without_parameters(header: &str) -> &str {
    let header = header.trim_start();
    if !header.starts_with('<') {
        return header;
    }
    let (mut depth, mut before) = (0, ' ');
    for (at, c) in header.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return header[at + 1..].trim_start();
        }
        before = c;
    }
    header
}

#[test]
fn circles_are_found_and_the_list_is_held_to_the_code() {
    let files = [
        File::new("lib/a/src/lib.rs", "mod one;\nmod two;\nmod three;\npub use three::Three;\n"),
        File::new(
            "lib/a/src/one.rs",
            "mod inner;\nuse crate::two::Two;\nuse inner::Inner;\npub struct One;\n",
        ),
        File::new("lib/a/src/one/inner.rs", "use super::One;\npub struct Inner;\n"),
        File::new("lib/a/src/two.rs", "pub struct Two;\nfn f() { crate::Three::new() }\n"),
        File::new(
            "lib/a/src/three.rs",
            "use super::one;\npub struct Three;\n#[cfg(test)]\nuse crate::Two;\n",
        ),
    ];
    let targets = crate::modules::targets(&files);
    let circle = ["lib/a/src/one.rs", "lib/a/src/three.rs", "lib/a/src/two.rs"];
    let found = judge(&targets, &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    for edge in [
        "a circle of files: lib/a/src/one.rs uses lib/a/src/two.rs (crate::two::Two)",
        "lib/a/src/two.rs uses lib/a/src/three.rs (crate::Three::new)",
        "lib/a/src/three.rs uses lib/a/src/one.rs (super::one)",
    ] {
        assert!(found[0].contains(edge), "{found:?}");
    }
    assert_eq!(judge(&targets, &[(&circle, "a reason")]), Vec::<String>::new());
    let found = judge(&targets, &[(&circle, "a reason"), (&circle[1..], "a reason")]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("in the list of circles"));
}

#[test]
fn spread_types_are_found_and_the_list_is_held_to_the_code() {
    let mut files = vec![File::new(
        "lib/a/src/lib.rs",
        (0..=MAX_FILES).map(|n| format!("mod m{n};\n")).collect::<String>() + "pub struct Wide<T>(T);\n",
    )];
    files.extend((0..=MAX_FILES).map(|n| {
        let text = "use super::Wide;\nimpl<T: Fn() -> u8> Wide<T> {}\nimpl Clone for Near {}\nimpl Near {}\n";
        File::new(format!("lib/a/src/m{n}.rs"), text)
    }));
    let targets = crate::modules::targets(&files);
    let (home, count) = ("lib/a/src/lib.rs", MAX_FILES + 1);
    let found = judge_spread(&targets, &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("lib/a/src/lib.rs: Wide has methods in"));
    assert_eq!(judge_spread(&targets, &[(home, "Wide", count, "a reason")]), Vec::<String>::new());
    for wrong in [(home, "Wide", count + 1, "a reason"), (home, "Gone", count, "a reason")] {
        assert!(!judge_spread(&targets, &[(home, "Wide", count, "a reason"), wrong]).is_empty());
    }
}
