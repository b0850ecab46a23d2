//! What the rules of each file system permit.

use super::*;
use crate::change::{Kind, ROOT, Step};
use proptest::prelude::*;

fn place(dir: FileId, name: &str) -> Place {
    Place { dir, name: name.into() }
}

fn create(id: FileId, name: &str) -> Change {
    Change::Create { id, place: Some(place(ROOT, name)), kind: Kind::File, mode: 0o644 }
}

fn write(id: FileId, at: u64, byte: u8, len: usize) -> Change {
    Change::Write { id, at, data: vec![byte; len] }
}

fn rename(from: &str, to: &str) -> Change {
    Change::Rename { from: place(ROOT, from), to: place(ROOT, to) }
}

fn recording(changes: &[Change]) -> Recording {
    let step = |change: &Change| Step { thread: 1, call: "call".to_owned(), change: change.clone() };
    Recording { initial: Vec::new(), steps: changes.iter().map(step).collect() }
}

/// The names and lengths that are left if everything is lost that may be.
fn worst(semantics: Semantics, changes: &[Change]) -> Vec<(String, u64)> {
    let recording = recording(changes);
    let volume = Volume::after(&recording, semantics, changes.len());
    let mut lost = volume.everything();
    volume.close(&mut lost);
    names(&volume.without(&lost))
}

fn names(tree: &Tree) -> Vec<(String, u64)> {
    tree.names().into_iter().map(|(path, id)| (path.display().to_string(), tree.len(id))).collect()
}

fn left(name: &str, len: u64) -> Vec<(String, u64)> {
    vec![(name.to_owned(), len)]
}

#[test]
fn a_name_needs_a_sync_of_its_directory_by_posix_and_not_by_the_others() {
    let changes = [create(1, "f"), write(1, 0, 7, 100), Change::Sync { id: 1 }];
    assert_eq!(worst(Semantics::Strict, &changes), []);
    assert_eq!(worst(Semantics::Ext4Ordered, &changes), left("f", 100));
    assert_eq!(worst(Semantics::Lazyfs, &changes), left("f", 100));
    let synced = [changes.as_slice(), &[Change::Sync { id: ROOT }]].concat();
    assert_eq!(worst(Semantics::Strict, &synced), left("f", 100));
}

#[test]
fn contents_need_a_sync_of_their_file() {
    let changes = [create(1, "f"), write(1, 0, 7, 100), Change::Sync { id: ROOT }];
    for semantics in Semantics::ALL {
        assert_eq!(worst(semantics, &changes), left("f", 0), "{semantics:?}");
    }
    let all = [changes.as_slice(), &[Change::SyncAll]].concat();
    for semantics in Semantics::ALL {
        assert_eq!(worst(semantics, &all), left("f", 100), "{semantics:?}");
    }
}

#[test]
fn a_file_that_replaces_another_is_whole_on_ext4_and_may_be_empty_by_posix() {
    let changes = [
        create(1, "f"),
        write(1, 0, 1, 600),
        Change::SyncAll,
        create(2, "t"),
        write(2, 0, 2, 9000),
        rename("t", "f"),
    ];
    let recording = recording(&changes);
    for semantics in Semantics::ALL {
        let volume = Volume::after(&recording, semantics, changes.len());
        let data: Vec<(usize, u32)> =
            volume.everything().into_iter().filter(|(step, _)| *step == 4).collect();
        let mut lost = data.into_iter().collect();
        volume.close(&mut lost);
        let found = names(&volume.without(&lost));
        match semantics {
            Semantics::Strict | Semantics::Lazyfs => assert_eq!(found, left("f", 0)),
            // The rename is lost with the data.
            Semantics::Ext4Ordered => assert_eq!(found[0], ("f".to_owned(), 600)),
        }
    }
}

#[test]
fn new_blocks_are_lost_from_the_end_on_ext4_and_anywhere_by_posix() {
    let changes = [create(1, "f"), Change::SyncAll, write(1, 0, 5, 3 * 4096)];
    let recording = recording(&changes);
    let first_block = Lost::from([(2, 8)]);
    for (semantics, len) in [(Semantics::Strict, 12288), (Semantics::Ext4Ordered, 4096)] {
        let volume = Volume::after(&recording, semantics, 3);
        let mut lost = first_block.clone();
        volume.close(&mut lost);
        assert_eq!(names(&volume.without(&lost)), left("f", len), "{semantics:?}");
    }
}

#[test]
fn names_survive_in_order_on_ext4() {
    let changes = [create(1, "a"), create(2, "b")];
    let recording = recording(&changes);
    let volume = Volume::after(&recording, Semantics::Ext4Ordered, 2);
    let mut lost = Lost::from([(0, 0)]);
    volume.close(&mut lost);
    assert_eq!(lost, Lost::from([(0, 0), (1, 0)]));
    let volume = Volume::after(&recording, Semantics::Strict, 2);
    let mut lost = Lost::from([(0, 0)]);
    volume.close(&mut lost);
    assert_eq!(names(&volume.without(&lost)), left("b", 0));
}

