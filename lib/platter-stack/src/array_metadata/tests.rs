//! Records, assembly, and power cuts at every point of a change.

use super::*;
use crate::raid0::MAX_MEMBERS;
use std::collections::BTreeSet;

/// Devices as bytes; only the slots are kept.
#[derive(Clone)]
struct Disks(Vec<[Vec<u8>; 2]>);

const SIZE: u64 = 64 << 20;

impl Disks {
    fn blank(count: usize) -> Disks {
        Disks(vec![[vec![0; RECORD_BYTES], vec![0; RECORD_BYTES]]; count])
    }

    fn slots(&self) -> Vec<Slots> {
        self.0.iter().map(|disk| Slots::decode([&disk[0], &disk[1]])).collect()
    }

    fn candidates(&self) -> Vec<Candidate> {
        let slots = self.slots().into_iter().enumerate();
        slots.map(|(at, slots)| Candidate { name: format!("d{at}"), size: SIZE, slots }).collect()
    }

    fn apply(&mut self, step: &Step, bytes_kept: usize) {
        if let Step::Write { device, offset, bytes } = step {
            let slot = SLOTS.iter().position(|slot| slot == offset).unwrap();
            self.0[*device][slot][..bytes_kept].copy_from_slice(&bytes[..bytes_kept]);
        }
    }

    fn apply_all(&mut self, steps: &[Step]) {
        steps.iter().for_each(|step| self.apply(step, RECORD_BYTES));
    }

    fn assembled(&self) -> Result<Uuid, Vec<Problem>> {
        assemble(&Select::Any, &self.candidates()).map(|array| array.members[0].1.array)
    }
}

fn uuid(number: u8) -> Uuid {
    Uuid([number; 16])
}

fn missing_of(number: u8, members: u32, missing: Vec<(u32, Option<Uuid>)>) -> Problem {
    Problem::Missing { array: (format!("array{number}"), uuid(number)), members, missing }
}

fn array(number: u8, count: u8) -> NewArray {
    NewArray {
        array: uuid(number),
        name: format!("array{number}"),
        layout: Layout::Raid0,
        chunk: 65536,
        members: (0..count).map(|i| (uuid(100 + number * 10 + i), SIZE)).collect(),
    }
}

fn made(number: u8, count: u8) -> Disks {
    let mut disks = Disks::blank(count.into());
    let steps = create_plan(&array(number, count), &disks.slots()).unwrap();
    disks.apply_all(&steps);
    disks
}

fn records(disks: &Disks) -> Vec<Record> {
    assemble(&Select::Any, &disks.candidates())
        .unwrap()
        .members
        .into_iter()
        .map(|(_, record)| record)
        .collect()
}

/// Every state that a power cut can leave: all steps up to one and a part of the next, torn between sectors.
/// Writes between two flushes are of different devices, and any subset of them may survive; the order given
/// and its reverse are tried here.
fn cuts(before: &Disks, steps: &[Step]) -> Vec<Disks> {
    let mut states = Vec::new();
    let mut orders = vec![steps.to_vec()];
    let mut reversed: Vec<Step> = Vec::new();
    for stretch in steps.chunk_by(|a, b| matches!(a, Step::Write { .. }) == matches!(b, Step::Write { .. })) {
        reversed.extend(stretch.iter().rev().cloned());
    }
    orders.push(reversed);
    for order in orders {
        let mut disks = before.clone();
        states.push(disks.clone());
        for step in order.iter().filter(|step| matches!(step, Step::Write { .. })) {
            for kept in (512..RECORD_BYTES).step_by(512) {
                let mut torn = disks.clone();
                torn.apply(step, kept);
                states.push(torn);
            }
            disks.apply(step, RECORD_BYTES);
            states.push(disks.clone());
        }
    }
    states
}

#[test]
fn records_come_back_and_damage_is_told() {
    for record in array(1, 3).records().unwrap() {
        let bytes = record.encode();
        assert_eq!(bytes.len(), RECORD_BYTES);
        assert_eq!(Record::decode(&bytes), Ok(record));
        for at in [16, 100, 4000, RECORD_BYTES - 1] {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert!(matches!(Record::decode(&bad), Err(Damage::Damaged(_))), "byte {at}");
        }
    }
    assert_eq!(Record::decode(&[0; RECORD_BYTES]), Err(Damage::Nothing));
    assert_eq!(Record::decode(&[0; 100]), Err(Damage::Nothing));
}

