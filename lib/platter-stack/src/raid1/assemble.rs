//! Which devices are members of an array, by their records, and what each of them is. No I/O is done here.

use super::format::{Record, Role, Saved};

/// What a device turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A member at this place that is in use.
    Member(usize),
    /// A member at this place that has failed or is behind: it comes back by a re-add.
    Behind(usize),
    /// No member of this array.
    Stranger,
}

/// An array as its members describe it.
#[derive(Debug)]
pub(super) struct Assembled {
    /// The newest state.
    pub(super) saved: Saved,
    /// What each device is.
    pub(super) found: Vec<Found>,
    /// Members whose records lack the last event, because a change was interrupted.
    pub(super) lacks: Vec<usize>,
    /// Places whose members should be there and are not.
    pub(super) missing: Vec<usize>,
}

/// Finds the array of devices with these names and records.
///
/// # Errors
/// Why they are none.
pub(super) fn assemble(names: &[String], records: &[Option<Record>]) -> Result<Assembled, String> {
    let sound = || (0..).zip(records).filter_map(|(at, record)| Some((at, record.as_ref()?)));
    let Some((first, newest)) = sound().max_by_key(|(at, record)| (record.saved.events, usize::MAX - at))
    else {
        return Err(
            "none of the devices has a record of a mirror; make one with `platter raid create`".into()
        );
    };
    if let Some((other, _)) = sound().find(|(_, record)| record.saved.array != newest.saved.array) {
        let [one, other] = [&names[first], &names[other]];
        return Err(format!("{one} and {other} are members of different arrays"));
    }
    let mut saved = newest.saved.clone();
    let mut found: Vec<Found> = records.iter().map(|_| Found::Stranger).collect();
    let mut lacks = Vec::new();
    for (at, record) in sound() {
        let own = &record.saved;
        if own.events == saved.events && own.places != saved.places {
            return Err(apart(&names[first], &names[at]));
        }
        let own_uuid = own.places[record.place].member;
        let Some(place) = saved.places.get(record.place).filter(|place| place.member == own_uuid) else {
            continue;
        };
        if let Some(&Found::Member(_) | &Found::Behind(_)) = found
            .iter()
            .find(|found| matches!(found, Found::Member(p) | Found::Behind(p) if *p == record.place))
        {
            let why = format!("{} is a copy of another member, number {}", names[at], record.place);
            return Err(why);
        }
        let is_used = matches!(place.role, Role::InSync | Role::Recovering { .. });
        found[at] = match place.role {
            // A change that was interrupted left it out, and nothing that depends on the change has happened.
            _ if is_used && own.events + 1 >= newest.saved.events => Found::Member(record.place),
            Role::Failed(event) if own.events >= event => return Err(apart(&names[first], &names[at])),
            Role::Vacant => Found::Stranger,
            _ => Found::Behind(record.place),
        };
        if matches!(found[at], Found::Member(_)) {
            if own.events < newest.saved.events {
                lacks.push(at);
            }
            saved.is_clean &= own.is_clean;
        }
    }
    // Only now: those of a member that is behind say nothing.
    for (at, record) in sound() {
        if matches!(found[at], Found::Member(_)) {
            saved.bits.add_all(&record.saved.bits);
        }
    }
    let is_there = |place: &usize| found.contains(&Found::Member(*place));
    let is_due = |place: &usize| saved.places[*place].role == Role::InSync;
    let missing: Vec<usize> = (0..saved.places.len()).filter(|p| is_due(p) && !is_there(p)).collect();
    if !(0..saved.places.len()).any(|place| is_due(&place) && is_there(&place)) {
        return Err("no device has all data: every one is behind a member that is missing".into());
    }
    Ok(Assembled { saved, found, lacks, missing })
}

fn apart(one: &str, other: &str) -> String {
    format!(
        "{one} and {other} were used without each other, and both were written: open the array with the one whose data is wanted, \
         with degraded=on, and add the other as a new member"
    )
}

