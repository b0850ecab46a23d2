use super::*;
use alloc::collections::BTreeSet;
use proptest::prelude::*;

type Entry = (u64, RequestId);

fn id(index: u32) -> RequestId {
    RequestId { index, generation: 7 }
}

/// Checks the bound that `reserve` relies on, and the order of all entries.
fn check_shape(map: &SectorMap) {
    assert_eq!(map.bounds.len(), map.branches.len().saturating_sub(1));
    for at in 0..map.branches.len() {
        let keys = map.leaf(at).keys();
        assert!(!keys.is_empty() || map.branches.len() == 1, "an empty leaf is in use beside others");
        if let Some(bound) = map.bounds.get(at) {
            assert!(keys[keys.len() - 1] <= *bound, "a leaf reaches above its bound");
            assert!(*bound < map.leaf(at + 1).keys()[0], "a leaf begins below its bound");
            assert!(keys.len() + map.leaf(at + 1).len > SPARSE, "two sparse leaves were not joined");
        }
    }
    assert!(map.pool.iter().all(|leaf| leaf.keys[leaf.len..].iter().all(|&key| key == Key::MAX)));
    assert_eq!(map.branches.len() + map.free.len(), map.pool.len());
    assert_eq!(map.iter().count(), map.len());
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Entry),
    /// Removes the entry with this number, modulo the number of entries.
    Remove(usize),
    RemoveUnknown(Entry),
    Ask(Entry),
}

fn an_entry() -> impl Strategy<Value = Entry> {
    let pos = prop_oneof![0..40u64, 0..4096u64, Just(u64::MAX), Just(0)];
    let number = prop_oneof![4 => 0..50u32, 1 => Just(u32::MAX)];
    (pos, number.clone(), number).prop_map(|(pos, index, generation)| (pos, RequestId { index, generation }))
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = |inserts: u32| {
        prop_oneof![
            inserts => an_entry().prop_map(Step::Insert),
            4 => any::<usize>().prop_map(Step::Remove),
            1 => an_entry().prop_map(Step::RemoveUnknown),
            2 => an_entry().prop_map(Step::Ask),
        ]
    };
    (prop::collection::vec(step(12), 0..600), prop::collection::vec(step(1), 0..900))
        .prop_map(|(grow, shrink)| [grow, shrink].concat())
}

fn ask(map: &SectorMap, model: &BTreeSet<Entry>, (pos, id): Entry) {
    use core::ops::Bound::{Excluded, Unbounded};
    let lowest = RequestId { index: 0, generation: 0 };
    assert_eq!(map.contains(pos, id), model.contains(&(pos, id)));
    assert_eq!(map.successor(pos, id), model.range((Excluded((pos, id)), Unbounded)).next().copied());
    assert_eq!(map.first_from(pos, id), model.range((pos, id)..).next().copied());
    assert_eq!(map.predecessor(pos, id), model.range(..(pos, id)).next_back().copied());
    assert_eq!(map.first_at_or_after(pos), model.range((pos, lowest)..).next().copied());
    assert_eq!(map.last_before(pos), model.range(..(pos, lowest)).next_back().copied());
}