/// Values that no array can have, with a valid checksum: the decoder must not trust them.
#[test]
fn numbers_that_no_array_can_have_are_damage() {
    let [good] = &array(1, 1).records().unwrap()[..] else { panic!("one member") };
    let most = MAX_MEMBERS as u32;
    let crafted = [
        ("members", Record { members: most + 1, ..good.clone() }),
        ("members", Record { members: u32::MAX, index: u32::MAX - 1, ..good.clone() }),
        ("data", Record { data_offset: u64::MAX - 100, ..good.clone() }),
        ("data", Record { data_size: u64::MAX, ..good.clone() }),
        ("data", Record { data_offset: 0, ..good.clone() }),
        ("data", Record { data_size: 0, ..good.clone() }),
        ("sequence", Record { sequence: u64::MAX, ..good.clone() }),
        ("sequence", Record { sequence: 1 << 63, ..good.clone() }),
        ("name", Record { name: "a\u{1b}[2J".into(), ..good.clone() }),
        // The name is cut in the middle of a character.
        ("name", Record { name: format!("{}é", "x".repeat(63)), ..good.clone() }),
    ];
    for (what, record) in crafted {
        let Err(Damage::Damaged(said)) = Record::decode(&record.encode()) else { panic!("{record:?}") };
        assert!(said.contains(what), "{said}");
    }
    let largest = Record { members: most, listed: Vec::new(), ..good.clone() };
    assert_eq!(Record::decode(&largest.encode()), Ok(largest));
}

/// The last sequence numbers leave an array that can be assembled, or are refused.
#[test]
fn the_last_sequence_numbers_end_with_a_refusal() {
    let mut disks = made(1, 1);
    for (sequence, possible) in [((1 << 62) - 2, true), ((1 << 62) - 1, false), (1 << 62, false)] {
        let records: Vec<Record> =
            records(&disks).into_iter().map(|record| Record { sequence, ..record }).collect();
        match commit_plan(&records, &disks.slots()) {
            Ok(steps) => {
                assert!(possible, "{sequence}");
                disks.apply_all(&steps);
                assert_eq!(disks.assembled(), Ok(uuid(1)));
            }
            Err(error) => assert!(!possible && error.contains(&sequence.to_string()), "{error}"),
        }
    }
}

/// Only one member of the largest array is present: the message about the missing ones stays short.
#[test]
fn many_missing_members_make_a_short_message() {
    let [good] = &array(1, 1).records().unwrap()[..] else { panic!("one member") };
    let bytes = Record { members: MAX_MEMBERS as u32, index: 7, ..good.clone() }.encode();
    let slots = Slots::decode([&bytes, &bytes]);
    let candidate = Candidate { name: "d".into(), size: SIZE, slots };
    let problems = assemble(&Select::Any, &[candidate]).unwrap_err();
    let text: Vec<String> = problems.iter().map(Problem::to_string).collect();
    assert!(text.iter().any(|text| text.contains("0 to 6, 8 to 65535")), "{text:?}");
    assert!(text.iter().all(|text| text.len() < 1000), "{text:?}");
    let missing = (0..60_000).step_by(3).map(|place| (place, None)).collect();
    let scattered = Problem::Missing { array: ("a".into(), uuid(1)), members: 60_000, missing }.to_string();
    assert!(scattered.len() < 1000 && scattered.contains("and 19984 more"), "{scattered}");
}

#[test]
fn an_array_of_too_many_members_is_not_made() {
    let members = vec![(uuid(9), SIZE); MAX_MEMBERS + 1];
    let error = NewArray { members, ..array(1, 1) }.records().unwrap_err();
    assert!(error.contains("65537") && error.contains("65536"), "{error}");
}

#[test]
fn a_uuid_is_written_and_read_in_both_ways() {
    let text = "00112233-4455-6677-8899-aabbccddeeff";
    let uuid: Uuid = text.parse().unwrap();
    assert_eq!(uuid.to_string(), text);
    assert_eq!("00112233:44556677:8899aabb:ccddeeff".parse(), Ok(uuid));
    assert!("12".parse::<Uuid>().unwrap_err().contains("32 hexadecimal"));
    let error = format!("\u{1b}{}", "x".repeat(100)).parse::<Uuid>().unwrap_err();
    assert!(!error.contains('\u{1b}') && error.chars().count() < 150, "{error}");
    assert!("zz112233-4455-6677-8899-aabbccddeeff".parse::<Uuid>().is_err());
}