#[test]
fn a_rename_between_directories_needs_both_by_posix() {
    let dir = |id, name| Change::Create { id, place: Some(place(ROOT, name)), kind: Kind::Dir, mode: 0o755 };
    let file = Change::Create { id: 3, place: Some(place(1, "f")), kind: Kind::File, mode: 0o644 };
    let moved = Change::Rename { from: place(1, "f"), to: place(2, "f") };
    let mut changes = vec![dir(1, "a"), dir(2, "b"), file, Change::SyncAll, moved, Change::Sync { id: 2 }];
    let has = |changes: &[Change]| worst(Semantics::Strict, changes).iter().any(|(name, _)| name == "b/f");
    assert!(!has(&changes));
    changes.push(Change::Sync { id: 1 });
    assert!(has(&changes));
}

#[test]
fn msync_makes_its_range_durable() {
    let changes = [
        create(1, "f"),
        Change::Resize { id: 1, len: 8192 },
        Change::SyncAll,
        write(1, 0, 1, 4096),
        write(1, 4096, 2, 4096),
        Change::SyncRange { id: 1, at: 4096, len: 4096 },
    ];
    for semantics in [Semantics::Strict, Semantics::Ext4Ordered] {
        let recording = recording(&changes);
        let volume = Volume::after(&recording, semantics, changes.len());
        let steps: BTreeSet<usize> =
            volume.everything().into_iter().filter(|(_, part)| *part < 8).map(|(step, _)| step).collect();
        assert_eq!(steps, BTreeSet::from([3]), "{semantics:?}");
    }
}

#[test]
fn what_was_cut_off_does_not_come_back_once_that_is_durable() {
    let changes = [
        create(1, "f"),
        Change::SyncAll,
        write(1, 0, 1, 5000),
        Change::Resize { id: 1, len: 100 },
        create(2, "g"),
        Change::Sync { id: 2 },
    ];
    let recording = recording(&changes);
    let volume = Volume::after(&recording, Semantics::Ext4Ordered, changes.len());
    let longest = names(&volume.without(&Lost::new()));
    assert_eq!(longest, [("f".to_owned(), 100), ("g".to_owned(), 0)]);
}

/// Random changes of a few files, each of which is made before it is used.
fn histories() -> impl Strategy<Value = Vec<Change>> {
    let name = || prop::sample::select(vec!["a", "b", "c"]);
    let change = prop_oneof![
        4 => (1u32..4, 0u64..6000, 1usize..6000, 1u8..255).prop_map(|(id, at, len, byte)| write(id, at, byte, len)),
        1 => (1u32..4, 0u64..9000).prop_map(|(id, len)| Change::Resize { id, len }),
        1 => (name(), name()).prop_map(|(from, to)| rename(from, to)),
        1 => name().prop_map(|name| Change::Remove { place: place(ROOT, name) }),
        1 => (1u32..4, name()).prop_map(|(id, name)| Change::Link { id, place: place(ROOT, name) }),
        1 => (0u32..4).prop_map(|id| Change::Sync { id }),
        1 => (1u32..4, 0u64..3).prop_map(|(id, page)| Change::SyncRange { id, at: page * 4096, len: 4096 }),
        1 => Just(Change::SyncAll),
    ];
    prop::collection::vec(change, 0..30).prop_map(|changes| {
        let first = [(1, "a"), (2, "b"), (3, "c")].map(|(id, name)| create(id, name));
        first.into_iter().chain(changes).collect()
    })
}

proptest! {
    #[test]
    fn nothing_lost_is_what_the_program_saw(changes in histories()) {
        let recording = recording(&changes);
        for semantics in [Semantics::Strict, Semantics::Ext4Ordered] {
            let volume = Volume::after(&recording, semantics, changes.len());
            let mut none = Lost::new();
            volume.close(&mut none);
            prop_assert!(none.is_empty());
            prop_assert_eq!(
                volume.without(&none).fingerprint(), volume.live().fingerprint(), "{:?}", semantics
            );
        }
    }

    #[test]
    fn nothing_can_be_lost_after_a_sync_of_everything(changes in histories()) {
        let changes = [changes, vec![Change::SyncAll]].concat();
        let recording = recording(&changes);
        for semantics in Semantics::ALL {
            let volume = Volume::after(&recording, semantics, changes.len());
            prop_assert!(volume.everything().is_empty());
            let left = volume.without(&Lost::new()).fingerprint();
            prop_assert_eq!(left, volume.live().fingerprint(), "{:?}", semantics);
        }
    }

    #[test]
    fn closing_twice_is_closing_once(changes in histories(), take in prop::collection::vec(any::<bool>(), 400)) {
        let recording = recording(&changes);
        for semantics in Semantics::ALL {
            let volume = Volume::after(&recording, semantics, changes.len());
            let mut lost: Lost =
                volume.everything().into_iter().zip(take.iter().cycle()).filter(|(_, take)| **take).map(|(part, _)| part).collect();
            volume.close(&mut lost);
            let once = lost.clone();
            volume.close(&mut lost);
            prop_assert_eq!(lost, once, "{:?}", semantics);
        }
    }
}
