//! What a command may do to the blocks of a disk, told from its bytes.
//!
//! [`of`] is for code that passes commands on without carrying them out: a queue that orders them among other I/O, a
//! cache that must stay coherent, a partition that keeps commands inside its range. The answer holds for every disk
//! that follows SBC-3, not only for [`Unit`](crate::unit::Unit): it never covers less than what a disk does.

use crate::cdb::{self, Cdb, Command};

/// Logical blocks, from the first up to, but without, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The first logical block address.
    pub from: u64,
    /// The address after the last one; `u64::MAX` where the range goes to the end of the medium.
    pub end: u64,
}

/// How far an effect reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// No block.
    Nothing,
    /// At most these blocks.
    Blocks(Blocks),
    /// Any block, and perhaps state that other commands depend on.
    Anything,
}

/// What a command may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    /// Contents that the command reads or whose state it reports.
    pub reads: Reach,
    /// Contents that it may change.
    pub changes: Reach,
    /// What is to be durable when it has ended: its own data, or what was written before.
    pub durable: Reach,
}

/// Where the range of a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// It names no blocks.
    None,
    /// At the address; this field has the number of blocks.
    Field(&'static str),
    /// The same; none are all up to the end of the medium.
    FieldOrEnd(&'static str),
    /// From the address to the end of the medium.
    End,
    /// In the parameter list of UNMAP.
    List,
    /// It names none, but all may be concerned.
    All,
}

/// When a command asks that data be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Durable {
    No,
    Always,
    /// With FUA.
    Fua,
    /// When it stops the unit, unless NO_FLUSH is set.
    Stop,
}

/// The effect of a command as data.
struct Row {
    command: &'static Command,
    reads: bool,
    changes: bool,
    durable: Durable,
    extent: Extent,
}

const fn row(command: &'static Command, reads: bool, changes: bool, durable: Durable, extent: Extent) -> Row {
    Row { command, reads, changes, durable, extent }
}

/// A command about the device, not about blocks.
const fn none(command: &'static Command) -> Row {
    row(command, false, false, Durable::No, Extent::None)
}

/// A command that changes what other commands of any initiator get: it may change anything.
const fn state(command: &'static Command) -> Row {
    row(command, false, true, Durable::No, Extent::All)
}

const TRANSFER: Extent = Extent::Field("TRANSFER LENGTH");
const VERIFICATION: Extent = Extent::Field("VERIFICATION LENGTH");
const BLOCKS: Extent = Extent::Field("NUMBER OF LOGICAL BLOCKS");
const BLOCKS_OR_END: Extent = Extent::FieldOrEnd("NUMBER OF LOGICAL BLOCKS");

