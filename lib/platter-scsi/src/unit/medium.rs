//! Commands that reach the medium.

use super::{
    Action, Failure, Handler, Key, Plan, Response, Step, Unit, at_field, field, invalid, invalid_parameter,
};
use crate::cdb::{self, Cdb, Command, Direction};
use crate::effect::{count, descriptor_range};
use alloc::vec;
use alloc::vec::Vec;

pub(super) const HANDLERS: &[(&Command, Handler)] = &[
    (&cdb::READ_6, read),
    (&cdb::READ_10, read),
    (&cdb::READ_12, read),
    (&cdb::READ_16, read),
    (&cdb::WRITE_6, write),
    (&cdb::WRITE_10, write),
    (&cdb::WRITE_12, write),
    (&cdb::WRITE_16, write),
    (&cdb::WRITE_AND_VERIFY_10, write_and_verify),
    (&cdb::WRITE_AND_VERIFY_12, write_and_verify),
    (&cdb::WRITE_AND_VERIFY_16, write_and_verify),
    (&cdb::COMPARE_AND_WRITE, compare_and_write),
    (&cdb::VERIFY_10, verify),
    (&cdb::VERIFY_12, verify),
    (&cdb::VERIFY_16, verify),
    (&cdb::SYNCHRONIZE_CACHE_10, synchronize),
    (&cdb::SYNCHRONIZE_CACHE_16, synchronize),
    (&cdb::UNMAP, unmap),
    (&cdb::WRITE_SAME_10, write_same),
    (&cdb::WRITE_SAME_16, write_same),
];

const LBA: &str = "LOGICAL BLOCK ADDRESS";
const BLOCKS: &str = "NUMBER OF LOGICAL BLOCKS";

const OUT_OF_RANGE: Failure = Failure::new(Key::ILLEGAL_REQUEST, 0x21, 0);

/// Most blocks of one COMPARE AND WRITE: an initiator replaces a record by it, and others wait meanwhile.
const MAX_COMPARE: u64 = 128;

/// Most blocks of one UNMAP: some initiators take larger numbers for a mistake.
const MAX_UNMAP: u64 = 1 << 20;

/// Most descriptors of one UNMAP.
pub(super) const UNMAP_DESCRIPTORS: u64 = 256;

impl Unit {
    /// Most blocks that one UNMAP may name.
    pub(super) fn max_unmap(&self) -> u64 {
        self.max_blocks_without_data().min(MAX_UNMAP)
    }

    /// Most blocks that one WRITE SAME may name.
    pub(super) fn max_blocks_without_data(&self) -> u64 {
        (self.geometry.limits.max_discard.max(self.block()) / self.block()).min(u64::from(u32::MAX))
    }

    /// Most blocks of one COMPARE AND WRITE, whose data is twice as long.
    pub(super) fn max_compare(&self) -> u64 {
        (self.max_transfer / 2 / self.block()).min(MAX_COMPARE)
    }

    /// Range in bytes of the blocks that a command names.
    fn range(&self, cdb: &Cdb, blocks: u64) -> Result<(u64, u64), Failure> {
        let lba = field(cdb, LBA);
        match lba.checked_add(blocks) {
            Some(end) if end <= self.blocks() => Ok((lba * self.block(), blocks * self.block())),
            _ => Err(at_field(cdb, LBA, OUT_OF_RANGE)),
        }
    }

    /// The same, of a command that transfers these blocks.
    fn transfer(&self, cdb: &Cdb, name: &str, blocks: u64) -> Result<(u64, u64), Failure> {
        if blocks > self.max_transfer / self.block() {
            return Err(invalid(cdb, name));
        }
        self.range(cdb, blocks)
    }
}

/// Protection information is not supported.
fn refuse_protection(cdb: &Cdb) -> Result<(), Failure> {
    let set = ["RDPROTECT", "WRPROTECT", "VRPROTECT"].into_iter().find(|name| field(cdb, name) != 0);
    set.map_or(Ok(()), |name| Err(invalid(cdb, name)))
}

