//! Changes of an array as a sequence of steps that survives a power cut between any two of them.

use super::record::{Layout, MAX_LISTED, MAX_SEQUENCE, Phase, RECORD_BYTES, Record, SLOTS, Slots, Uuid};
use crate::raid0::MAX_MEMBERS;
use platter_block::text::is_unsafe;

/// Start of the data on a member of a new array, in bytes: leaves room for the records and is a multiple of
/// every usual block, page and stripe size.
const DATA_OFFSET: u64 = 1 << 20;

/// One step. Each must be complete before the next begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write these bytes on a member.
    Write {
        /// The device, as an index in the list that the plan was made for.
        device: usize,
        /// Position in bytes.
        offset: u64,
        /// The data.
        bytes: Vec<u8>,
    },
    /// Make all earlier writes to a member durable.
    Flush {
        /// The device, as an index in the same list.
        device: usize,
    },
}

/// The description of an array to create.
#[derive(Clone, Debug)]
pub struct NewArray {
    /// Its UUID.
    pub array: Uuid,
    /// Its name, at most 64 bytes.
    pub name: String,
    /// Layout of the data.
    pub layout: Layout,
    /// Chunk size in bytes; 0 for [`Layout::Concat`].
    pub chunk: u64,
    /// For each member: its UUID and the size of its device in bytes.
    pub members: Vec<(Uuid, u64)>,
}

impl NewArray {
    /// The records of the members, in phase [`Phase::Prepared`] with sequence number 1.
    ///
    /// # Errors
    /// A name that is too long, too many members, or a member without room for data.
    pub fn records(&self) -> Result<Vec<Record>, String> {
        if self.name.len() > 64 {
            return Err(format!("the name \"{}\" has {} bytes; 64 are possible", self.name, self.name.len()));
        }
        if self.name.contains(is_unsafe) {
            return Err(format!("the name {:?} has control characters", self.name));
        }
        let count = self.members.len();
        let members = u32::try_from(count).ok().filter(|_| count <= MAX_MEMBERS);
        let Some(members) = members else {
            return Err(format!("{count} members are too many; the limit is {MAX_MEMBERS}"));
        };
        let listed: Vec<Uuid> = match members <= MAX_LISTED {
            true => self.members.iter().map(|(member, _)| *member).collect(),
            false => Vec::new(),
        };
        let unit = self.chunk.max(4096);
        let records = self.members.iter().zip(0..members).map(|(&(member, size), index)| {
            let data_size = size.saturating_sub(DATA_OFFSET) / unit * unit;
            if data_size == 0 {
                let least = DATA_OFFSET + unit;
                return Err(format!("member {index} has {size} bytes; it must have at least {least}"));
            }
            Ok(Record {
                array: self.array,
                name: self.name.clone(),
                member,
                listed: listed.clone(),
                index,
                members,
                layout: self.layout,
                chunk: self.chunk,
                data_offset: DATA_OFFSET,
                data_size,
                device_size: size,
                sequence: 1,
                phase: Phase::Prepared,
            })
        });
        records.collect()
    }
}

fn write(device: usize, slot: usize, record: &Record) -> Step {
    Step::Write { device, offset: SLOTS[slot], bytes: record.encode() }
}

/// The members of an array during a change, and the steps of the change. None overwrites the last record of a member.
struct Change {
    /// The last record of each member, and the slot that the next one goes to.
    members: Vec<(Record, usize)>,
    steps: Vec<Step>,
}

impl Change {
    /// Members that have these records.
    fn new(records: &[Record], slots: &[Slots]) -> Change {
        let members = records.iter().zip(slots).map(|(record, held)| (record.clone(), held.beside(record)));
        Change { members: members.collect(), steps: Vec::new() }
    }

    /// Writes a record with this sequence number and phase on each member whose last one is older, and then makes the
    /// records of all members durable.
    fn bring_to(&mut self, sequence: u64, phase: Phase) {
        for (device, (record, slot)) in self.members.iter_mut().enumerate() {
            if record.sequence < sequence {
                (record.sequence, record.phase) = (sequence, phase);
                self.steps.push(write(device, *slot, record));
                *slot = 1 - *slot;
            }
        }
        self.steps.extend((0..self.members.len()).map(|device| Step::Flush { device }));
    }
}

/// Creates an array on devices with the slots `slots`.
///
/// # Errors
/// See [`NewArray::records`].
pub fn create_plan(array: &NewArray, slots: &[Slots]) -> Result<Vec<Step>, String> {
    let records = array.records()?.into_iter();
    // None of them is on its member yet.
    let unwritten: Vec<Record> = records.map(|record| Record { sequence: 0, ..record }).collect();
    let mut change = Change::new(&unwritten, slots);
    change.bring_to(1, Phase::Prepared);
    change.bring_to(2, Phase::Committed);
    Ok(change.steps)
}

/// Commits the next sequence number to an assembled array, which marks every member as present from now on.
/// `records` are the newest records of the members, in the order of `slots`.
///
/// A change that was interrupted is first brought to the members that it has not reached. Otherwise this one, if it
/// is interrupted too, could leave them behind by two, and they would be taken for old copies. The change after that
/// has two phases of its own also if the interrupted one was only prepared: a copy of a member from before this
/// opening must be behind by two when it is over.
///
/// # Errors
/// No sequence number is left, which happens only with records that Platter has not written: later records
/// would be refused as damaged.
pub fn commit_plan(records: &[Record], slots: &[Slots]) -> Result<Vec<Step>, String> {
    let Some(newest) = records.iter().max_by_key(|record| record.sequence) else { return Ok(Vec::new()) };
    let sequence = newest.sequence;
    if sequence > MAX_SEQUENCE - 2 {
        return Err(format!(
            "the sequence number of its records is {sequence}, and a change needs two more up to {MAX_SEQUENCE}; \
             open the array to read only"
        ));
    }
    let mut change = Change::new(records, slots);
    // It makes all records durable also if none is missing: those that a process has left which was killed may be in
    // volatile caches alone.
    change.bring_to(sequence, newest.phase);
    change.bring_to(sequence + 1, Phase::Prepared);
    change.bring_to(sequence + 2, Phase::Committed);
    Ok(change.steps)
}

/// Removes the records of devices. The array is given up with the first durable write: what a power cut
/// leaves is recognised as the remains of a wiped array.
pub fn wipe_plan(slots: &[Slots]) -> Vec<Step> {
    let mut steps = Vec::new();
    for (device, held) in slots.iter().enumerate() {
        if let Some(newest) = held.newest() {
            let retired = Record { phase: Phase::Retired, sequence: newest.sequence + 1, ..newest.clone() };
            steps.push(write(device, held.older(), &retired));
            steps.push(Step::Flush { device });
        }
    }
    let zero = |device: usize, slot: usize| Step::Write {
        device,
        offset: SLOTS[slot],
        bytes: vec![0; RECORD_BYTES],
    };
    // The retired record is removed last.
    for (device, held) in slots.iter().enumerate() {
        for slot in [1 - held.older(), held.older()] {
            steps.push(zero(device, slot));
            steps.push(Step::Flush { device });
        }
    }
    steps
}
