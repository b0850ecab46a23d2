//! `platter raid wipe`.

use super::failed;
use crate::cli::{CliError, Context, spec_arg};
use clap::Args;
use platter::raid;
use platter::registry::Access;
use serde_json::json;

/// Arguments of `platter raid wipe`.
#[derive(Args, Debug)]
#[command(after_help = "\
Overwrites only the two records on each device, never data; without its records the array no longer \
exists. If one of the devices has no record, the command is refused and writes nothing. After a crash \
either the array still exists, or `raid examine` shows the remaining records as retired, and they can be \
wiped again.

Example:
  platter raid wipe --force a.img b.img

JSON: one object with wiped, the list of devices.")]
pub(crate) struct Wipe {
    /// The devices
    #[arg(required = true, value_name = "SPEC", value_parser = spec_arg())]
    members: Vec<String>,
    /// Confirm that the array is to be destroyed
    #[arg(long)]
    force: bool,
}

impl Wipe {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        if !self.force {
            let what =
                "this gives up the array and with it the way to its data; say --force if that is meant";
            return Err(CliError::usage(what));
        }
        let access = Access { force: true, ..Access::read_write() };
        let devices = raid::open_members(&self.members, access)?;
        raid::wipe(&devices).map_err(failed)?;
        context.show(&json!({ "wiped": self.members }), &format!("wiped {}\n", self.members.join(", ")))
    }
}
