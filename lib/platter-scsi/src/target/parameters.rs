//! Commands that change or report parameters of the unit: MODE SELECT, START STOP UNIT and LOG SENSE.

use super::{Handler, Nexus, Outcome, Target, TaskId};
use crate::cdb::{self, Cdb, Command};
use crate::sense::{Failure, Key};
use crate::unit::{
    Action, D_SENSE, Modes, Response, SWP, Step, WCE, at_field, changeable, field, invalid,
    invalid_parameter, pages, within,
};
use alloc::vec;
use alloc::vec::Vec;
use platter_block::driver::Geometry;

pub(super) const HANDLERS: &[(&Command, Handler)] = &[
    (&cdb::MODE_SELECT_6, mode_select),
    (&cdb::MODE_SELECT_10, mode_select),
    (&cdb::START_STOP_UNIT, start_stop),
    (&cdb::LOG_SENSE, log_sense),
];

const MODE_PARAMETERS_CHANGED: (u8, u8) = (0x2a, 0x01);

/// What has been read and written, for the General Statistics and Performance log page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    reads: u64,
    writes: u64,
    read_blocks: u64,
    written_blocks: u64,
}

impl Counts {
    pub(super) fn count(&mut self, steps: &[Step], geometry: &Geometry) {
        let block = u64::from(geometry.limits.logical_block);
        for step in steps {
            match step.action {
                Action::Read { .. } => {
                    self.reads += 1;
                    self.read_blocks += step.len / block;
                }
                Action::Write { .. } => {
                    self.writes += 1;
                    self.written_blocks += step.len / block;
                }
                _ => {}
            }
        }
    }
}

/// Takes the mode pages Caching and Control. Bits that cannot be changed must have their present values.
fn mode_select(
    target: &mut Target,
    (_, nexus): (TaskId, Nexus),
    cdb: &Cdb,
    data: &[u8],
) -> Result<Outcome, Failure> {
    // SP: there is nothing that keeps parameters over a restart.
    if field(cdb, "SP") != 0 {
        return Err(invalid(cdb, "SP"));
    }
    if field(cdb, "PF") == 0 {
        return Err(invalid(cdb, "PF"));
    }
    let length = field(cdb, "PARAMETER LIST LENGTH") as usize;
    if length == 0 {
        return Ok(Outcome::Respond(Response::GOOD));
    }
    let too_short = at_field(cdb, "PARAMETER LIST LENGTH", Failure::new(Key::ILLEGAL_REQUEST, 0x1a, 0));
    let data = data.get(..length).ok_or(too_short)?;
    let (header, descriptors) = match cdb.bytes().len() {
        6 => (4, data.get(3).map(|len| usize::from(*len))),
        _ => (8, data.get(6..8).map(|len| usize::from(u16::from_be_bytes([len[0], len[1]])))),
    };
    let mut at = header + descriptors.ok_or(too_short)?;
    if data.len() < at {
        return Err(too_short);
    }
    let mut modes = target.unit.modes();
    while at < data.len() {
        let length = select_page(target, &mut modes, data, at)?;
        at += length;
    }
    if modes != target.unit.modes() {
        target.unit.set_modes(modes);
        target.attend_all(MODE_PARAMETERS_CHANGED, Some(nexus));
    }
    Ok(Outcome::Respond(Response::GOOD))
}

/// Takes the mode page at `at`; returns its length.
fn select_page(target: &Target, modes: &mut Modes, data: &[u8], at: usize) -> Result<usize, Failure> {
    let page = &data[at..];
    let now = pages(&target.unit, target.unit.modes());
    let masks = changeable(&target.unit);
    // PS is reserved here.
    let code = page[0];
    let known = now.iter().zip(&masks).find(|(now, _)| now[0] == code);
    let (now, mask) = known.ok_or(invalid_parameter(0x26, at))?;
    if page.get(1) != Some(&now[1]) {
        return Err(invalid_parameter(0x26, at + 1));
    }
    let page = page.get(..now.len()).ok_or(Failure::new(Key::ILLEGAL_REQUEST, 0x1a, 0))?;
    for (byte, ((new, now), mask)) in page.iter().zip(now).zip(mask).enumerate().skip(2) {
        if (new ^ now) & !mask != 0 {
            return Err(invalid_parameter(0x26, at + byte));
        }
    }
    if code == 0x08 {
        modes.write_through = mask[2] & WCE != 0 && page[2] & WCE == 0;
    } else {
        modes.descriptor_sense = page[2] & D_SENSE != 0;
        modes.write_protect = page[4] & SWP != 0;
    }
    Ok(now.len())
}

/// Stops the unit, after what it holds has become durable, or starts it. There are no power conditions and no medium to
/// eject.
fn start_stop(
    target: &mut Target,
    (id, _): (TaskId, Nexus),
    cdb: &Cdb,
    _: &[u8],
) -> Result<Outcome, Failure> {
    for name in ["POWER CONDITION", "POWER CONDITION MODIFIER", "LOEJ"] {
        if field(cdb, name) != 0 {
            return Err(invalid(cdb, name));
        }
    }
    target.stopped = field(cdb, "START") == 0;
    let geometry = target.unit.geometry();
    let flushes = target.stopped && field(cdb, "NO_FLUSH") == 0 && !geometry.features.read_only;
    Ok(match flushes {
        true => {
            let all = Step { action: Action::Flush, pos: 0, len: geometry.size };
            Outcome::Run(id, vec![all])
        }
        false => Outcome::Respond(Response::GOOD),
    })
}

/// The log pages that there are: supported ones, and General Statistics and Performance.
const LOG_PAGES: [u8; 2] = [0x00, 0x19];

fn log_sense(target: &mut Target, _: (TaskId, Nexus), cdb: &Cdb, _: &[u8]) -> Result<Outcome, Failure> {
    for name in ["SP", "SUBPAGE CODE", "PARAMETER POINTER"] {
        if field(cdb, name) != 0 {
            return Err(invalid(cdb, name));
        }
    }
    let code = field(cdb, "PAGE CODE") as u8;
    let body = match code {
        0x00 => LOG_PAGES.to_vec(),
        0x19 => statistics(&target.counts),
        _ => return Err(invalid(cdb, "PAGE CODE")),
    };
    let [high, low] = (body.len() as u16).to_be_bytes();
    let page = [vec![code, 0, high, low], body].concat();
    Ok(Outcome::Respond(within(cdb, page)))
}

/// Parameter 0001h: commands and blocks; the intervals that SBC-3 has after them are not measured.
fn statistics(counts: &Counts) -> Vec<u8> {
    let fields = [counts.reads, counts.writes, counts.written_blocks, counts.read_blocks, 0, 0, 0, 0];
    // Format and linking 3: binary, not saved.
    let mut parameter = vec![0x00, 0x01, 0x03, 8 * fields.len() as u8];
    fields.iter().for_each(|field| parameter.extend(field.to_be_bytes()));
    parameter
}
