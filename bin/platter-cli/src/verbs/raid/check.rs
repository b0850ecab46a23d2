//! `platter raid check`.

use super::failed;
use crate::cli::progress::Progress;
use crate::cli::{CliError, Context, Exit, spec_arg};
use clap::Args;
use platter::raid::{self, Checked, Culprit, MdOptions};
use platter::registry::Access;
use platter_md::assembly::Array;
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::atomic::Ordering;

/// Most ranges that are printed for people.
const PRINTED: usize = 50;

/// Arguments of `platter raid check`.
#[derive(Args, Debug)]
#[command(after_help = "\
Reads all members of an array of Linux md (levels 1, 4, 5, 6 and 10) and compares the copies, or the parity with the \
data. Nothing is written. Members may be named in any order, and may be missing as long as something is left to compare. \
Of a raid6 that is complete, and of three copies or more, it names the member that is wrong. Where a write or a resync was \
interrupted, differences are expected, and said to be so.

Exit status: 0 if all agree, 1 if members differ or cannot be read, 3 if the array cannot be opened, 4 if its level has \
nothing to compare.

Examples:
  platter raid check /dev/sdb /dev/sdc /dev/sdd
  platter raid check --json a.img b.img c.img d.img

JSON: one object with uuid, name, level, unit (\"member\" if positions are those of the data of each member, \"array\" if they \
are those of the array), compared_bytes, skipped_bytes (which too few members have), differing_bytes, stopped, mismatches (a \
list of start, end, member, device and expected; member and device are null if it is not known which is wrong) and unreadable \
(a list of member, device, start, end).")]
pub(crate) struct Check {
    /// The members
    #[arg(required = true, value_name = "SPEC", value_parser = spec_arg())]
    members: Vec<String>,
    /// Open devices that other programs have locked
    #[arg(long)]
    allow_in_use: bool,
}

impl Check {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let access = Access { allow_in_use: self.allow_in_use, ..Access::read() };
        let devices = raid::open_members(&self.members, access)?;
        let array = raid::assemble_array(&devices, &MdOptions::default()).map_err(|error| match error {
            raid::RaidError::Refused(why) => CliError::new(Exit::CannotOpen, why),
            other => failed(other),
        })?;
        let stop = context.stop_flag();
        let mut progress = Progress::new(context.progress);
        let mut go_on = |done: u64, total: u64| {
            if progress.is_due() {
                let percent = done.saturating_mul(100) / total.max(1);
                progress.show(&format!("checked {done} of {total} bytes ({percent} %)"));
            }
            !stop.load(Ordering::SeqCst)
        };
        let found = raid::check_array(&array, &devices, &mut go_on);
        progress.clear();
        let found = found.map_err(failed)?;
        context.show(&self.to_json(&array, &found), &self.to_text(&array, &found))?;
        if found.is_stopped {
            return Err(context.interruption(format!("stopped after {} bytes", found.compared)));
        }
        match found.differing == 0 && found.unreadable.is_empty() {
            true => Ok(()),
            false => Err(CliError::failed("the members of the array do not agree, or cannot all be read")),
        }
    }

    /// The device of a member.
    fn device(&self, array: &Array, member: u32) -> Option<&str> {
        let source = array.sources.members.get(member as usize)?.first()?;
        self.members.get(source.device).map(String::as_str)
    }

    fn to_json(&self, array: &Array, found: &Checked) -> Value {
        let member = |culprit: Culprit| match culprit {
            Culprit::Member(member) => Some(member),
            Culprit::Unknown => None,
        };
        let mismatches = found.mismatches.iter().map(|range| {
            let member = member(range.culprit);
            json!({
                "start": range.start,
                "end": range.end,
                "member": member,
                "device": member.and_then(|member| self.device(array, member)),
                "expected": range.is_expected,
            })
        });
        let unreadable = found.unreadable.iter().map(|range| {
            json!({
                "member": range.member,
                "device": self.device(array, range.member),
                "start": range.start,
                "end": range.end,
            })
        });
        json!({
            "uuid": array.uuid.to_string(),
            "name": array.name,
            "level": array.geometry.level().to_string(),
            "unit": unit(array),
            "compared_bytes": found.compared,
            "skipped_bytes": found.skipped,
            "differing_bytes": found.differing,
            "stopped": found.is_stopped,
            "mismatches": mismatches.collect::<Vec<_>>(),
            "unreadable": unreadable.collect::<Vec<_>>(),
        })
    }

    fn to_text(&self, array: &Array, found: &Checked) -> String {
        let of = if unit(array) == "member" { "of the data of each member" } else { "of the array" };
        let mut text = format!("compared {} bytes {of} of \"{}\"", found.compared, array.name.escape_debug());
        match found.differing {
            0 => text += ": no difference\n",
            bytes => {
                let _ = writeln!(text, ": {bytes} bytes differ");
            }
        }
        if found.skipped > 0 {
            let _ = writeln!(text, "  {} bytes were not compared: too few members have them", found.skipped);
        }
        for range in found.mismatches.iter().take(PRINTED) {
            let who = match range.culprit {
                Culprit::Unknown => "it is not known which member is wrong".to_owned(),
                Culprit::Member(member) => {
                    format!("member {member} ({}) is wrong", self.device(array, member).unwrap_or("missing"))
                }
            };
            let why = if range.is_expected { "; a write or resync was interrupted there" } else { "" };
            let _ = writeln!(text, "  bytes {} to {} {of}: {who}{why}", range.start, range.end);
        }
        for range in found.unreadable.iter().take(PRINTED) {
            let device = self.device(array, range.member).unwrap_or("missing");
            let _ = writeln!(
                text,
                "  bytes {} to {} of the data of member {} ({device}) cannot be read",
                range.start, range.end, range.member
            );
        }
        let more =
            found.mismatches.len().saturating_sub(PRINTED) + found.unreadable.len().saturating_sub(PRINTED);
        if more > 0 {
            let _ = writeln!(text, "  and {more} more ranges; --json lists them");
        }
        text
    }
}

/// What positions are counted in.
fn unit(array: &Array) -> &'static str {
    match array.geometry.level() {
        platter_md::superblock::Level::Raid10 => "array",
        _ => "member",
    }
}
