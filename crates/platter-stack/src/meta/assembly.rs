//! Which devices make an array, and why the others do not.

use super::record::{Phase, Record, Slots, Uuid};
use platter_block::planted::{self, Planted};
use std::collections::BTreeSet;
use std::fmt;

/// A device that may be a member.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its name for messages.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// What its slots hold.
    pub slots: Slots,
}

/// Which array is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Select {
    /// The only one there is.
    Any,
    /// By number.
    Uuid(Uuid),
    /// By name.
    Name(String),
}

impl Select {
    /// Whether a record is one of the array that is meant.
    pub fn matches(&self, record: &Record) -> bool {
        match self {
            Select::Any => true,
            Select::Uuid(uuid) => record.array == *uuid,
            Select::Name(name) => record.name == *name,
        }
    }
}

/// An array that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Its members in their order: the place of each among the candidates, and its record.
    pub members: Vec<(usize, Record)>,
}

/// Why candidates do not make an array. Devices are named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It is a member of nothing.
    NoRecord(String),
    /// It looks like a member, and both records are damaged.
    Damaged(String, String),
    /// It is a member of another array.
    Foreign(String, String, Uuid),
    /// Several arrays are there and none was chosen.
    Ambiguous(Vec<(String, Uuid)>),
    /// Two devices are the same member.
    Duplicate(String, String, u32),
    /// Members of an array that no device is.
    Missing {
        /// The array's name and number.
        array: (String, Uuid),
        /// How many members it has.
        members: u32,
        /// The places of the missing ones, with their numbers where the others know them.
        missing: Vec<(u32, Option<Uuid>)>,
    },
    /// It was not there when the array was last changed: its sequence number, and the newest.
    Stale(String, u64, u64),
    /// It says something else about the array than the others: what.
    Disagrees(String, &'static str),
    /// It is smaller than it was: bytes now, bytes needed.
    Shrunk(String, u64, u64),
    /// Making the array was cut short; it never held.
    Unfinished(String),
    /// The array was given up.
    Retired(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::NoRecord(device) => write!(f, "{device} is not a member of an array"),
            Problem::Damaged(device, what) => write!(f, "the records on {device} are damaged: {what}"),
            Problem::Foreign(device, name, uuid) => {
                write!(f, "{device} is a member of another array, \"{name}\" ({uuid})")
            }
            Problem::Ambiguous(arrays) => {
                write!(f, "these are members of several arrays; choose one with uuid= or name=:")?;
                arrays.iter().try_for_each(|(name, uuid)| write!(f, " \"{name}\" ({uuid})"))
            }
            Problem::Duplicate(first, second, index) => {
                write!(f, "{first} and {second} are both member {index}: one is a copy of the other")
            }
            Problem::Missing { array: (name, uuid), members, missing } => {
                write!(f, "the array \"{name}\" ({uuid}) has {members} members, and these are missing: ")?;
                f.write_str(&missing_members(missing))
            }
            Problem::Stale(device, has, newest) => write!(
                f,
                "{device} was left out of later changes (its sequence number is {has}, the newest {newest}): \
                 an old copy?"
            ),
            Problem::Disagrees(device, what) => {
                write!(f, "{device} has another {what} than the other members")
            }
            Problem::Shrunk(device, now, needed) => {
                write!(f, "{device} has {now} bytes, and the array needs {needed} of it: it has shrunk")
            }
            Problem::Unfinished(name) => {
                write!(f, "making the array \"{name}\" was cut short; make it again")
            }
            Problem::Retired(name) => {
                write!(f, "the array \"{name}\" was being wiped; wipe it again to finish")
            }
        }
    }
}

/// Most runs of numbers that a message lists.
const LISTED: usize = 16;