#[test]
fn making_an_array_leaves_none_or_the_whole_of_it() {
    let before = Disks::blank(3);
    let steps = create_plan(&array(1, 3), &before.slots()).unwrap();
    let (mut none, mut whole) = (0, 0);
    for state in cuts(&before, &steps) {
        match state.assembled() {
            Ok(found) => {
                assert_eq!(found, uuid(1));
                whole += 1;
            }
            Err(problems) => {
                let only = |p: &Problem| {
                    matches!(
                        p,
                        Problem::NoRecord(_)
                            | Problem::Damaged(..)
                            | Problem::Unfinished(_)
                            | Problem::Missing { .. }
                    )
                };
                assert!(problems.iter().all(only), "{problems:?}");
                none += 1;
            }
        }
    }
    assert!(none > 0 && whole > 0);
}

#[test]
fn making_an_array_over_another_leaves_the_old_one_or_the_new_one() {
    let before = made(1, 3);
    let steps = create_plan(&array(2, 3), &before.slots()).unwrap();
    let mut seen = BTreeSet::new();
    for state in cuts(&before, &steps) {
        seen.insert(state.assembled().expect("one of the two"));
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [uuid(1), uuid(2)]);
}

#[test]
fn a_turn_that_is_cut_short_leaves_the_array_whole_and_can_be_done_again() {
    let mut disks = made(1, 3);
    for _ in 0..3 {
        let steps = commit_plan(&records(&disks), &disks.slots()).unwrap();
        for mut state in cuts(&disks, &steps) {
            assert_eq!(state.assembled(), Ok(uuid(1)));
            let again = commit_plan(&records(&state), &state.slots()).unwrap();
            state.apply_all(&again);
            assert_eq!(state.assembled(), Ok(uuid(1)));
        }
        disks.apply_all(&steps);
    }
    assert_eq!(records(&disks)[0].sequence, 8);
}

/// What an opening depends on: which array each record is of, how far it is behind the newest, and its phase.
fn shape(disks: &Disks) -> String {
    let slots = disks.slots();
    let newest = slots.iter().filter_map(Slots::newest).map(|record| record.sequence).max().unwrap_or(0);
    let one = |slot: &Result<Record, Damage>| {
        let record = slot.as_ref().ok()?;
        Some((record.array, newest - record.sequence, record.phase, record.sequence == 1))
    };
    let all: Vec<_> = slots.iter().map(|held| held.0.each_ref().map(one)).collect();
    format!("{all:?}")
}

/// The states that openings leave of which any number in a row is interrupted, each at any point. Sequence numbers grow
/// for ever, but states of the same shape go on alike, so this ends.
fn after_interrupted_openings(first: Vec<Disks>) -> Vec<Disks> {
    let mut seen = BTreeSet::new();
    let mut states: Vec<Disks> = first.into_iter().filter(|state| seen.insert(shape(state))).collect();
    let mut done = 0;
    while let Some(state) = states.get(done).cloned() {
        let array = state.assembled();
        assert!(array.is_ok(), "{array:?}: {}", shape(&state));
        let steps = commit_plan(&records(&state), &state.slots()).unwrap();
        for cut in cuts(&state, &steps) {
            if seen.insert(shape(&cut)) {
                assert_eq!(cut.assembled(), array, "{}", shape(&cut));
                states.push(cut);
            }
        }
        done += 1;
    }
    states
}

/// The same array is opened in the end, and then a copy of any member from before is known as old.
#[test]
fn openings_that_are_cut_short_one_after_another_leave_the_array_whole() {
    let before = made(1, 3);
    let created_over = create_plan(&array(2, 3), &before.slots()).unwrap();
    let states = after_interrupted_openings(cuts(&before, &created_over));
    assert!(states.len() > 100, "{} states", states.len());
    for state in states {
        let mut opened = state.clone();
        opened.apply_all(&commit_plan(&records(&state), &state.slots()).unwrap());
        assert_eq!(opened.assembled(), state.assembled());
        for member in 0..3 {
            let mut copied = opened.clone();
            copied.0[member] = state.0[member].clone();
            let said = against(&copied, &Select::Any);
            let is_known = matches!(&said[..], [Problem::Stale(name, ..)] if *name == format!("d{member}"));
            assert!(is_known, "{said:?}: d{member} of {}", shape(&state));
        }
    }
}

