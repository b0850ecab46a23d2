//! The proof that several paths lead to one disk.

use crate::LayerError;
use crate::array_metadata::{RECORD_BYTES, Record, SLOTS, Slots};
use crate::kit::Buffer;
use crate::reader::Reader;
use platter_block::backend::{Backend, DiskRange, LaneUse};
use platter_block::bio::{Bio, Flags};
use platter_block::command::{Command, CommandSet, Reach, Transfer};
use platter_block::fault::{Fault, Kind};
use std::fmt;
use std::sync::Arc;

/// What tells the disk behind a path from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    /// The designators of the logical unit in VPD page 83h: type and bytes of each.
    Unit(Vec<(u8, Vec<u8>)>),
    /// The record of a member of one of Platter's arrays.
    Member(Box<Record>),
    /// The disks of the system or of this process that it uses, and which part of them.
    DiskRanges(Vec<DiskRange>),
    /// Nothing; there is no other path.
    Alone,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Identity::Unit(designators) => {
                f.write_str("the logical unit")?;
                for (kind, bytes) in designators {
                    write!(f, " {kind}:")?;
                    match std::str::from_utf8(bytes).ok().filter(|text| text.chars().all(|c| !c.is_control()))
                    {
                        Some(text) => write!(f, "\"{}\"", text.trim())?,
                        None => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?,
                    }
                }
                Ok(())
            }
            Identity::Member(record) => {
                write!(f, "member {} ({}) of the array {}", record.index, record.member, record.array)
            }
            Identity::DiskRanges(ranges) => {
                let mut comma = "";
                for DiskRange { disk, begin, end } in ranges {
                    write!(f, "{comma}{disk:?} from byte {begin} to {end}")?;
                    comma = ", ";
                }
                Ok(())
            }
            Identity::Alone => f.write_str("a single path"),
        }
    }
}

/// Checks that all paths lead to one disk. Of the ways to tell, the first that all paths have is used.
///
/// # Errors
/// Two paths lead to different disks, or nothing tells that they do not.
pub(super) fn check(paths: &[Arc<dyn Backend>]) -> Result<Identity, LayerError> {
    for way in [of_unit, of_member, of_ground] {
        let found = paths.iter().map(way).collect::<Result<Option<Vec<Identity>>, LayerError>>()?;
        let Some(found) = found else { continue };
        let Some((first, others)) = found.split_first() else { continue };
        return match others.iter().position(|other| other != first) {
            None => Ok(first.clone()),
            Some(at) => Err(LayerError::Members(format!(
                "multipath: paths 0 ({}) and {} ({}) lead to different disks: {first}, and {}",
                paths[0].name(),
                at + 1,
                paths[at + 1].name(),
                others[at]
            ))),
        };
    }
    if paths.len() == 1 {
        return Ok(Identity::Alone);
    }
    let names: Vec<String> = paths.iter().map(|path| path.name().to_string()).collect();
    Err(LayerError::Members(format!(
        "multipath: nothing tells that the paths {} lead to one disk: they have no VPD page 83h, no record of an array of \
         Platter, and no common disk below",
        names.join(", ")
    )))
}

/// By VPD page 83h, where the path takes SCSI commands.
fn of_unit(path: &Arc<dyn Backend>) -> Result<Option<Identity>, LayerError> {
    let page = ask(path, &IDENTIFICATION)?;
    let designators = page.map(|page| designators(page.bytes())).filter(|all| !all.is_empty());
    Ok(designators.map(Identity::Unit))
}

/// INQUIRY for VPD page 83h.
pub(super) const IDENTIFICATION: [u8; 6] = [0x12, 1, 0x83, 0, 252, 0];

/// Sends a command that only asks, and waits for its data. `None`: the path takes no SCSI commands, or the command failed.
pub(super) fn ask(path: &Arc<dyn Backend>, cdb: &[u8]) -> Result<Option<Buffer>, LayerError> {
    if !path.geometry().features.commands.contains(CommandSet::Scsi) {
        return Ok(None);
    }
    let mut lane = path.open_lane(LaneUse::Synchronous).map_err(LayerError::Device)?;
    let room = room(path.geometry().limits.logical_block);
    for _ in 0..TRIES {
        let Some(command) = question(cdb).map(Arc::new) else { break };
        let Ok(mut bio) = Bio::with_command(Arc::clone(&command), Buffer::new(room)) else { break };
        bio.add_flags(Flags::SYNC);
        lane.submit(path.now(), bio);
        let mut done = Vec::new();
        while done.is_empty() {
            lane.wait(path.now(), None);
            lane.run(path.now());
            lane.take_done(&mut done);
        }
        let Some(outcome) = command.outcome() else { break };
        if outcome.is_good() {
            let answered = done.pop().filter(|bio| bio.status().is_ok());
            return Ok(answered.and_then(|mut bio| bio.take_buffer::<Buffer>()));
        }
    }
    Ok(None)
}

/// Room for the answer to a question.
pub(super) const ROOM: usize = 4096;

/// The same in whole blocks, as every device can transfer them.
pub(super) fn room(block: u32) -> usize {
    ROOM.next_multiple_of(block as usize)
}

