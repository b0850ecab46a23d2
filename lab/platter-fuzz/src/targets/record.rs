//! Records of arrays, and the changes that are planned from them.

use super::hold;
use crate::bytes;
use crate::rng::Rng;
use crate::run::{Target, Verdict, check_message};
use platter_stack::array_metadata::{
    Candidate, Damage, Layout, NewArray, RECORD_BYTES, Record, Select, Slots, Step, Uuid, assemble,
    commit_plan, wipe_plan,
};

pub(super) const TARGET: Target = Target {
    name: "record",
    summary: "records of arrays, and the changes that are planned from them",
    generate: |rng| record(rng).encode(),
    mutate,
    read,
    memory: 4 << 20,
};

pub(super) fn uuid(rng: &mut Rng) -> Uuid {
    let byte = rng.below(4) as u8;
    Uuid([byte; 16])
}

/// A record as one is written, of an array of any shape.
fn record(rng: &mut Rng) -> Record {
    let count = *rng.pick(&[1u64, 1, 2, 3, 4, 239, 240, 241, 300]);
    let members = (0..count).map(|_| (uuid(rng), (1 << 22) + rng.below(1 << 30))).collect();
    let layout = *rng.pick(&[Layout::Raid0, Layout::Concat]);
    let chunk = if layout == Layout::Raid0 { 512 << rng.below(12) } else { 0 };
    let array =
        NewArray { array: uuid(rng), name: "data".repeat(rng.below(5) as usize), layout, chunk, members };
    let records = array.records().unwrap_or_default();
    records[rng.index(records.len())].clone()
}

/// Repairs the checksum of a record.
pub(super) fn mend(record: &mut Vec<u8>) {
    record.resize(RECORD_BYTES, 0);
    let sum = crc32c::crc32c(&record[..RECORD_BYTES - 4]);
    bytes::overwrite(record, RECORD_BYTES - 4, &sum.to_le_bytes());
}

/// Changes a field.
pub(super) fn change_field(rng: &mut Rng, record: &mut [u8]) {
    // Version, phase, sequence; layout, members, index; chunk, data offset, data size, device size; name.
    match *rng.pick(&[16usize, 20, 24, 64, 68, 72, 80, 88, 96, 104, 112, 150, 176]) {
        wide @ (24 | 80 | 88 | 96 | 104) => bytes::overwrite(record, wide, &rng.extreme(64).to_le_bytes()),
        name @ (112 | 150) => bytes::overwrite(record, name, &rng.any().to_le_bytes()),
        place => bytes::overwrite(record, place, &(rng.extreme(32) as u32).to_le_bytes()),
    }
}

fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    if rng.one_in(3) {
        bytes::mutate(rng, input, other);
    } else {
        change_field(rng, input);
    }
    if !rng.one_in(8) {
        mend(input);
    }
}

/// Carries out steps on slots in memory.
fn carry_out(steps: &[Step], slots: &mut [[Vec<u8>; 2]]) -> Result<(), String> {
    for step in steps {
        if let Step::Write { device, offset, bytes } = step {
            let slot = platter_stack::array_metadata::SLOTS.iter().position(|at| at == offset);
            let place = slot.and_then(|slot| slots.get_mut(*device)?.get_mut(slot));
            *place.ok_or_else(|| format!("a write at {offset} of device {device}"))? = bytes.clone();
        }
    }
    Ok(())
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let record = match Record::decode(input) {
        Ok(record) => record,
        Err(Damage::Nothing) => return Ok(Verdict::Refused("no record".to_owned())),
        Err(Damage::Damaged(what)) => return Ok(Verdict::Refused(what)),
    };
    hold(Record::decode(&record.encode()) == Ok(record.clone()), || {
        format!("{record:?} is written as another record")
    })?;
    let mut disks = [[input.to_vec(), vec![0; RECORD_BYTES]]];
    let slots = |disks: &[[Vec<u8>; 2]; 1]| Slots::decode([&disks[0][0], &disks[0][1]]);
    let before = slots(&disks);
    let candidate = Candidate { name: "disk".into(), size: u64::MAX, slots: before.clone() };
    let array = assemble(&Select::Any, std::slice::from_ref(&candidate));
    if let Ok(array) = &array {
        hold(array.members.len() as u32 == record.members, || {
            format!("one device as {} members", record.members)
        })?;
        match commit_plan(std::slice::from_ref(&record), std::slice::from_ref(&before)) {
            Ok(steps) => carry_out(&steps, &mut disks)?,
            Err(error) => return Ok(Verdict::Refused(error)),
        }
        let after = slots(&disks);
        let again = assemble(&Select::Any, &[Candidate { slots: after.clone(), ..candidate }]);
        hold(again.is_ok(), || format!("after a change: {again:?}"))?;
        let grew = after.newest().is_some_and(|newest| newest.sequence > record.sequence);
        hold(grew, || format!("{} is followed by {after:?}", record.sequence))?;
    }
    let held = slots(&disks);
    carry_out(&wipe_plan(&[held]), &mut disks)?;
    hold(slots(&disks).newest().is_none(), || "a record that was wiped is still there".to_owned())?;
    // Whether it makes an array alone or not, it is a record.
    for problem in array.err().into_iter().flatten() {
        check_message(&problem.to_string())?;
    }
    Ok(Verdict::Accepted)
}
