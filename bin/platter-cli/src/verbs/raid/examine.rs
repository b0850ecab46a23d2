//! `platter raid examine`.

use super::examine_md::{self, Group};
use crate::cli::{CliError, Context, Exit, spec_arg};
use clap::Args;
use platter::raid::{self, Held};
use platter::registry::{self, Access};
use platter_stack::array_metadata::{Phase, Record, Slots};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;

/// Arguments of `platter raid examine`.
#[derive(Args, Debug)]
#[command(after_help = "\
Without SPEC, all block devices of this machine are examined; with --search, the block devices and files \
in a directory. Devices are opened read-only. A device that cannot be opened is reported, the others are \
still shown, and the exit status is 3. After a search the exit status is 3 only if no device could be \
opened.

Examples:
  platter raid examine
  platter raid examine /dev/sdb /dev/sdc
  platter raid examine --json a.img

Of each array of md it says whether its members at hand are enough to read it with md(…), which of them are stale \
and by how many events, and what would be lost with force=on.

JSON: a list with an object for each device: device, kind (platter, mirror, md, damaged, foreign, none or unopened), and of an \
array: uuid, name, layout, chunk_bytes, members, index, member_uuid, data_offset_bytes, data_bytes; of Platter's arrays \
also sequence, records (readable ones, of two) and state (prepared, committed, retired); of what is damaged, foreign or \
cannot be opened: problem. Of md's arrays also version, events, created_s, updated_s, md_layout, role, device_number, \
component_bytes, clean, features, rebuilt_bytes (while it is rebuilt), write_mostly, logical_block_bytes, bad_ranges \
(first byte and byte past the last, of the device), bitmap (version, events, events_cleared, chunk_bytes, chunks, \
dirty_chunks, or problem); and of the array by all its members that were named: array_state (complete, degraded or \
refused), array_bytes, missing (numbers of members), array_problem, forced (what force=on would lose), left_out (why this \
member is not used) and events_behind.")]
pub(crate) struct Examine {
    /// The devices; all block devices if none is given
    #[arg(value_name = "SPEC", value_parser = spec_arg())]
    devices: Vec<String>,
    /// Examine the block devices and files in this directory
    #[arg(long, value_name = "DIR", conflicts_with = "devices")]
    search: Option<PathBuf>,
    /// Open devices that other programs have locked; a search always does
    #[arg(long)]
    allow_in_use: bool,
}

/// A device and its array metadata, or why that cannot be read.
type Examined = (String, u64, Result<Held, String>);

impl Examine {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let is_search = self.devices.is_empty();
        let all = if is_search { self.search()? } else { self.named()? };
        let read = all.iter().filter_map(|(name, size, held)| Some((name, *size, held.as_ref().ok()?)));
        let groups = examine_md::groups(read);
        match context.json {
            true => {
                let members = all.iter().map(|(name, _, held)| to_json(name, held, &groups));
                context.print_json(&members.collect::<Value>())?;
            }
            false => self.print(context, &all, &groups, is_search)?,
        }
        let mut problems: Vec<&String> = all.iter().filter_map(|(_, _, held)| held.as_ref().err()).collect();
        // Of a search it is no failure that something cannot be opened: there may be an empty drive.
        let failed = !is_search || problems.len() == all.len();
        let error = if failed { problems.pop() } else { None };
        problems.iter().for_each(|problem| context.note(problem));
        error.map_or(Ok(()), |error| Err(CliError::new(Exit::CannotOpen, error.clone())))
    }

    /// The metadata of the given devices. A wrong spec is an error at once.
    fn named(&self) -> Result<Vec<Examined>, CliError> {
        let access = Access { allow_in_use: self.allow_in_use, ..Access::read() };
        let look = |spec: &String| {
            let (size, held) = match registry::open(spec, access) {
                Ok(device) => (device.size(), raid::examine(&device).map_err(|error| error.to_string())),
                Err(error) if error.is_usage() => return Err(CliError::from(error)),
                Err(error) => (0, Err(error.to_string())),
            };
            Ok((spec.clone(), size, held))
        };
        self.devices.iter().map(look).collect()
    }

    /// The results of a search.
    fn search(&self) -> Result<Vec<Examined>, CliError> {
        let found = raid::search(self.search.as_deref())?;
        Ok(found
            .into_iter()
            .map(|found| (found.path.to_string_lossy().into_owned(), found.size, found.held))
            .collect())
    }

    /// Prints the results for people: after a search only the members of arrays, and how many other devices
    /// were examined.
    fn print(
        &self,
        context: &Context,
        all: &[Examined],
        groups: &[Group],
        is_search: bool,
    ) -> Result<(), CliError> {
        let mut texts = Vec::new();
        let mut nothing = 0;
        for (name, _, held) in all {
            match held {
                Ok(Held::Nothing) if is_search => nothing += 1,
                Ok(held) => texts.push(to_text(name, held)),
                // Printed on stderr.
                Err(_) => {}
            }
        }
        let members = texts.len();
        texts.extend(groups.iter().map(Group::text));
        if is_search {
            let place = match &self.search {
                Some(directory) => format!("devices and files in {}", directory.display()),
                None => "block devices".to_owned(),
            };
            texts.push(format!(
                "{} {place}: {members} with something of an array, {nothing} without\n",
                all.len()
            ));
        }
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

fn to_json(spec: &str, held: &Result<Held, String>, groups: &[Group]) -> Value {
    match held {
        Err(problem) => json!({ "device": spec, "kind": "unopened", "problem": problem }),
        Ok(held) => held_to_json(spec, held, groups),
    }
}

fn held_to_json(spec: &str, held: &Held, groups: &[Group]) -> Value {
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
        Held::Mirror => json!({ "device": spec, "kind": "mirror" }),
        Held::Foreign(what) => json!({ "device": spec, "kind": "foreign", "problem": what }),
        Held::Md(member) => examine_md::to_json(spec, member, groups),
    }
}

fn to_text(spec: &str, held: &Held) -> String {
    match held {
        Held::Nothing => format!("{spec}\n  no records of an array\n"),
        Held::DamagedMd(place, what) => {
            format!("{spec}\n  a superblock {} of md that cannot be used: {what}\n", place.version())
        }
        Held::Platter(slots) => match slots.newest() {
            None => format!("{spec}\n  damaged records of an array: {}\n", damage(slots)),
            Some(record) => of_record(spec, record, slots),
        },
        Held::Mirror => {
            format!(
                "{spec}\n  a member of a mirror of Platter; `platter info` of raid1(DEVICE, ...) shows it\n"
            )
        }
        Held::Foreign(what) => format!("{spec}\n  {what}\n"),
        Held::Md(member) => examine_md::to_text(spec, member),
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
        let _ = writeln!(text, "  one of the two records has been overwritten");
    }
    text
}
