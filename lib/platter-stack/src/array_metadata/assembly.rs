//! Selects the devices that form an array, and explains why the others do not.

use super::record::{Phase, Record, Slots, Uuid};
use std::collections::BTreeSet;
use std::fmt;

/// A device that may be a member.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its name for messages.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// The contents of its slots.
    pub slots: Slots,
}

/// Selects an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Select {
    /// The only array found.
    Any,
    /// By number.
    Uuid(Uuid),
    /// By name.
    Name(String),
}

impl Select {
    /// Whether a record belongs to the selected array.
    pub fn matches(&self, record: &Record) -> bool {
        match self {
            Select::Any => true,
            Select::Uuid(uuid) => record.array == *uuid,
            Select::Name(name) => record.name == *name,
        }
    }
}

/// A complete array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Its members in order: the index of each among the candidates, and its record.
    pub members: Vec<(usize, Record)>,
}

/// Why candidates do not form an array. Strings name devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The device has no record.
    NoRecord(String),
    /// The device has records, and both are damaged.
    Damaged(String, String),
    /// The device is a member of another array.
    Foreign(String, String, Uuid),
    /// There are several arrays and none was selected.
    Ambiguous(Vec<(String, Uuid)>),
    /// Two devices are the same member.
    Duplicate(String, String, u32),
    /// Members of an array are missing.
    Missing {
        /// The array's name and number.
        array: (String, Uuid),
        /// Number of members of the array.
        members: u32,
        /// The places of the missing members, with their numbers where other members list them.
        missing: Vec<(u32, Option<Uuid>)>,
    },
    /// The device missed the last change of the array: its sequence number, and the newest.
    Stale(String, u64, u64),
    /// The record of the device contradicts those of the other members in the named property.
    Disagrees(String, &'static str),
    /// The device is smaller than it was: bytes now, bytes needed.
    Shrunk(String, u64, u64),
    /// The array was never completed: its creation was interrupted.
    Unfinished(String),
    /// The array was being wiped.
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
                write!(f, "{device} has a different {what} than the other members")
            }
            Problem::Shrunk(device, now, needed) => {
                write!(f, "{device} has {now} bytes, and the array needs {needed} of it: it has shrunk")
            }
            Problem::Unfinished(name) => {
                write!(
                    f,
                    "the creation of the array \"{name}\" was interrupted; create it again with --force, or remove what is \
                     left of it with `raid wipe --force`"
                )
            }
            Problem::Retired(name) => {
                write!(f, "the array \"{name}\" was being wiped; wipe it again to finish")
            }
        }
    }
}

/// Most runs of numbers that a message lists.
const LISTED: usize = 16;

/// Lists a few members by place and number. Lists many members, or members with unknown numbers, by place
/// only.
fn missing_members(missing: &[(u32, Option<Uuid>)]) -> String {
    let one = |&(place, member): &(u32, Option<Uuid>)| Some(format!("{place} (member {})", member?));
    let few = (missing.len() <= LISTED).then(|| missing.iter().map(one).collect::<Option<Vec<_>>>());
    match few.flatten() {
        Some(named) => named.join(", "),
        None => runs(&missing.iter().map(|&(place, _)| place).collect::<Vec<_>>()),
    }
}

/// Ascending numbers as text, runs as first and last; with very many runs only the first ones.
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

/// Assembles the array that `select` selects from `candidates`, in any order.
///
/// # Errors
/// All problems found.
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

/// The selected array.
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

/// An array that some records describe.
struct Known<'a> {
    record: &'a Record,
    /// It was committed at some time.
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

    /// Whether another array on the same devices takes precedence. Where a new array is created over an old
    /// one, the old one is complete until its first record is overwritten, which happens only after the new
    /// one is prepared on all members.
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

/// Checks that the last change was completed and that every member took part in it.
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
    // A change is committed on any member only after it was prepared on all.
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
    if !missing.is_empty() {
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