/// The first member is written each time, and the second one fails.
#[test]
fn a_member_that_fails_at_each_opening_is_not_left_behind() {
    let mut disks = made(1, 2);
    for _ in 0..3 {
        let steps = commit_plan(&records(&disks), &disks.slots()).unwrap();
        let fails = steps.iter().position(|step| matches!(step, Step::Write { device: 1, .. })).unwrap();
        disks.apply_all(&steps[..fails]);
        assert_eq!(disks.assembled(), Ok(uuid(1)));
    }
    let steps = commit_plan(&records(&disks), &disks.slots()).unwrap();
    disks.apply_all(&steps);
    assert_eq!(records(&disks).iter().map(|record| record.sequence).collect::<Vec<_>>(), [5, 5]);
}

/// Disks with volatile caches.
#[derive(Clone)]
struct Cached {
    /// What they return.
    held: Disks,
    durable: Disks,
}

impl Cached {
    fn run(&mut self, steps: &[Step]) {
        for step in steps {
            self.held.apply(step, RECORD_BYTES);
            if let Step::Flush { device } = step {
                self.durable.0[*device] = self.held.0[*device].clone();
            }
        }
    }

    /// What a power cut leaves of two members: a bit of `lost` for each slot whose contents in the cache are lost.
    fn cut(&self, lost: usize) -> Disks {
        let mut left = self.held.clone();
        for at in (0..4).filter(|at| lost >> at & 1 == 1) {
            left.0[at / 2][at % 2] = self.durable.0[at / 2][at % 2].clone();
        }
        left
    }
}

/// A process that is killed leaves records in caches. The next opening reads them there, and then the power fails.
#[test]
fn records_that_are_in_caches_alone_are_made_durable_before_others_are_overwritten() {
    let made = made(1, 2);
    let killed = commit_plan(&records(&made), &made.slots()).unwrap();
    for kill in 0..=killed.len() {
        let mut disks = Cached { held: made.clone(), durable: made.clone() };
        disks.run(&killed[..kill]);
        let steps = commit_plan(&records(&disks.held), &disks.held.slots()).unwrap();
        for end in 0..=steps.len() {
            let mut opened = disks.clone();
            opened.run(&steps[..end]);
            for lost in 0..16 {
                let left = opened.cut(lost).assembled();
                assert_eq!(left, Ok(uuid(1)), "killed after {kill}, cut after {end}, lost {lost:b}");
            }
        }
    }
}

#[test]
fn wiping_leaves_the_array_or_remains_that_can_be_wiped() {
    let before = made(1, 3);
    let steps = wipe_plan(&before.slots());
    for mut state in cuts(&before, &steps) {
        if let Err(problems) = state.assembled() {
            let gone = |p: &Problem| {
                matches!(
                    p,
                    Problem::Retired(_)
                        | Problem::NoRecord(_)
                        | Problem::Missing { .. }
                        | Problem::Damaged(..)
                )
            };
            assert!(problems.iter().all(gone), "{problems:?}");
            let retired = problems.iter().any(|p| matches!(p, Problem::Retired(_)));
            let nothing = state.slots().iter().all(|slots| slots.newest().is_none());
            assert!(retired || nothing, "neither the array nor known as remains: {problems:?}");
        }
        let again = wipe_plan(&state.slots());
        state.apply_all(&again);
        assert!(state.slots().iter().all(|slots| slots.newest().is_none()));
    }
}

