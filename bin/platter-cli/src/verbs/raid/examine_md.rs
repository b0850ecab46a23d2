//! What `platter raid examine` says of members of Linux' md.

use super::examine_logs;
use platter::raid::{Held, MdMember, MdOptions, md_layout};
use platter_md::Uuid;
use platter_md::assembly::{self, Array, Candidate};
use platter_md::superblock::{SECTOR, Superblock, feature};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// The members of one array among what was examined, and whether they are enough.
pub(super) struct Group {
    uuid: Uuid,
    candidates: Vec<Candidate>,
    /// Members whose list of bad blocks cannot be used.
    problems: Vec<String>,
    /// The array, or why it cannot be read and what a forced start would do.
    array: Result<Array, (String, Vec<String>)>,
}

/// Groups members by their arrays.
pub(super) fn groups<'a>(all: impl Iterator<Item = (&'a String, u64, &'a Held)>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (name, size, held) in all {
        let Held::Md(member) = held else { continue };
        let uuid = member.superblock.array;
        let at = groups.iter().position(|group| group.uuid == uuid).unwrap_or(groups.len());
        if at == groups.len() {
            let array = Err((String::new(), Vec::new()));
            groups.push(Group { uuid, candidates: Vec::new(), problems: Vec::new(), array });
        }
        match MdMember::clone(member).candidate(name.clone(), size) {
            Ok(candidate) => groups[at].candidates.push(candidate),
            Err(problem) => groups[at].problems.push(problem),
        }
    }
    groups.iter_mut().for_each(Group::assemble);
    groups
}

impl Group {
    fn assemble(&mut self) {
        let options = MdOptions::default();
        self.array = assembly::assemble(&self.candidates, &options).map_err(|refusal| {
            let forced = match refusal.can_be_forced {
                true => assembly::assemble(&self.candidates, &MdOptions { force: true, ..options }).ok(),
                false => None,
            };
            (refusal.to_string(), forced.map(|array| array.doubts).unwrap_or_default())
        });
    }

    /// What becomes of a device: why it is not used, and how many events it is behind.
    fn fate(&self, device: &str) -> Option<(String, Option<u64>)> {
        let at = self.candidates.iter().position(|candidate| candidate.name == device)?;
        let newest = self.candidates.iter().map(|candidate| candidate.superblock.events).max().unwrap_or(0);
        match &self.array {
            Ok(array) => {
                let left = array.left_out.iter().find(|left| left.device == at)?;
                Some((left.why.clone(), left.behind))
            }
            Err(_) => {
                let own = self.candidates[at].superblock.events;
                let behind = newest.saturating_sub(own);
                (behind > 1).then(|| (format!("it is stale: {own} events of {newest}"), Some(behind)))
            }
        }
    }

    /// A word for the state of the array.
    fn state(&self) -> &'static str {
        match &self.array {
            Ok(array) if !array.missing.is_empty() => "degraded",
            Ok(_) => "complete",
            Err(_) => "refused",
        }
    }

    /// What can be done with the members.
    pub(super) fn text(&self) -> String {
        let Some(first) = self.candidates.first() else { return self.problems.join("\n") + "\n" };
        let mut text = format!(
            "array \"{}\" {} ({})\n",
            first.superblock.name.to_string().escape_debug(),
            self.uuid,
            self.uuid.as_mdadm()
        );
        match &self.array {
            Ok(array) => {
                let _ = writeln!(
                    text,
                    "  {}, {} bytes, {} events",
                    self.state(),
                    array.geometry.size(),
                    array.events
                );
                if !array.missing.is_empty() {
                    let missing: Vec<String> = array.missing.iter().map(u32::to_string).collect();
                    let _ = writeln!(text, "  missing members: {}", missing.join(", "));
                }
                if array.is_dirty {
                    let _ = writeln!(
                        text,
                        "  it was not stopped cleanly: its members may differ where it was being written"
                    );
                }
                for note in &array.logs {
                    let _ = writeln!(text, "  {note}");
                }
                for left in &array.left_out {
                    let name = &self.candidates[left.device].name;
                    let _ = writeln!(text, "  {name} is left out: {}", left.why);
                }
            }
            Err((why, forced)) => {
                let _ = writeln!(text, "  cannot be read: {why}");
                for doubt in forced {
                    let _ = writeln!(text, "  with force=on: {doubt}");
                }
            }
        }
        self.problems.iter().for_each(|problem| {
            let _ = writeln!(text, "  {problem}");
        });
        text
    }

    /// The keys of a member of the array that are about the array.
    fn json(&self, device: &str, object: &mut Map<String, Value>) {
        let mut set = |key: &str, value: Value| object.insert(key.to_owned(), value);
        set("array_state", self.state().into());
        if let Ok(array) = &self.array {
            set("array_bytes", array.geometry.size().into());
            set("missing", json!(array.missing));
            set("logs", json!(array.logs));
        }
        if let Err((why, forced)) = &self.array {
            set("array_problem", why.as_str().into());
            set("forced", json!(forced));
        }
        if let Some((why, behind)) = self.fate(device) {
            set("left_out", why.into());
            set("events_behind", json!(behind));
        }
    }
}