#[cfg(test)]
mod tests {
    use super::super::bits::Bits;
    use super::super::format::{DATA_OFFSET, Place};
    use super::*;
    use crate::array_metadata::Uuid;

    fn saved(events: u64, roles: &[Role]) -> Saved {
        let place = |(at, &role): (usize, &Role)| Place { member: Uuid([at as u8 + 1; 16]), role };
        Saved {
            array: Uuid([9; 16]),
            name: String::new(),
            size: 1 << 20,
            offset: DATA_OFFSET,
            chunk: 4096,
            events,
            cleared: 0,
            is_clean: true,
            places: roles.iter().enumerate().map(place).collect(),
            bits: Bits::new(256),
        }
    }

    fn record(place: usize, events: u64, roles: &[Role]) -> Option<Record> {
        Some(Record { saved: saved(events, roles), place, sequence: 1 })
    }

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|at| format!("disk {at}")).collect()
    }

    const BOTH: &[Role] = &[Role::InSync, Role::InSync];

    #[test]
    fn a_member_that_an_interrupted_change_left_out_is_in_use() {
        let records = [record(0, 7, BOTH), record(1, 6, BOTH)];
        let all = assemble(&names(2), &records).unwrap();
        assert_eq!((all.found, all.lacks), (vec![Found::Member(0), Found::Member(1)], vec![1]));
        // But not an old copy.
        let all = assemble(&names(2), &[record(0, 8, BOTH), record(1, 6, BOTH)]).unwrap();
        assert_eq!((all.found, all.missing), (vec![Found::Member(0), Found::Behind(1)], vec![1]));
    }

    #[test]
    fn what_the_newest_record_says_counts() {
        let lost = [Role::InSync, Role::Failed(6)];
        let all = assemble(&names(2), &[record(1, 5, BOTH), record(0, 6, &lost)]).unwrap();
        assert_eq!((all.found, all.missing), (vec![Found::Behind(1), Found::Member(0)], vec![]));
        // The member that is behind alone cannot know.
        let all = assemble(&names(1), &[record(1, 5, BOTH)]).unwrap();
        assert_eq!(all.missing, [0]);
        assert!(assemble(&names(2), &[None, None]).is_err());
        let all = assemble(&names(2), &[None, record(0, 5, BOTH)]).unwrap();
        assert_eq!((all.found[0], all.missing), (Found::Stranger, vec![1]));
    }

    #[test]
    fn members_that_were_used_apart_are_refused() {
        let (one, other) = ([Role::InSync, Role::Failed(7)], [Role::Failed(7), Role::InSync]);
        let refused = |a: Option<Record>, b: Option<Record>| {
            assemble(&names(2), &[a, b]).err().is_some_and(|why| why.contains("without each other"))
        };
        assert!(refused(record(0, 7, &one), record(1, 7, &other)));
        assert!(refused(record(0, 9, &one), record(1, 7, &other)));
        assert!(refused(record(0, 7, &one), record(1, 8, &other)));
        assert!(!refused(record(0, 9, &one), record(1, 6, BOTH)));
    }

    #[test]
    fn copies_of_a_member_and_members_of_other_arrays_are_refused() {
        let copies = [record(0, 7, BOTH), record(0, 7, BOTH)];
        assert!(assemble(&names(2), &copies).unwrap_err().contains("disk 1 is a copy"));
        let mut other = record(1, 7, BOTH);
        other.as_mut().unwrap().saved.array = Uuid([8; 16]);
        assert!(assemble(&names(2), &[record(0, 7, BOTH), other]).unwrap_err().contains("different arrays"));
    }

    #[test]
    fn all_bits_of_members_in_use_count() {
        let mut records = [record(0, 7, BOTH), record(1, 6, BOTH)];
        for (at, record) in records.iter_mut().enumerate() {
            let saved = &mut record.as_mut().unwrap().saved;
            saved.bits.insert(at as u64);
            saved.is_clean = at == 0;
        }
        let all = assemble(&names(2), &records).unwrap();
        assert_eq!((all.saved.bits.count(), all.saved.is_clean), (2, false));
    }
}
