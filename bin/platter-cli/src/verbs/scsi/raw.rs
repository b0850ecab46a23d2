//! `platter scsi raw`: any command.

use super::super::hex;
use super::sense::sense_to_json;
use super::unit::{OnUnit, changes, failure};
use crate::cli::output::NewFile;
use crate::cli::{CliError, Context};
use clap::{ArgGroup, Args};
use platter::registry::Access;
use platter::scsi::cdb::{Cdb, Direction};
use platter::scsi::filter::{self, Handle};
use platter::scsi::sense::Sense;
use platter::scsi::unit::{MAX_TRANSFER, changes_medium};
use serde_json::{Value as Json, json};
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

/// Most bytes of data that are printed; more needs --output.
const MOST_PRINTED: usize = 64 << 10;

/// Arguments of `platter scsi raw`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("to").required(true).args(["device", "spec"]))]
#[command(after_help = "\
A command that may change the medium needs --yes-destroy with the same SPEC or DEVICE, besides the rules for every writer \
(--force where the device holds a file system).

Examples:
  platter scsi raw 12 01 b0 00 40 00 --on disk.img
  platter scsi raw 28 00 00 00 00 00 00 00 08 00 --on disk.img --output sectors.bin
  platter scsi raw 2a 00 00 00 00 10 00 00 01 00 --on 'ram(1M)' --input block.bin --yes-destroy 'ram(1M)'

JSON: an object with command, status, message (null if it was carried out), sense (as platter scsi decode sense; null if \
there is none), data_in_bytes and data_in, in hexadecimal, null with --output. The exit status is 1 unless the status is \
GOOD.")]
pub(crate) struct Raw {
    /// The command descriptor block in hexadecimal
    #[arg(value_name = "HEX", required = true)]
    command: Vec<String>,
    /// Send to a SCSI disk of the system: /dev/sdX, /dev/sgN or /dev/bsg/H:C:T:L
    #[arg(long, value_name = "DEVICE")]
    device: Option<PathBuf>,
    #[command(flatten)]
    on: OnUnit,
    /// Data to send with the command
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Write the data that the command returns to this file, which must not exist
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Refuse what Linux refuses from a program without CAP_SYS_RAWIO; without --yes-destroy, as for a device that is open for reading only
    #[arg(long)]
    unprivileged: bool,
    /// The command may change this device
    #[arg(long, value_name = "SPEC")]
    yes_destroy: Option<String>,
}

impl Raw {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let bytes =
            hex::parse(&self.command.join(" ")).map_err(|why| CliError::usage(format!("HEX: {why}")))?;
        let cdb = Cdb::decode(&bytes).map_err(|error| CliError::usage(error.to_string()))?;
        if bytes.len() != cdb.bytes().len() {
            let (name, needed) = (cdb.command().name, cdb.bytes().len());
            return Err(CliError::usage(format!("{name} of {} bytes; it has {needed}", bytes.len())));
        }
        if self.unprivileged {
            let handle = Handle { writable: self.yes_destroy.is_some(), privileged: false };
            filter::linux(&bytes, handle)
                .map_err(|rule| CliError::refused(format!("{}: {rule}", cdb.command().name)))?;
        }
        let spec = self.on.spec_or(self.device.as_deref());
        let named = self.device.as_ref().map_or(spec.clone(), |device| device.display().to_string());
        if changes_medium(cdb.command()) && self.yes_destroy.as_ref() != Some(&named) {
            let (name, spec) = (cdb.command().name, &named);
            return Err(CliError::refused(format!(
                "{name} may change {spec}; allow it with --yes-destroy '{spec}'"
            )));
        }
        let data_out = self.data_out(&cdb)?;
        let access = if changes(&cdb) { Access::read_write() } else { Access::read() };
        let output = self.output.as_deref().map(NewFile::create).transpose()?;
        let response = self.on.send(&spec, &cdb, access, &data_out)?;
        let why = failure(&response);
        if let Some(output) = output.filter(|_| why.is_none() || !response.data_in.is_empty()) {
            output.keep(&response.data_in)?;
        }
        let name = cdb.command().name;
        let printed = response.data_in.len() <= MOST_PRINTED && self.output.is_none();
        if context.json {
            let sense = Sense::decode(&response.sense).ok();
            context.print_json(&json!({
                "command": name,
                "status": response.status.name(),
                "message": why,
                "sense": sense.as_ref().map_or(Json::Null, sense_to_json),
                "data_in_bytes": response.data_in.len(),
                "data_in": printed.then(|| hex::print(&response.data_in)),
            }))?;
        } else if printed {
            context.print(&hex::lines(&response.data_in))?;
        } else if self.output.is_none() {
            context.note(&format!("{} bytes of data; --output FILE keeps them", response.data_in.len()));
        }
        why.map_or(Ok(()), |why| Err(CliError::failed(format!("{named}: {name}: {why}"))))
    }

    fn data_out(&self, cdb: &Cdb) -> Result<Vec<u8>, CliError> {
        let Some(path) = &self.input else { return Ok(Vec::new()) };
        let failed =
            |why: &dyn std::fmt::Display| CliError::usage(format!("--input {}: {why}", path.display()));
        if cdb.command().direction != Direction::Out {
            return Err(failed(&format_args!("{} takes no data", cdb.command().name)));
        }
        let mut data = Vec::new();
        let file = File::open(path).map_err(|error| failed(&error))?;
        file.take(MAX_TRANSFER + 1).read_to_end(&mut data).map_err(|error| failed(&error))?;
        if data.len() as u64 > MAX_TRANSFER {
            return Err(failed(&format_args!("longer than {MAX_TRANSFER} bytes, the most of one command")));
        }
        Ok(data)
    }
}
