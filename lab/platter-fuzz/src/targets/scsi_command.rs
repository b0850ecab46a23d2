//! Commands to a SCSI logical unit.

use super::hold;
use crate::bytes;
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use platter_block::driver::Geometry;
use platter_block::lane::Bell;
use platter_block::limits::Limits;
use platter_scsi::cdb::Cdb;
use platter_scsi::sense::Sense;
use platter_scsi::target::{self, Attribute, Outcome, Request};
use platter_scsi::unit::{Action, Identity, Response, Status, Step, Unit};
use std::sync::Arc;

pub(super) const TARGET: Target = Target {
    name: "scsi-command",
    summary: "SCSI commands with their parameter lists, to a logical unit",
    generate,
    mutate,
    read,
    memory: 1 << 20,
};

/// Bytes of the command in an input; its data follows.
const CDB: usize = 17;

/// The first byte chooses the device, then come 16 bytes of command and its data.
fn generate(rng: &mut Rng) -> Vec<u8> {
    let command =
        Unit::commands().nth(rng.index(Unit::commands().count())).unwrap_or(&platter_scsi::cdb::READ_16);
    let mut cdb = Cdb::new(command);
    for field in command.fields {
        let value = match rng.below(3) {
            0 => 0,
            1 => rng.below(32),
            _ => rng.extreme(u32::from(field.bits).min(64)),
        };
        // A field that is larger than it may be stays 0.
        let _ = cdb.set(field.name, value);
    }
    let mut all = vec![rng.any() as u8];
    all.extend(cdb.bytes());
    all.resize(CDB, 0);
    let blocks = rng.below(3);
    for _ in 0..blocks {
        // A parameter list of UNMAP, or a block of data.
        all.extend([0, 38, 0, 32, 0, 0, 0, 0]);
        all.extend(rng.extreme(64).to_be_bytes());
        all.extend((rng.extreme(32) as u32).to_be_bytes());
        all.resize(all.len() + rng.index(1024), rng.any() as u8);
    }
    all
}

fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    if input.len() < CDB || rng.one_in(4) {
        return bytes::mutate(rng, input, other);
    }
    match rng.below(3) {
        0 => bytes::overwrite(input, 3, &rng.extreme(64).to_be_bytes()),
        1 => bytes::overwrite(input, 11, &(rng.extreme(32) as u32).to_be_bytes()),
        _ => input[1 + rng.index(CDB - 1)] = rng.any() as u8,
    }
}

fn unit(choice: u8) -> Unit {
    let is = |bit: u8| choice >> bit & 1 != 0;
    let block = if is(0) { 512 } else { 4096 };
    let size = [1 << 20, 1000 * 512, (1 << 41) + 4096, 0][usize::from(choice >> 6)];
    let limits = Limits::unlimited(block)
        .with_discard_granularity(if is(1) { block * 8 } else { 0 })
        .with_write_zeroes(is(2))
        .with_max_discard(if is(3) { 1 << 20 } else { 1 << 40 });
    let mut geometry = Geometry::new(size, limits);
    geometry.features = geometry.features.with_read_only(choice & 0x30 == 0x30).with_write_cache(is(4));
    let identity = Identity {
        vendor: "PLATTER".to_owned(),
        product: "FUZZ".to_owned(),
        revision: "1".to_owned(),
        serial: "\u{1b}[0m".repeat(usize::from(choice)),
    };
    Unit::new(identity, geometry)
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let Some((choice, rest)) = input.split_first() else {
        return Ok(Verdict::Refused("no device".to_owned()));
    };
    let unit = unit(*choice);
    let size = [1 << 20, 1000 * 512, (1 << 41) + 4096, 0u64][usize::from(choice >> 6)];
    let (cdb, data_out) = rest.split_at(rest.len().min(CDB - 1));
    let mut target = target::Target::new(unit);
    let nexus = target.connect("iqn.2026-11.localhost:fuzz,i,0x400000000000", Arc::new(Silent));
    // Takes the unit attention of a new nexus.
    target.begin(nexus, &request(&[0; 6], &[]));
    match target.begin(nexus, &request(cdb, data_out)) {
        Outcome::Run(id, steps) => {
            steps.iter().try_for_each(|step| inside(step, size, data_out.len() as u64))?;
            hold(target.end(id), || "a command that nothing has aborted is".to_owned())?;
            Ok(Verdict::Accepted)
        }
        Outcome::Respond(response) => answered(&response, cdb),
        Outcome::Wait(_) => Err("a command that is alone waits".to_owned()),
    }
}

struct Silent;

impl Bell for Silent {
    fn ring(&self) {}
}

fn request<'a>(cdb: &'a [u8], data_out: &'a [u8]) -> Request<'a> {
    Request { cdb, data_out, attribute: Attribute::Simple, token: 0 }
}

fn inside(step: &Step, size: u64, data_out: u64) -> Result<(), String> {
    let used = match step.action {
        Action::Write { at, .. } | Action::Compare { at } => at.checked_add(step.len),
        Action::Fill { block } => Some(block),
        _ => Some(0),
    };
    let ends = step.pos.checked_add(step.len).is_some_and(|end| end <= size);
    hold(ends && used.is_some_and(|end| end <= data_out), || {
        format!("{step:?} on a device of {size} bytes, with {data_out} bytes of data")
    })
}

fn answered(response: &Response, cdb: &[u8]) -> Result<Verdict, String> {
    let sense = match response.status {
        Status::Good => {
            let room = Cdb::decode(cdb).ok().and_then(|cdb| cdb.get("ALLOCATION LENGTH")).unwrap_or(32);
            let len = response.data_in.len() as u64;
            hold(len <= room && response.sense.is_empty(), || format!("{len} bytes for a room of {room}"))?;
            return Ok(Verdict::Accepted);
        }
        Status::CheckCondition => Sense::decode(&response.sense).map_err(|error| error.to_string())?,
        Status::ReservationConflict => return Ok(Verdict::Refused("a reservation conflict".to_owned())),
        Status::Busy | Status::TaskSetFull => return Err("a command that is alone finds no room".to_owned()),
    };
    hold(sense.key().0 != 0 && sense.code() != (0, 0), || format!("a failure that says nothing: {sense}"))?;
    Ok(Verdict::Refused(sense.to_string()))
}