/// Bytes of data that a command takes from the initiator.
pub(super) fn data_out_bytes(unit: &Unit, cdb: &Cdb) -> u64 {
    let blocks = |count: u64| count.saturating_mul(unit.block());
    let opcode = cdb.command().opcode;
    if cdb.command().direction != Direction::Out {
        return 0;
    }
    if opcode == cdb::COMPARE_AND_WRITE.opcode {
        return blocks(2 * field(cdb, BLOCKS));
    }
    if [cdb::WRITE_SAME_10.opcode, cdb::WRITE_SAME_16.opcode].contains(&opcode) {
        return blocks(u64::from(field(cdb, "NDOB") == 0));
    }
    if [cdb::VERIFY_10.opcode, cdb::VERIFY_12.opcode, cdb::VERIFY_16.opcode].contains(&opcode) {
        let compares = field(cdb, "BYTCHK") == 1;
        return if compares { blocks(field(cdb, "VERIFICATION LENGTH")) } else { 0 };
    }
    match cdb.get("PARAMETER LIST LENGTH") {
        Some(bytes) => bytes,
        None => blocks(count(cdb, "TRANSFER LENGTH")),
    }
}

/// The initiator sent fewer bytes than the command needs.
fn needs(data_out: &[u8], len: u64) -> Result<(), Failure> {
    if (data_out.len() as u64) < len { Err(Failure::new(Key::ABORTED_COMMAND, 0x4b, 0)) } else { Ok(()) }
}

fn steps(all: Vec<Step>) -> Plan {
    match all.iter().all(|step| step.len == 0 && step.action != Action::Flush) {
        true => Plan::Done(Response::GOOD),
        false => Plan::Steps(all),
    }
}

fn read(unit: &Unit, cdb: &Cdb, _: &[u8]) -> Result<Plan, Failure> {
    refuse_protection(cdb)?;
    let (pos, len) = unit.transfer(cdb, "TRANSFER LENGTH", count(cdb, "TRANSFER LENGTH"))?;
    let mut all = vec![Step { action: Action::Read { at: 0 }, pos, len }];
    // A read with FUA returns what the medium holds, so what is in a volatile cache has to reach it first.
    if field(cdb, "FUA") != 0
        && unit.geometry.features.write_cache
        && !unit.geometry.features.read_only
        && len > 0
    {
        all.insert(0, Step { action: Action::Flush, pos, len });
    }
    Ok(steps(all))
}

fn write(unit: &Unit, cdb: &Cdb, data_out: &[u8]) -> Result<Plan, Failure> {
    refuse_protection(cdb)?;
    let (pos, len) = unit.transfer(cdb, "TRANSFER LENGTH", count(cdb, "TRANSFER LENGTH"))?;
    writable(unit)?;
    needs(data_out, len)?;
    let fua = field(cdb, "FUA") != 0 || unit.modes.write_through;
    Ok(steps(vec![Step { action: Action::Write { at: 0, fua }, pos, len }]))
}

/// The data is read back after it has become durable, so from the medium as far as the device tells.
fn write_and_verify(unit: &Unit, cdb: &Cdb, data_out: &[u8]) -> Result<Plan, Failure> {
    refuse_protection(cdb)?;
    let (pos, len) = unit.transfer(cdb, "TRANSFER LENGTH", count(cdb, "TRANSFER LENGTH"))?;
    let check = match field(cdb, "BYTCHK") {
        0 => Action::Verify,
        1 => Action::Compare { at: 0 },
        _ => return Err(invalid(cdb, "BYTCHK")),
    };
    writable(unit)?;
    needs(data_out, len)?;
    let write = Step { action: Action::Write { at: 0, fua: true }, pos, len };
    Ok(steps(vec![write, Step { action: check, pos, len }]))
}

/// The first half of the data is compared, the second is written. The caller keeps other commands away from the range.
fn compare_and_write(unit: &Unit, cdb: &Cdb, data_out: &[u8]) -> Result<Plan, Failure> {
    refuse_protection(cdb)?;
    let blocks = field(cdb, BLOCKS);
    if blocks > unit.max_compare() {
        return Err(invalid(cdb, BLOCKS));
    }
    let (pos, len) = unit.range(cdb, blocks)?;
    writable(unit)?;
    needs(data_out, 2 * len)?;
    let fua = field(cdb, "FUA") != 0 || unit.modes.write_through;
    let compare = Step { action: Action::Compare { at: 0 }, pos, len };
    Ok(steps(vec![compare, Step { action: Action::Write { at: len, fua }, pos, len }]))
}

fn writable(unit: &Unit) -> Result<(), Failure> {
    if unit.is_write_protected() { Err(unit.write_protected()) } else { Ok(()) }
}