/// Every command of [`cdb::TABLE`], in its order.
static ROWS: &[Row] = &[
    none(&cdb::TEST_UNIT_READY),
    none(&cdb::REQUEST_SENSE),
    row(&cdb::READ_6, true, false, Durable::No, TRANSFER),
    row(&cdb::WRITE_6, false, true, Durable::No, TRANSFER),
    none(&cdb::INQUIRY),
    state(&cdb::MODE_SELECT_6),
    none(&cdb::MODE_SENSE_6),
    row(&cdb::START_STOP_UNIT, false, true, Durable::Stop, Extent::All),
    none(&cdb::READ_CAPACITY_10),
    row(&cdb::READ_10, true, false, Durable::Fua, TRANSFER),
    row(&cdb::WRITE_10, false, true, Durable::Fua, TRANSFER),
    row(&cdb::WRITE_AND_VERIFY_10, true, true, Durable::Always, TRANSFER),
    row(&cdb::VERIFY_10, true, false, Durable::No, VERIFICATION),
    row(&cdb::SYNCHRONIZE_CACHE_10, false, false, Durable::Always, BLOCKS_OR_END),
    row(&cdb::WRITE_SAME_10, false, true, Durable::No, BLOCKS_OR_END),
    row(&cdb::UNMAP, false, true, Durable::No, Extent::List),
    none(&cdb::LOG_SENSE),
    state(&cdb::MODE_SELECT_10),
    none(&cdb::MODE_SENSE_10),
    none(&cdb::PERSISTENT_RESERVE_IN_READ_KEYS),
    none(&cdb::PERSISTENT_RESERVE_IN_READ_RESERVATION),
    none(&cdb::PERSISTENT_RESERVE_IN_REPORT_CAPABILITIES),
    none(&cdb::PERSISTENT_RESERVE_IN_READ_FULL_STATUS),
    state(&cdb::PERSISTENT_RESERVE_OUT_REGISTER),
    state(&cdb::PERSISTENT_RESERVE_OUT_RESERVE),
    state(&cdb::PERSISTENT_RESERVE_OUT_RELEASE),
    state(&cdb::PERSISTENT_RESERVE_OUT_CLEAR),
    state(&cdb::PERSISTENT_RESERVE_OUT_PREEMPT),
    state(&cdb::PERSISTENT_RESERVE_OUT_PREEMPT_AND_ABORT),
    state(&cdb::PERSISTENT_RESERVE_OUT_REGISTER_AND_IGNORE_EXISTING_KEY),
    row(&cdb::READ_16, true, false, Durable::Fua, TRANSFER),
    row(&cdb::COMPARE_AND_WRITE, true, true, Durable::Fua, BLOCKS),
    row(&cdb::WRITE_16, false, true, Durable::Fua, TRANSFER),
    row(&cdb::WRITE_AND_VERIFY_16, true, true, Durable::Always, TRANSFER),
    row(&cdb::VERIFY_16, true, false, Durable::No, VERIFICATION),
    row(&cdb::SYNCHRONIZE_CACHE_16, false, false, Durable::Always, BLOCKS_OR_END),
    row(&cdb::WRITE_SAME_16, false, true, Durable::No, BLOCKS_OR_END),
    none(&cdb::READ_CAPACITY_16),
    row(&cdb::GET_LBA_STATUS, true, false, Durable::No, Extent::End),
    none(&cdb::REPORT_LUNS),
    none(&cdb::REPORT_TARGET_PORT_GROUPS),
    none(&cdb::REPORT_SUPPORTED_OPERATION_CODES),
    none(&cdb::REPORT_SUPPORTED_TASK_MANAGEMENT_FUNCTIONS),
    row(&cdb::READ_12, true, false, Durable::Fua, TRANSFER),
    row(&cdb::WRITE_12, false, true, Durable::Fua, TRANSFER),
    row(&cdb::WRITE_AND_VERIFY_12, true, true, Durable::Always, TRANSFER),
    row(&cdb::VERIFY_12, true, false, Durable::No, VERIFICATION),
];

impl Blocks {
    /// A number of blocks from an address, cut at the last address.
    pub const fn new(from: u64, blocks: u64) -> Blocks {
        Blocks { from, end: from.saturating_add(blocks) }
    }

    /// The bytes of these blocks: the first, and the one after the last, as far as positions go.
    pub const fn bytes(self, block: u32) -> (u64, u64) {
        (self.from.saturating_mul(block as u64), self.end.saturating_mul(block as u64))
    }
}

impl Reach {
    /// These blocks, or nothing if there are none.
    const fn of(blocks: Blocks) -> Reach {
        if blocks.from < blocks.end { Reach::Blocks(blocks) } else { Reach::Nothing }
    }

    /// Whether all of these blocks are within reach.
    pub const fn covers(self, blocks: Blocks) -> bool {
        match self {
            Reach::Nothing => blocks.from >= blocks.end,
            Reach::Blocks(own) => {
                blocks.from >= blocks.end || own.from <= blocks.from && blocks.end <= own.end
            }
            Reach::Anything => true,
        }
    }

    /// The smallest reach that covers both.
    #[must_use]
    pub fn join(self, other: Reach) -> Reach {
        match (self, other) {
            (Reach::Nothing, reach) | (reach, Reach::Nothing) => reach,
            (Reach::Blocks(a), Reach::Blocks(b)) => {
                Reach::Blocks(Blocks { from: a.from.min(b.from), end: a.end.max(b.end) })
            }
            _ => Reach::Anything,
        }
    }

    /// Whether both may concern the same block.
    pub const fn overlaps(self, other: Reach) -> bool {
        match (self, other) {
            (Reach::Nothing, _) | (_, Reach::Nothing) => false,
            (Reach::Blocks(a), Reach::Blocks(b)) => a.from < b.end && b.from < a.end,
            _ => true,
        }
    }
}

