//! Changes of an array as steps in an order that survives a cut between any two.

use super::record::{Layout, MAX_LISTED, MAX_SEQUENCE, Phase, RECORD_BYTES, Record, SLOTS, Slots, Uuid};
use crate::raid0::MAX_MEMBERS;
use platter_block::text::is_unsafe;

/// Where data begins on a member of a new array: room for the records, and a multiple of every usual block,
/// page and stripe.
const DATA_OFFSET: u64 = 1 << 20;

/// One step. Each must have been done before the next begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write these bytes on a member.
    Write {
        /// Which device, by its place in the list that the plan was made for.
        device: usize,
        /// Where, in bytes.
        offset: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// Make what was written on a member durable.
    Flush {
        /// Which device.
        device: usize,
    },
}

/// An array to be made.
#[derive(Clone, Debug)]
pub struct NewArray {
    /// Its number.
    pub array: Uuid,
    /// Its name, at most 64 bytes.
    pub name: String,
    /// How data lies on its members.
    pub layout: Layout,
    /// Bytes on one member before the next; 0 for [`Layout::Concat`].
    pub chunk: u64,
    /// For each member: its number and the size of its device, in bytes.
    pub members: Vec<(Uuid, u64)>,
}

impl NewArray {
    /// The records of its members, prepared and with sequence number 1.
    ///
    /// # Errors
    /// A name that is too long, too many members, a member without room for data.
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
            return Err(format!("{count} members are too many; an array has at most {MAX_MEMBERS}"));
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
                return Err(format!("member {index} has {size} bytes; it takes at least {least}"));
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

/// Takes every member from what its slots hold to `records`, which are prepared: first prepared everywhere, then
/// committed everywhere, with the next sequence number.
fn two_phases(records: &[Record], slots: &[Slots]) -> Vec<Step> {
    let mut steps = Vec::with_capacity(records.len() * 4);
    let flushes = (0..records.len()).map(|device| Step::Flush { device });
    for (device, (record, held)) in records.iter().zip(slots).enumerate() {
        steps.push(write(device, held.older(), record));
    }
    steps.extend(flushes.clone());
    for (device, (record, held)) in records.iter().zip(slots).enumerate() {
        let committed = Record { phase: Phase::Committed, sequence: record.sequence + 1, ..record.clone() };
        steps.push(write(device, 1 - held.older(), &committed));
    }
    steps.extend(flushes);
    steps
}

/// Makes an array of devices whose slots hold what `slots` says.
///
/// # Errors
/// As for [`NewArray::records`].
pub fn create_plan(array: &NewArray, slots: &[Slots]) -> Result<Vec<Step>, String> {
    Ok(two_phases(&array.records()?, slots))
}

/// Begins a new turn of an array that was assembled: the sequence number that marks every member as having been
/// there. `records` are the newest of its members, in the order of `slots`.
///
/// # Errors
/// The sequence numbers are used up, which only records that Platter has not written say: the records of a further turn
/// would be refused as damaged.
pub fn commit_plan(records: &[Record], slots: &[Slots]) -> Result<Vec<Step>, String> {
    let newest = records.iter().map(|record| record.sequence).max().unwrap_or(0);
    if newest > MAX_SEQUENCE - 2 {
        return Err(format!(
            "the sequence number of its records is {newest}, and a change needs two more up to {MAX_SEQUENCE}; \
             open the array to read only"
        ));
    }
    let prepared: Vec<Record> = records
        .iter()
        .map(|record| Record { phase: Phase::Prepared, sequence: newest + 1, ..record.clone() })
        .collect();
    Ok(two_phases(&prepared, slots))
}

/// Removes the records of devices. The array is given up with the first durable write: what a cut leaves is
/// known as remains.
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
    // The retired record goes last.
    for (device, held) in slots.iter().enumerate() {
        for slot in [1 - held.older(), held.older()] {
            steps.push(zero(device, slot));
            steps.push(Step::Flush { device });
        }
    }
    steps
}
