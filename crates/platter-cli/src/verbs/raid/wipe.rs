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
Only the two records of each device are overwritten, never data; without them there is no array. A device without \
such a record is refused, and then nothing is written. A crash leaves the array, or remains that `raid examine` \
shows as retired and that can be wiped again.

Example:
  platter raid wipe --force a.img b.img

JSON: one object with wiped, the list of devices.")]
pub(crate) struct Wipe {
    /// The devices
    #[arg(required = true, value_name = "SPEC", value_parser = spec_arg())]
    members: Vec<String>,
    /// Confirm that the array is to be given up
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
        match context.json {
            true => context.print_json(&json!({ "wiped": self.members })),
            false => context.print(&format!("wiped {}\n", self.members.join(", "))),
        }
    }
}