impl Effect {
    /// Of a command that is not known: it may do anything.
    pub const ANYTHING: Effect =
        Effect { reads: Reach::Anything, changes: Reach::Anything, durable: Reach::Anything };

    /// Whether two commands, or a command and other I/O, give the same result in either order.
    pub const fn commutes(self, other: Effect) -> bool {
        !(self.changes.overlaps(other.changes)
            || self.changes.overlaps(other.reads)
            || self.reads.overlaps(other.changes))
    }
}

/// The effect of the command that these bytes are, with its data from the initiator, which only UNMAP needs: `None` if
/// the caller does not have it. Commands that are not in [`cdb::TABLE`], are too short, or have a bit set that no field
/// has, may do anything.
pub fn of(bytes: &[u8], data_out: Option<&[u8]>) -> Effect {
    match Cdb::decode(bytes) {
        Ok(cdb) if cdb.reserved().is_none() => of_command(&cdb, data_out),
        _ => Effect::ANYTHING,
    }
}

fn of_command(cdb: &Cdb, data_out: Option<&[u8]>) -> Effect {
    let Some(row) = find(cdb.command()) else { return Effect::ANYTHING };
    let reach = reach(row.extent, cdb, data_out);
    let only = |is: bool| if is { reach } else { Reach::Nothing };
    Effect { reads: only(row.reads), changes: only(row.changes), durable: only(is_durable(row.durable, cdb)) }
}

fn find(command: &Command) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.command == command)
}

/// Whether carrying a command out may change contents of the medium.
pub fn changes_medium(command: &Command) -> bool {
    find(command).is_some_and(|row| row.changes && row.extent != Extent::All)
}

fn is_durable(durable: Durable, cdb: &Cdb) -> bool {
    let is_set = |name| cdb.get(name).is_some_and(|value| value != 0);
    match durable {
        Durable::No => false,
        Durable::Always => true,
        Durable::Fua => is_set("FUA"),
        Durable::Stop => !is_set("START") && !is_set("NO_FLUSH"),
    }
}

fn reach(extent: Extent, cdb: &Cdb, data_out: Option<&[u8]>) -> Reach {
    let field = |name| cdb.get(name).unwrap_or(0);
    let from = field("LOGICAL BLOCK ADDRESS");
    let to_end = Reach::of(Blocks { from, end: u64::MAX });
    match extent {
        Extent::None => Reach::Nothing,
        Extent::Field(name) => Reach::of(Blocks::new(from, count(cdb, name))),
        Extent::FieldOrEnd(name) if field(name) == 0 => to_end,
        Extent::FieldOrEnd(name) => Reach::of(Blocks::new(from, field(name))),
        Extent::End => to_end,
        Extent::List => match (field("PARAMETER LIST LENGTH"), data_out) {
            (0, _) => Reach::Nothing,
            (_, Some(list)) => list_reach(list),
            (_, None) => Reach::Anything,
        },
        Extent::All => Reach::Anything,
    }
}

/// A number of blocks; 0 means 256 in the commands of six bytes.
pub(crate) fn count(cdb: &Cdb, name: &str) -> u64 {
    match cdb.get(name).unwrap_or(0) {
        0 if cdb.bytes().len() == 6 => 256,
        blocks => blocks,
    }
}

/// The ranges of UNMAP's parameter list together. Every descriptor counts, also behind the length that the list states.
fn list_reach(list: &[u8]) -> Reach {
    let descriptors = list.get(8..).unwrap_or_default().chunks_exact(16);
    descriptors.fold(Reach::Nothing, |reach, descriptor| {
        let (from, blocks) = descriptor_range(descriptor);
        reach.join(Reach::of(Blocks::new(from, blocks)))
    })
}

/// Address and number of blocks of a descriptor of UNMAP's parameter list, which has 16 bytes.
pub(crate) fn descriptor_range(descriptor: &[u8]) -> (u64, u64) {
    let number = |bytes: &[u8]| bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    (number(&descriptor[..8]), number(&descriptor[8..12]))
}

#[cfg(test)]
mod tests;