fn verify(unit: &Unit, cdb: &Cdb, data_out: &[u8]) -> Result<Plan, Failure> {
    refuse_protection(cdb)?;
    let (pos, len) = unit.transfer(cdb, "VERIFICATION LENGTH", field(cdb, "VERIFICATION LENGTH"))?;
    let action = match field(cdb, "BYTCHK") {
        0 => Action::Verify,
        1 => {
            needs(data_out, len)?;
            Action::Compare { at: 0 }
        }
        _ => return Err(invalid(cdb, "BYTCHK")),
    };
    Ok(steps(vec![Step { action, pos, len }]))
}

fn synchronize(unit: &Unit, cdb: &Cdb, _: &[u8]) -> Result<Plan, Failure> {
    let (pos, len) = unit.range(cdb, field(cdb, BLOCKS))?;
    // No blocks: all from the address on.
    let len = if len == 0 { unit.blocks() * unit.block() - pos } else { len };
    if unit.geometry.features.read_only {
        return Ok(Plan::Done(Response::GOOD));
    }
    Ok(Plan::Steps(vec![Step { action: Action::Flush, pos, len }]))
}

/// The whole units of discard inside a range. UNMAP is a hint for the rest.
fn discard(unit: &Unit, pos: u64, len: u64) -> Option<Step> {
    let granularity = u64::from(unit.geometry.limits.discard_granularity).max(unit.block());
    let from = pos.next_multiple_of(granularity);
    let end = match pos + len {
        end if end == unit.blocks() * unit.block() => end,
        end => end / granularity * granularity,
    };
    (from < end).then(|| Step { action: Action::Discard, pos: from, len: end - from })
}

fn unmap(unit: &Unit, cdb: &Cdb, data_out: &[u8]) -> Result<Plan, Failure> {
    if !unit.can_discard() {
        return Err(super::INVALID_OPCODE);
    }
    if field(cdb, "ANCHOR") != 0 {
        return Err(invalid(cdb, "ANCHOR"));
    }
    let list = field(cdb, "PARAMETER LIST LENGTH");
    writable(unit)?;
    if list == 0 {
        return Ok(Plan::Done(Response::GOOD));
    }
    needs(data_out, list)?;
    let list = &data_out[..list as usize];
    if list.len() < 8 {
        return Err(at_field(cdb, "PARAMETER LIST LENGTH", Failure::new(Key::ILLEGAL_REQUEST, 0x1a, 0)));
    }
    let stated = usize::from(u16::from_be_bytes([list[2], list[3]]));
    let descriptors = list[8..].get(..stated).unwrap_or(&list[8..]).chunks_exact(16);
    if descriptors.len() as u64 > UNMAP_DESCRIPTORS {
        return Err(invalid_parameter(0x26, 2));
    }
    let (mut all, mut sum) = (Vec::new(), 0);
    for (at, descriptor) in descriptors.enumerate() {
        let (lba, blocks) = descriptor_range(descriptor);
        if lba.checked_add(blocks).is_none_or(|end| end > unit.blocks()) {
            return Err(invalid_parameter(0x21, 8 + 16 * at));
        }
        sum += blocks;
        if sum > unit.max_unmap() {
            return Err(invalid_parameter(0x26, 16 + 16 * at));
        }
        all.extend(discard(unit, lba * unit.block(), blocks * unit.block()));
    }
    Ok(steps(all))
}

fn write_same(unit: &Unit, cdb: &Cdb, data_out: &[u8]) -> Result<Plan, Failure> {
    refuse_protection(cdb)?;
    if field(cdb, "ANCHOR") != 0 {
        return Err(invalid(cdb, "ANCHOR"));
    }
    if field(cdb, "UNMAP") != 0 && !unit.can_discard() {
        return Err(invalid(cdb, "UNMAP"));
    }
    let blocks = field(cdb, BLOCKS);
    // WSNZ is set in VPD page B0h: no blocks do not mean all.
    if blocks == 0 || blocks > unit.max_blocks_without_data() {
        return Err(invalid(cdb, BLOCKS));
    }
    let (pos, len) = unit.range(cdb, blocks)?;
    writable(unit)?;
    let no_data = field(cdb, "NDOB") != 0;
    let block = unit.block();
    if !no_data {
        needs(data_out, block)?;
    }
    let zeroes = no_data || data_out[..block as usize].iter().all(|byte| *byte == 0);
    let action = match zeroes {
        true if unit.geometry.limits.write_zeroes => Action::WriteZeroes,
        _ if no_data => return Err(invalid(cdb, "NDOB")),
        _ => Action::Fill { block },
    };
    let mut all = vec![Step { action, pos, len }];
    if unit.modes.write_through {
        all.push(Step { action: Action::Flush, pos, len });
    }
    Ok(steps(all))
}
