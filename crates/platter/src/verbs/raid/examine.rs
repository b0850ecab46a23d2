//! `platter raid examine`.

use super::failed;
use crate::cli::{CliError, Context};
use clap::Args;
use platter::raid::{self, Held};
use platter::registry::Access;
use platter_stack::meta::md::Superblock;
use platter_stack::meta::{Phase, Record, Slots};
use serde_json::{Value, json};
use std::fmt::Write;

/// Arguments of `platter raid examine`.
#[derive(Args, Debug)]
#[command(after_help = "\
Devices are opened to read only.

Examples:
  platter raid examine /dev/sdb /dev/sdc
  platter raid examine --json a.img

JSON: a list with an object for each SPEC: device, kind (platter, md, damaged or none), and of an array: uuid, name,
layout, chunk_bytes, members, index, member_uuid, data_offset_bytes, data_bytes; of Platter's also sequence,
records (readable ones, of two) and state (prepared, committed, retired); of md's also version and events; of what is damaged: problem.")]
pub(crate) struct Examine {
    /// The devices
    #[arg(required = true, value_name = "SPEC")]
    devices: Vec<String>,
    /// Open what others have for themselves too
    #[arg(long)]
    allow_in_use: bool,
}

impl Examine {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let access = Access { allow_in_use: self.allow_in_use, ..Access::read() };
        let devices = raid::open_members(&self.devices, access)?;
        let mut all = Vec::with_capacity(devices.len());
        for (spec, device) in self.devices.iter().zip(&devices) {
            all.push((spec, raid::examine(device).map_err(failed)?));
        }
        if context.json {
            return context.print_json(&all.iter().map(|(spec, held)| to_json(spec, held)).collect());
        }
        let texts: Vec<String> = all.iter().map(|(spec, held)| to_text(spec, held)).collect();
        context.print(&texts.join("\n"))
    }
}

fn state(record: &Record) -> &'static str {
    match record.phase {
        Phase::Prepared => "prepared",
        Phase::Committed => "committed",
        Phase::Retired => "retired",
    }
}

fn damage(slots: &Slots) -> String {
    slots.damage().unwrap_or_default().to_owned()
}

fn to_json(spec: &str, held: &Held) -> Value {
    match held {
        Held::Nothing => json!({ "device": spec, "kind": "none" }),
        Held::DamagedMd(place, what) => {
            let problem = format!("superblock {}: {what}", place.version());
            json!({ "device": spec, "kind": "damaged", "problem": problem })
        }
        Held::Platter(slots) => match slots.newest() {
            None => json!({ "device": spec, "kind": "damaged", "problem": damage(slots) }),
            Some(record) => json!({
                "device": spec,
                "kind": "platter",
                "uuid": record.array.to_string(),
                "name": record.name,
                "layout": record.layout.name(),
                "chunk_bytes": (record.chunk > 0).then_some(record.chunk),
                "members": record.members,
                "index": record.index,
                "member_uuid": record.member.to_string(),
                "data_offset_bytes": record.data_offset,
                "data_bytes": record.data_size,
                "sequence": record.sequence,
                "records": slots.records().count(),
                "state": state(record),
            }),
        },
        Held::Md(superblock) => json!({
            "device": spec,
            "kind": "md",
            "uuid": superblock.array.to_string(),
            "name": superblock.name,
            "layout": superblock.level.to_string(),
            "chunk_bytes": (superblock.chunk > 0).then_some(superblock.chunk),
            "members": superblock.members,
            "index": superblock.index,
            "member_uuid": superblock.device.to_string(),
            "data_offset_bytes": superblock.data_offset,
            "data_bytes": superblock.data_size,
            "version": superblock.place.version(),
            "events": superblock.events,
        }),
    }
}

fn to_text(spec: &str, held: &Held) -> String {
    match held {
        Held::Nothing => format!("{spec}\n  nothing of an array\n"),
        Held::DamagedMd(place, what) => {
            format!("{spec}\n  a damaged superblock {} of md: {what}\n", place.version())
        }
        Held::Platter(slots) => match slots.newest() {
            None => format!("{spec}\n  damaged records of an array: {}\n", damage(slots)),
            Some(record) => of_record(spec, record, slots),
        },
        Held::Md(superblock) => of_md(spec, superblock),
    }
}

fn of_record(spec: &str, record: &Record, slots: &Slots) -> String {
    let mut text = format!("{spec}\n  member {} of {}", record.index, record.members);
    let _ = write!(text, " of {} \"{}\"", record.layout.name(), record.name.escape_debug());
    if record.chunk > 0 {
        let _ = write!(text, ", chunk {} bytes", record.chunk);
    }
    let _ = write!(text, "\n  array {}\n  member {}\n", record.array, record.member);
    let _ = writeln!(text, "  data at byte {}, {} bytes", record.data_offset, record.data_size);
    let _ = writeln!(text, "  {}, sequence number {}", state(record), record.sequence);
    if let Some(what) = slots.damage() {
        let _ = writeln!(text, "  one of the two records is damaged: {what}");
    } else if slots.records().count() < 2 {
        let _ = writeln!(text, "  one of the two records is gone: something has overwritten it");
    }
    text
}

fn of_md(spec: &str, superblock: &Superblock) -> String {
    let place = match superblock.index {
        Some(index) => format!("member {index} of {}", superblock.members),
        None => format!("a spare or failed member of {}", superblock.members),
    };
    let mut text =
        format!("{spec}\n  {place} of md {} \"{}\"", superblock.level, superblock.name.escape_debug());
    if superblock.chunk > 0 {
        let _ = write!(text, ", chunk {} bytes", superblock.chunk);
    }
    let _ = write!(text, "\n  array {}\n  member {}\n", superblock.array, superblock.device);
    let _ = writeln!(text, "  data at byte {}, {} bytes", superblock.data_offset, superblock.data_size);
    let _ = writeln!(text, "  superblock {}, {} events", superblock.place.version(), superblock.events);
    text
}