/// A few members by place and number; many, or members whose numbers are not known, by place only.
fn missing_members(missing: &[(u32, Option<Uuid>)]) -> String {
    let one = |&(place, member): &(u32, Option<Uuid>)| Some(format!("{place} (member {})", member?));
    let few = (missing.len() <= LISTED).then(|| missing.iter().map(one).collect::<Option<Vec<_>>>());
    match few.flatten() {
        Some(named) => named.join(", "),
        None => runs(&missing.iter().map(|&(place, _)| place).collect::<Vec<_>>()),
    }
}

/// Ascending numbers as text: runs of them by their ends, and only the first of very many.
fn runs(numbers: &[u32]) -> String {
    let (mut text, mut listed, mut told) = (Vec::new(), 0, 0);
    for run in numbers.chunk_by(|a, b| a.checked_add(1) == Some(*b)) {
        if listed == LISTED {
            text.push(format!("and {} more", numbers.len() - told));
            break;
        }
        text.push(match run {
            [first, .., last] if run.len() > 2 => format!("{first} to {last}"),
            few => few.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
        });
        listed += 1;
        told += run.len();
    }
    text.join(", ")
}

/// Finds the array that `select` means among `candidates`, in any order.
///
/// # Errors
/// Everything that speaks against it.
pub fn assemble(select: &Select, candidates: &[Candidate]) -> Result<Array, Vec<Problem>> {
    let chosen = choose(select, candidates)?;
    let mut problems = Vec::new();
    let mut members: Vec<(usize, Record)> = Vec::new();
    for (at, candidate) in candidates.iter().enumerate() {
        match own_record(candidate, chosen) {
            Ok(record) => members.push((at, record.clone())),
            Err(problem) => problems.push(problem),
        }
    }
    members.sort_by_key(|(at, record)| (record.index, *at));
    let name_of = |at: usize| candidates[at].name.clone();
    check_state(&members, &name_of, &mut problems);
    check_places(&members, &name_of, &mut problems);
    check_agreement(&members, &name_of, &mut problems);
    for (at, record) in &members {
        let (size, needed) = (candidates[*at].size, record.data_offset + record.data_size);
        if size < needed {
            problems.push(Problem::Shrunk(name_of(*at), size, needed));
        }
    }
    if problems.is_empty() { Ok(Array { members }) } else { Err(problems) }
}

/// The array that is meant.
fn choose(select: &Select, candidates: &[Candidate]) -> Result<Option<Uuid>, Vec<Problem>> {
    let mut known: Vec<Known<'_>> = Vec::new();
    for (at, candidate) in candidates.iter().enumerate() {
        for record in candidate.slots.records() {
            match known.iter_mut().find(|known| known.record.array == record.array) {
                Some(known) => known.add(at, record),
                None => known.push(Known::new(at, record)),
            }
        }
    }
    let mut chosen: Vec<&Known<'_>> = known.iter().filter(|&one| !one.gives_way(&known)).collect();
    chosen.retain(|known| select.matches(known.record));
    if chosen.iter().any(|known| known.is_complete()) {
        chosen.retain(|known| known.is_complete());
    }
    match chosen.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(only.record.array)),
        several => {
            let names = several.iter().map(|known| (known.record.name.clone(), known.record.array));
            Err(vec![Problem::Ambiguous(names.collect())])
        }
    }
}

/// An array that some records speak of.
struct Known<'a> {
    record: &'a Record,
    /// It has held at some time.
    is_born: bool,
    places: BTreeSet<u32>,
    /// The candidates that have a record of it.
    on: BTreeSet<usize>,
}

