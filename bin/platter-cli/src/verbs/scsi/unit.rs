//! The device that a verb sends commands to.

use crate::cli::{CliError, Force, spec_arg};
use clap::{ArgGroup, Args};
use platter::Device;
use platter::block::command::{Command, CommandSet, Reach, Transfer};
use platter::disk::sync_io::{CommandData, IoOptions};
use platter::registry::{self, Access};
use platter::scsi::LogicalUnit;
use platter::scsi::cdb::{Cdb, Direction};
use platter::scsi::filter;
use platter::scsi::sense::Sense;
use platter::scsi::unit::{MAX_TRANSFER, Response, Status};
use platter::spec::quote_path;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of an answer whose length no field of the command says: READ CAPACITY (10) has 8.
const SHORT_ANSWER: u64 = 8;

/// `DEVICE` or `--on SPEC`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("to").required(true).args(["device", "spec"]))]
pub(super) struct To {
    /// A SCSI disk of the system: /dev/sdX, /dev/sgN or /dev/bsg/H:C:T:L. The same as --on 'sg(DEVICE)'
    #[arg(value_name = "DEVICE")]
    device: Option<PathBuf>,
    #[command(flatten)]
    on: OnUnit,
}

impl To {
    /// What was named on the command line, as a spec.
    pub(super) fn spec(&self) -> String {
        self.on.spec_or(self.device.as_deref())
    }

    /// Sends a command that changes nothing.
    pub(super) fn ask(&self, cdb: &Cdb) -> Result<Response, CliError> {
        self.on.send(&self.spec(), cdb, Access::read(), &[])
    }
}

/// `--on SPEC`.
#[derive(Args, Debug)]
pub(super) struct OnUnit {
    /// The device. A SCSI disk gets the commands itself; others answer as a logical unit of the target in this program
    #[arg(long = "on", value_name = "SPEC", value_parser = spec_arg())]
    spec: Option<String>,
    #[command(flatten)]
    force: Force,
}

impl OnUnit {
    /// The spec, or that of a device of the system.
    pub(super) fn spec_or(&self, device: Option<&Path>) -> String {
        let of_device = || device.map(|path| format!("sg({})", quote_path(path)));
        self.spec.clone().or_else(of_device).unwrap_or_default()
    }

    /// Opens the device and sends the command, if the handle may send it.
    pub(super) fn send(
        &self,
        spec: &str,
        cdb: &Cdb,
        access: Access,
        data_out: &[u8],
    ) -> Result<Response, CliError> {
        let device = registry::open(spec, self.force.access(access))?;
        let unit = LogicalUnit::new(device.clone());
        let name = cdb.command().name;
        unit.allows(cdb.bytes()).map_err(|rule| CliError::refused(format!("{spec}: {name}: {rule}")))?;
        match device.geometry().features.commands.contains(CommandSet::Scsi) {
            true => OnUnit::pass_on(spec, &device, cdb, data_out),
            false => Ok(unit.execute(cdb.bytes(), data_out)),
        }
    }

    /// Sends a command to a disk that carries it out itself.
    fn pass_on(spec: &str, device: &Device, cdb: &Cdb, data_out: &[u8]) -> Result<Response, CliError> {
        let failed = |why: String| CliError::failed(format!("{spec}: {}: {why}", cdb.command().name));
        let mut data_in = match cdb.command().direction {
            Direction::In => vec![0; expected(cdb, device).min(MAX_TRANSFER) as usize],
            Direction::Out | Direction::None => Vec::new(),
        };
        let (transfer, data) = match (data_in.is_empty(), data_out.is_empty()) {
            (false, _) => (Transfer::FromDevice, CommandData::FromDevice(&mut data_in)),
            (true, false) => (Transfer::ToDevice, CommandData::ToDevice(data_out)),
            (true, true) => (Transfer::None, CommandData::None),
        };
        let reach = if changes(cdb) { Reach::Everything } else { Reach::READS_ALL };
        let command =
            Command::new(CommandSet::Scsi, cdb.bytes()).map_err(|error| failed(error.to_string()))?;
        let command = Arc::new(command.with_transfer(transfer).with_reach(reach));
        // The disk's answer, if there is one, says more than the error.
        let sent = device.command(&command, data, IoOptions::default());
        let outcome = match (command.outcome(), sent) {
            (Some(outcome), _) | (None, Ok(outcome)) => outcome,
            (None, Err(error)) => return Err(failed(error.to_string())),
        };
        let status = STATUSES.into_iter().find(|status| u16::from(status.code()) == outcome.status);
        let status = status.ok_or_else(|| failed(format!("the status {:02x}h", outcome.status)))?;
        data_in.truncate(data_in.len().saturating_sub(outcome.residual as usize));
        if status != Status::Good {
            data_in.clear();
        }
        Ok(Response { status, sense: outcome.sense.bytes().to_vec(), data_in })
    }
}

/// Whether a command may change anything, so that the device must be open for writing.
pub(super) fn changes(cdb: &Cdb) -> bool {
    filter::read_only(cdb.bytes()).is_err()
}

const STATUSES: [Status; 5] =
    [Status::Good, Status::CheckCondition, Status::Busy, Status::ReservationConflict, Status::TaskSetFull];

/// Most bytes that a command returns.
fn expected(cdb: &Cdb, device: &Device) -> u64 {
    let block = u64::from(device.geometry().limits.logical_block);
    let blocks = cdb.get("TRANSFER LENGTH").map(|blocks| blocks.saturating_mul(block));
    cdb.get("ALLOCATION LENGTH").or(blocks).unwrap_or(SHORT_ANSWER)
}

/// Why a command was not carried out; `None` if it was.
pub(super) fn failure(response: &Response) -> Option<String> {
    let status = response.status.name();
    match Sense::decode(&response.sense) {
        _ if response.status == Status::Good => None,
        Ok(sense) => Some(format!("{status}: {sense}")),
        Err(_) => Some(status.to_owned()),
    }
}