proptest! {
    #[test]
    fn does_what_a_tree_does(steps in steps()) {
        let mut map = SectorMap::new();
        let mut model = BTreeSet::new();
        for step in steps {
            match step {
                Step::Insert((pos, id)) => assert_eq!(map.insert(pos, id), model.insert((pos, id))),
                Step::Remove(number) => {
                    let Some(&(pos, id)) = model.iter().nth(number % model.len().max(1)) else { continue };
                    let next = model.iter().find(|&&e| e > (pos, id)).copied();
                    assert_eq!(map.remove_then_next(pos, id), (true, next));
                    model.remove(&(pos, id));
                }
                Step::RemoveUnknown((pos, id)) => {
                    let next = model.iter().find(|&&e| e > (pos, id)).copied();
                    assert_eq!(map.remove_then_next(pos, id), (model.remove(&(pos, id)), next));
                }
                Step::Ask(entry) => ask(&map, &model, entry),
            }
            assert_eq!((map.first(), map.last()), (model.first().copied(), model.last().copied()));
            assert_eq!(map.len(), model.len());
        }
        check_shape(&map);
        assert!(map.iter().eq(model.iter().copied()));
    }

    #[test]
    fn stays_in_the_memory_reserved(
        capacity in 0..400usize,
        moves in prop::collection::vec((any::<bool>(), 0..500u64), 0..3000),
    ) {
        let mut map = SectorMap::new();
        map.reserve(capacity);
        let memory = |m: &SectorMap| (m.pool.capacity(), m.branches.capacity(), m.bounds.capacity(), m.free.capacity());
        let reserved = memory(&map);
        for (insert, pos) in moves {
            if insert && map.len() < capacity {
                map.insert(pos, id(1));
            } else {
                map.remove(pos, id(1));
            }
        }
        check_shape(&map);
        assert_eq!(memory(&map), reserved);
    }
}

#[test]
fn entries_that_come_together_are_sorted_together() {
    for (there, count) in [(0, 0), (0, 1), (0, 2), (0, LEAF), (0, LEAF + 1), (3, 2), (40, LEAF), (40, 100)] {
        let (mut map, mut one_by_one, mut late) = (SectorMap::new(), SectorMap::new(), Unsorted::new());
        // Twice, also into a map that has had entries before.
        for _ in 0..2 {
            for pos in 0..there {
                assert!(map.insert(pos * 10, id(1)) && one_by_one.insert(pos * 10, id(1)));
            }
            for at in 0..count as u64 {
                let (pos, id) = (at * 7919 % 61 * 5, id(at as u32 + 2));
                late.push(pos, id);
                assert!(one_by_one.insert(pos, id));
            }
            map.insert_all(&mut late);
            assert!(late.is_empty());
            check_shape(&map);
            assert!(map.iter().eq(one_by_one.iter()));
            while let Some((pos, id)) = one_by_one.last() {
                assert!(map.remove(pos, id) && one_by_one.remove(pos, id));
            }
            assert!(map.is_empty());
        }
    }
}

#[test]
fn a_rising_stream_leaves_full_leaves_behind() {
    let mut map = SectorMap::new();
    for pos in 0..10 * LEAF as u64 {
        assert!(map.insert(pos, id(0)));
    }
    assert_eq!(map.branches.len(), 10);
    for pos in 0..10 * LEAF as u64 {
        assert_eq!(map.first(), Some((pos, id(0))));
        assert!(map.remove(pos, id(0)));
        check_shape(&map);
    }
    assert!(map.is_empty());
}

#[test]
fn one_position_may_have_many_requests() {
    let mut map = SectorMap::new();
    for index in [3, 1, 2] {
        assert!(map.insert(9, id(index)));
        assert!(!map.insert(9, id(index)));
    }
    assert_eq!(map.successor(9, id(1)), Some((9, id(2))));
    assert_eq!(map.successor(9, id(3)), None);
    assert_eq!(map.len(), 3);
    map.clear();
    assert_eq!((map.len(), map.first(), map.last()), (0, None, None));
    check_shape(&map);
}

#[test]
fn comparisons_grow_with_the_logarithm() {
    let mut map = SectorMap::new();
    assert_eq!(map.comparisons(5, id(0)), 0);
    // One leaf: a round for the bounds, and 4 + 1 + 4 in the leaf.
    map.insert(0, id(0));
    assert_eq!(map.comparisons(5, id(0)), 4 + 9);
    let mut worst = |entries: u64| {
        (map.len() as u64..entries).for_each(|pos| assert!(map.insert(pos, id(0))));
        (0..entries).map(|pos| map.comparisons(pos, id(0))).max().unwrap()
    };
    // A round divides by four: 3, 63 and 2,047 bounds.
    assert_eq!([128, 2048, 65_536].map(&mut worst), [4 + 9, 3 * 4 + 9, 6 * 4 + 9]);
}