#[test]
fn members_are_found_in_any_order() {
    let mut disks = made(1, 4);
    disks.0.rotate_left(1);
    disks.0.swap(0, 2);
    let array = assemble(&Select::Name("array1".to_owned()), &disks.candidates()).unwrap();
    assert_eq!(array.members.iter().map(|(_, record)| record.index).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(array.members.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [3, 2, 1, 0]);
}

/// The problems of assembling `disks`.
fn against(disks: &Disks, select: &Select) -> Vec<Problem> {
    assemble(select, &disks.candidates()).unwrap_err()
}

#[test]
fn what_does_not_belong_is_refused_with_the_reason() {
    let whole = made(1, 3);
    let other = made(2, 3);

    let mut missing = whole.clone();
    missing.0.remove(1);
    assert_eq!(against(&missing, &Select::Any), [missing_of(1, 3, vec![(1, Some(uuid(111)))])]);

    let mut twice = whole.clone();
    twice.0.push(whole.0[2].clone());
    assert_eq!(against(&twice, &Select::Any), [Problem::Duplicate("d2".into(), "d3".into(), 2)]);

    let mut foreign = whole.clone();
    foreign.0.push(other.0[0].clone());
    let said = against(&foreign, &Select::Uuid(uuid(1)));
    assert_eq!(said, [Problem::Foreign("d3".into(), "array2".into(), uuid(2))]);

    let mut both = whole.clone();
    both.0.extend(other.0.clone());
    assert!(matches!(against(&both, &Select::Any)[..], [Problem::Ambiguous(_)]));

    let mut blank = whole.clone();
    blank.0.extend(Disks::blank(1).0);
    assert_eq!(against(&blank, &Select::Any), [Problem::NoRecord("d3".into())]);

    let mut damaged = whole.clone();
    damaged.0[0].iter_mut().for_each(|slot| slot[200] ^= 0xff);
    let said = against(&damaged, &Select::Any);
    assert!(matches!(said[..], [Problem::Damaged(..), Problem::Missing { .. }]), "{said:?}");

    let mut one_slot = whole.clone();
    one_slot.0[0][0][200] ^= 0xff;
    assert_eq!(one_slot.assembled(), Ok(uuid(1)), "the other record is enough");
}

#[test]
fn a_copy_from_before_the_last_turn_is_stale() {
    let mut disks = made(1, 3);
    let old = disks.0[1].clone();
    let steps = commit_plan(&records(&disks), &disks.slots()).unwrap();
    disks.apply_all(&steps);
    disks.0[1] = old;
    assert_eq!(against(&disks, &Select::Any), [Problem::Stale("d1".into(), 2, 4)]);
}

#[test]
fn a_member_that_has_shrunk_is_named() {
    let disks = made(1, 2);
    let mut candidates = disks.candidates();
    candidates[1].size = SIZE / 2;
    assert_eq!(assemble(&Select::Any, &candidates), Err(vec![Problem::Shrunk("d1".into(), SIZE / 2, SIZE)]));
}

#[test]
fn records_without_a_list_of_members_are_read_and_a_wrong_list_is_damage() {
    let record = array(1, 3).records().unwrap().remove(1);
    assert_eq!(record.listed, [uuid(110), uuid(111), uuid(112)]);
    let old = Record { listed: Vec::new(), ..record.clone() };
    assert_eq!(Record::decode(&old.encode()), Ok(old.clone()));
    let wrong = Record { listed: vec![uuid(110), uuid(112), uuid(111)], ..record };
    assert!(
        matches!(Record::decode(&wrong.encode()), Err(Damage::Damaged(what)) if what.contains("index 1"))
    );

    let many = NewArray { members: vec![(uuid(1), SIZE); MAX_LISTED as usize + 1], ..array(1, 1) };
    let many = many.records().unwrap().remove(0);
    assert!(many.listed.is_empty());
    assert_eq!(Record::decode(&many.encode()), Ok(many));
    let most = NewArray { members: vec![(uuid(1), SIZE); MAX_LISTED as usize], ..array(1, 1) };
    let most = most.records().unwrap().remove(0);
    assert_eq!(most.listed.len(), MAX_LISTED as usize);
    assert_eq!(Record::decode(&most.encode()), Ok(most));
}

#[test]
fn members_without_room_and_names_without_end_are_refused() {
    let mut small = array(1, 2);
    small.members[1].1 = 1 << 20;
    assert!(small.records().unwrap_err().contains("member 1 has 1048576 bytes"));
    let mut long = array(1, 2);
    long.name = "x".repeat(65);
    assert!(long.records().unwrap_err().contains("64 are possible"));
    let mut odd = array(1, 2);
    odd.name = "a\u{1b}[2J".to_owned();
    assert!(odd.records().unwrap_err().contains("control characters"));
}

#[test]
fn no_two_problems_read_the_same() {
    let all = [
        Problem::NoRecord("d".into()),
        Problem::Damaged("d".into(), "torn".into()),
        Problem::Foreign("d".into(), "a".into(), uuid(1)),
        Problem::Ambiguous(vec![("a".into(), uuid(1)), ("b".into(), uuid(2))]),
        Problem::Duplicate("d".into(), "e".into(), 1),
        missing_of(1, 3, vec![(1, Some(uuid(111))), (2, None)]),
        Problem::Stale("d".into(), 1, 4),
        Problem::Disagrees("d".into(), "chunk"),
        Problem::Shrunk("d".into(), 1, 2),
        Problem::Unfinished("a".into()),
        Problem::Retired("a".into()),
    ];
    let texts: BTreeSet<String> = all.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), all.len());
}