impl<'a> Known<'a> {
    fn new(at: usize, record: &'a Record) -> Known<'a> {
        let mut known = Known { record, is_born: false, places: BTreeSet::new(), on: BTreeSet::new() };
        known.add(at, record);
        known
    }

    fn add(&mut self, at: usize, record: &Record) {
        self.is_born |= record.phase != Phase::Prepared || record.sequence > 1;
        self.places.insert(record.index);
        self.on.insert(at);
    }

    fn is_complete(&self) -> bool {
        self.places.len() == self.record.members as usize
    }

    /// Whether another array on the same devices holds instead: of an old array and a new one that is made over
    /// it the old one is whole until the first record of its own goes, which is not before the new one has been
    /// prepared everywhere.
    fn gives_way(&self, all: &[Known<'_>]) -> bool {
        let rank = |known: &Known<'_>| (known.is_complete(), known.is_born);
        all.iter().any(|other| !other.on.is_disjoint(&self.on) && rank(other) > rank(self))
    }
}

/// The record by which a candidate belongs to the chosen array.
fn own_record(candidate: &Candidate, chosen: Option<Uuid>) -> Result<&Record, Problem> {
    let name = || candidate.name.clone();
    let Some(newest) = candidate.slots.newest() else {
        return Err(match candidate.slots.damage() {
            Some(what) => Problem::Damaged(name(), what.to_owned()),
            None => Problem::NoRecord(name()),
        });
    };
    let own = candidate.slots.records().filter(|record| Some(record.array) == chosen);
    own.max_by_key(|record| record.sequence)
        .ok_or_else(|| Problem::Foreign(name(), newest.name.clone(), newest.array))
}

/// Whether the last change holds, and whether every member was there.
fn check_state(members: &[(usize, Record)], name_of: &dyn Fn(usize) -> String, problems: &mut Vec<Problem>) {
    let Some((_, newest)) = members.iter().max_by_key(|(_, record)| record.sequence) else { return };
    if let Some((_, retired)) = members.iter().find(|(_, record)| record.phase == Phase::Retired) {
        return problems.push(Problem::Retired(retired.name.clone()));
    }
    let is_birth = newest.phase == Phase::Prepared && newest.sequence == 1;
    if is_birth && members.len() < newest.members as usize {
        return problems.push(Problem::Unfinished(newest.name.clone()));
    }
    for (at, record) in members {
        if record.sequence + 1 < newest.sequence {
            problems.push(Problem::Stale(name_of(*at), record.sequence, newest.sequence));
        }
    }
    // A change is committed somewhere only when it has been prepared everywhere.
    if newest.phase == Phase::Committed {
        for (at, record) in members {
            if record.sequence + 1 == newest.sequence && record.phase == Phase::Committed {
                problems.push(Problem::Stale(name_of(*at), record.sequence, newest.sequence));
            }
        }
    }
}

fn check_places(members: &[(usize, Record)], name_of: &dyn Fn(usize) -> String, problems: &mut Vec<Problem>) {
    for pair in members.windows(2) {
        if pair[0].1.index == pair[1].1.index {
            problems.push(Problem::Duplicate(name_of(pair[0].0), name_of(pair[1].0), pair[0].1.index));
        }
    }
    let Some((_, first)) = members.first() else { return };
    let is_there = |index: &u32| members.binary_search_by_key(index, |(_, record)| record.index).is_ok();
    let number = |index: u32| first.listed.get(index as usize).copied();
    let missing: Vec<(u32, Option<Uuid>)> =
        (0..first.members).filter(|index| !is_there(index)).map(|index| (index, number(index))).collect();
    if !missing.is_empty() && !planted::is_on(Planted::MembersMissing) {
        let array = (first.name.clone(), first.array);
        problems.push(Problem::Missing { array, members: first.members, missing });
    }
}

fn check_agreement(
    members: &[(usize, Record)],
    name_of: &dyn Fn(usize) -> String,
    problems: &mut Vec<Problem>,
) {
    let Some((_, first)) = members.first() else { return };
    for (at, record) in members {
        let what = match () {
            () if record.members != first.members => "number of members",
            () if record.layout != first.layout => "layout",
            () if record.chunk != first.chunk => "chunk",
            () if record.name != first.name => "name",
            () => continue,
        };
        problems.push(Problem::Disagrees(name_of(*at), what));
    }
}