/// How often a question is asked: each unit attention that the target has for the path takes one, since a program's command is
/// not sent again for it.
pub(super) const TRIES: usize = 9;

/// A command that only asks.
pub(super) fn question(cdb: &[u8]) -> Option<Command> {
    let command = Command::new(CommandSet::Scsi, cdb).ok()?;
    Some(command.with_transfer(Transfer::FromDevice).with_reach(Reach::Nothing))
}

/// The designators of the logical unit (ASSOCIATION 0) in VPD page 83h, sorted. Those of a port differ by path. Of the types
/// only those count that name one unit: T10 vendor ID, EUI-64, NAA and SCSI name string (SPC-4, designation descriptor).
fn designators(page: &[u8]) -> Vec<(u8, Vec<u8>)> {
    const NAMES_ONE: [u8; 4] = [1, 2, 3, 8];
    let its = |&(association, kind, bytes): &(u8, u8, &[u8])| {
        association == 0 && NAMES_ONE.contains(&kind) && !bytes.is_empty()
    };
    let mut found: Vec<_> =
        descriptors(page).filter(its).map(|(_, kind, bytes)| (kind, bytes.to_vec())).collect();
    found.sort_unstable();
    found
}

/// The designation descriptors of VPD page 83h: association, type and designator of each.
pub(super) fn descriptors(page: &[u8]) -> impl Iterator<Item = (u8, u8, &[u8])> {
    let stated = match page.get(..4) {
        Some(&[_, 0x83, high, low]) => 4 + usize::from(u16::from_be_bytes([high, low])),
        _ => 0,
    };
    let mut rest = page.get(4..stated.min(page.len())).unwrap_or_default();
    std::iter::from_fn(move || {
        let &[_, kind, _, len] = rest.get(..4)? else { return None };
        let end = 4 + usize::from(len);
        let bytes = rest.get(4..end)?;
        rest = rest.get(end..).unwrap_or_default();
        Some((kind >> 4 & 3, kind & 0xf, bytes))
    })
}

/// By the record of a member of an array.
fn of_member(path: &Arc<dyn Backend>) -> Result<Option<Identity>, LayerError> {
    let geometry = path.geometry();
    if geometry.size < SLOTS[1] + RECORD_BYTES as u64 || geometry.limits.logical_block as usize > RECORD_BYTES
    {
        return Ok(None);
    }
    let mut reader = Reader::open(path)?;
    let mut read = |at| reader.read("the record of an array", at, RECORD_BYTES);
    let [first, second] = [read(SLOTS[0])?, read(SLOTS[1])?];
    let slots = Slots::decode([&first, &second]);
    Ok(slots.newest().map(|record| Identity::Member(Box::new(record.clone()))))
}

/// By the disks below.
fn of_ground(path: &Arc<dyn Backend>) -> Result<Option<Identity>, LayerError> {
    let range = path.disk_ranges();
    Ok((!range.is_empty()).then_some(Identity::DiskRanges(range)))
}

/// Whether a failure is one of the path, not of the disk; but a disk that has shrunk is [`Kind::Gone`] beyond its end, too.
pub(super) fn is_of_path(fault: Fault) -> bool {
    matches!(fault.kind, Kind::Gone | Kind::TimedOut | Kind::Unsettled | Kind::Broken)
        || fault.is_of_transport()
}

/// Whether a read that ended so shows that a path works: the disk has answered, be it with an error of its own. What a queue or a
/// layer says in its place shows nothing.
pub(super) fn has_answered(fault: Option<Fault>) -> bool {
    let is_of_disk = |kind| matches!(kind, Kind::Io | Kind::Corrupt | Kind::Short);
    fault.is_none_or(|fault| is_of_disk(fault.kind) && !fault.is_of_transport())
}

/// Whether a queue refuses a flush because an earlier one did not reach the disk.
pub(super) fn was_not_delivered(fault: Fault) -> bool {
    let first = Fault::from_errno(i32::from(fault.errno));
    fault.kind == Kind::FlushFailed && (first.kind == Kind::Gone || first.is_of_transport())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn designators_of_ports_do_not_count() {
        let page = [
            0, 0x83, 0, 32, 1, 3, 0, 8, 0x50, 0, 0xc5, 0, 1, 2, 3, 4, 1, 0x14, 0, 4, 0, 0, 0, 2, 2, 1, 0, 4,
            b'a', b'b', b'c', b'd', 0, 0, 0, 0,
        ];
        let naa = (3, vec![0x50, 0, 0xc5, 0, 1, 2, 3, 4]);
        assert_eq!(designators(&page), [(1, b"abcd".to_vec()), naa]);
        assert_eq!(designators(&page[..20]).len(), 1, "cut off");
        assert_eq!(designators(&[0, 0x80, 0, 4, 1, 2, 3, 4]), []);
        assert_eq!(designators(&[0, 0x83, 0, 6, 1, 3, 0, 200, 1, 2]), []);
        let told = Identity::Unit(designators(&page)).to_string();
        assert_eq!(told, "the logical unit 1:\"abcd\" 3:5000c50001020304");
    }
}