/// What a member says, as an object.
pub(super) fn to_json(spec: &str, member: &MdMember, groups: &[Group]) -> Value {
    let superblock = &member.superblock;
    let mut value = json!({
        "device": spec,
        "kind": "md",
        "uuid": superblock.array.to_string(),
        "name": superblock.name.to_string(),
        "layout": superblock.level.to_string(),
        "md_layout": md_layout(superblock),
        "chunk_bytes": (superblock.chunk > 0).then_some(superblock.chunk.saturating_mul(SECTOR)),
        "members": superblock.members,
        "index": superblock.index(),
        "role": superblock.role().to_string(),
        "device_number": superblock.number,
        "member_uuid": superblock.device.to_string(),
        "data_offset_bytes": superblock.data_offset.saturating_mul(SECTOR),
        "data_bytes": superblock.data_size.saturating_mul(SECTOR),
        "component_bytes": superblock.component.saturating_mul(SECTOR),
        "version": superblock.place.version(),
        "events": superblock.events,
        "created_s": superblock.created.s,
        "updated_s": superblock.updated.s,
        "clean": superblock.is_clean(),
        "features": Superblock::names(superblock.features),
        "rebuilt_bytes": superblock.has(feature::RECOVERY).then(|| superblock.recovery_offset.saturating_mul(SECTOR)),
        "write_mostly": superblock.write_mostly,
        "logical_block_bytes": (superblock.logical_block > 0).then_some(superblock.logical_block),
        "bad_ranges": match &member.bad {
            Ok(bad) => json!(bad.iter().map(|range| [range.start, range.end]).collect::<Vec<_>>()),
            Err(_) => Value::Null,
        },
        "bitmap": member.bitmap.as_ref().map(|bitmap| match bitmap {
            Ok((bitmap, data)) => json!({
                "version": bitmap.version,
                "events": bitmap.events,
                "events_cleared": bitmap.events_cleared,
                "chunk_bytes": bitmap.chunk,
                "chunks": bitmap.chunks(),
                "dirty_chunks": bitmap.count(data),
            }),
            Err(problem) => json!({ "problem": problem }),
        }),
        "ppl": member.ppl.as_ref().map(examine_logs::parity_json),
        "journal": member.journal.as_ref().map(examine_logs::journal_json),
    });
    if let Some(object) = value.as_object_mut() {
        if let Err(problem) = &member.bad {
            object.insert("problem".to_owned(), problem.as_str().into());
        }
        if let Some(group) = groups.iter().find(|group| group.uuid == superblock.array) {
            group.json(spec, object);
        }
    }
    value
}

/// What a member says, for people.
pub(super) fn to_text(spec: &str, member: &MdMember) -> String {
    let superblock = &member.superblock;
    let place = match superblock.index() {
        Some(index) => format!("member {index} of {}", superblock.members),
        None => format!("a {} of {} members", superblock.role(), superblock.members),
    };
    let mut text = format!("{spec}\n  {place} of md {}", superblock.level);
    if let Some(layout) = md_layout(superblock) {
        let _ = write!(text, " {layout}");
    }
    let _ = write!(text, " \"{}\"", superblock.name.to_string().escape_debug());
    if superblock.chunk > 0 {
        let _ = write!(text, ", chunk {} bytes", superblock.chunk.saturating_mul(SECTOR));
    }
    let bytes = |sectors: u64| sectors.saturating_mul(SECTOR);
    let _ = write!(text, "\n  array {}\n  member {}", superblock.array, superblock.device);
    let _ = writeln!(text, ", device number {}", superblock.number);
    let _ = write!(
        text,
        "  data at byte {}, {} bytes",
        bytes(superblock.data_offset),
        bytes(superblock.data_size)
    );
    match superblock.component {
        0 => text.push('\n'),
        component => {
            let _ = writeln!(text, ", of which {} are used", bytes(component));
        }
    }
    let _ = write!(text, "  superblock {}, {} events", superblock.place.version(), superblock.events);
    let _ = write!(
        text,
        ", written {} s after the array was made",
        superblock.updated.s.saturating_sub(superblock.created.s)
    );
    let _ = writeln!(text, ", {}", if superblock.is_clean() { "clean" } else { "not clean" });
    if !superblock.is_clean() && superblock.resync_offset > 0 {
        let _ = writeln!(text, "  in sync below byte {} of the data", bytes(superblock.resync_offset));
    }
    if superblock.has(feature::RECOVERY) {
        let _ = writeln!(text, "  rebuilt below byte {} of the data", bytes(superblock.recovery_offset));
    }
    if superblock.features != 0 {
        let _ = writeln!(text, "  has: {}", Superblock::names(superblock.features));
    }
    if superblock.write_mostly {
        let _ = writeln!(text, "  write-mostly");
    }
    if superblock.logical_block > 0 {
        let _ = writeln!(text, "  logical block of the array: {} bytes", superblock.logical_block);
    }
    text += &beside(member);
    text
}

/// What a member says of its bad blocks and its bitmap.
fn beside(member: &MdMember) -> String {
    let mut text = String::new();
    match &member.bad {
        Ok(bad) if bad.is_empty() => {}
        Ok(bad) => bad.iter().for_each(|range| {
            let _ = writeln!(text, "  bad blocks: bytes {} to {} of the device", range.start, range.end);
        }),
        Err(problem) => {
            let _ = writeln!(text, "  {problem}");
        }
    }
    match &member.bitmap {
        None => {}
        Some(Ok((bitmap, data))) => {
            let _ = writeln!(
                text,
                "  bitmap {}: {} of {} chunks of {} bytes may differ, {} events",
                bitmap.version,
                bitmap.count(data),
                bitmap.chunks(),
                bitmap.chunk,
                bitmap.events
            );
        }
        Some(Err(problem)) => {
            let _ = writeln!(text, "  {problem}");
        }
    }
    text += &member.ppl.as_ref().map(examine_logs::parity_text).unwrap_or_default();
    text += &member.journal.as_ref().map(examine_logs::journal_text).unwrap_or_default();
    text
}
