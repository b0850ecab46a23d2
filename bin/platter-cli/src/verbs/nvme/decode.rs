//! `platter nvme decode`: bytes as commands, completions, identify data and log pages.

use super::super::decoded::{Input, fields_table, key, number, to_json};
use super::show::show;
use crate::cli::{CliError, Context};
use clap::{Args, ValueEnum};
use platter::nvme::command::{Entry, Queue};
use platter::nvme::structure::Structure;
use platter::nvme::{data, identify, log, status};
use serde_json::{Map, Value as Json, json};

/// Arguments of `platter nvme decode`.
#[derive(Args, Debug)]
#[command(after_help = "\
Bytes are pairs of hexadecimal digits. Fields have the abbreviations of the NVMe specifications (Base 2.0, NVM Command Set \
1.0) in lower case, as nvme-cli prints them; those that the bytes do not reach are left out.

Examples:
  platter nvme decode completion 00 00 00 00 00 00 00 00 10 00 01 00 07 00 01 81
  platter nvme decode io --file entry.hex --json
  nvme id-ctrl /dev/nvme0 -b | platter nvme decode ctrl --binary --file -

JSON: an object with structure, standard, fields, items, a list of objects with the same keys, and bits, the names of bits \
that are set by field. Values are numbers or \
text, in hexadecimal where the bytes have no meaning, in decimal where a number has more than 64 bits. A command also has \
queue (admin, io), opcode and direction (none, in, out, both); a completion status, in words.")]
pub(crate) struct Decode {
    /// What the bytes are
    what: What,
    #[command(flatten)]
    input: Input,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum What {
    /// A submission queue entry of the admin queue
    Admin,
    /// A submission queue entry of an I/O queue
    Io,
    /// A completion queue entry
    Completion,
    /// Identify Controller
    Ctrl,
    /// Identify Namespace
    Ns,
    /// A list of namespaces
    NsList,
    /// Namespace Identification Descriptors
    NsDescs,
    /// I/O Command Set Independent Identify Namespace
    NsInd,
    /// Identify Namespace of the NVM command set, its further features
    NvmNs,
    /// Identify Controller of the NVM command set
    NvmCtrl,
    /// Log page 02h, SMART / Health Information
    Smart,
    /// Log page 01h, Error Information
    Errors,
    /// Log page 03h, Firmware Slot Information
    Firmware,
    /// Log page 00h, Supported Log Pages
    LogPages,
    /// Log page 05h, Commands Supported and Effects
    Effects,
    /// Ranges of Dataset Management
    Ranges,
    /// Source ranges of Copy
    CopyRanges,
    /// Reservation Status with host identifiers of 64 bits
    Reservations,
    /// Reservation Status with host identifiers of 128 bits
    ReservationsExt,
}

impl What {
    fn structure(self) -> Result<&'static Structure, Queue> {
        Ok(match self {
            What::Admin => return Err(Queue::Admin),
            What::Io => return Err(Queue::Io),
            What::Completion => &status::COMPLETION,
            What::Ctrl => &identify::CONTROLLER,
            What::Ns => &identify::NAMESPACE,
            What::NsList => &identify::NAMESPACE_LIST,
            What::NsDescs => &identify::DESCRIPTORS,
            What::NsInd => &identify::INDEPENDENT_NAMESPACE,
            What::NvmNs => &identify::NVM_NAMESPACE,
            What::NvmCtrl => &identify::NVM_CONTROLLER,
            What::Smart => &log::SMART,
            What::Errors => &log::ERRORS,
            What::Firmware => &log::FIRMWARE,
            What::LogPages => &log::SUPPORTED,
            What::Effects => &log::EFFECTS,
            What::Ranges => &data::RANGES,
            What::CopyRanges => &data::COPY_RANGES,
            What::Reservations => data::reservation_status(false),
            What::ReservationsExt => data::reservation_status(true),
        })
    }
}

impl Decode {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let bytes = self.input.bytes()?;
        let structure = match self.what.structure() {
            Ok(structure) => structure,
            Err(queue) => return command(queue, &bytes, context),
        };
        let decoded = structure.decode(&bytes);
        let Some(status) = status::of_completion(&decoded).filter(|_| matches!(self.what, What::Completion))
        else {
            return show(decoded, context);
        };
        if !context.json {
            context.print(&format!("{status}\n"))?;
            return show(decoded, context);
        }
        let mut object = to_json(decoded);
        object["status"] = json!(status.to_string());
        context.print_json(&object)
    }
}

fn command(queue: Queue, bytes: &[u8], context: &Context) -> Result<(), CliError> {
    let entry = Entry::decode(queue, bytes).map_err(|error| CliError::usage(error.to_string()))?;
    let row = entry.command();
    if context.json {
        return context.print_json(&entry_to_json(&entry));
    }
    let mut table = fields_table();
    entry.fields().for_each(|(name, value)| number(&mut table, name, value));
    let data = match entry.direction().name() {
        "none" => "without data".to_owned(),
        "both" => "data both ways".to_owned(),
        direction => format!("data {direction}"),
    };
    let title = format!("{} ({}), {} queue, {data}\n", row.name, row.standard, queue.name());
    context.print(&format!("{title}{}", table.to_text(context.terminal)))
}

fn entry_to_json(entry: &Entry) -> Json {
    let row = entry.command();
    json!({
        "structure": row.name,
        "standard": row.standard,
        "queue": row.queue.name(),
        "opcode": entry.opcode(),
        "direction": entry.direction().name(),
        "fields": entry.fields().map(|(name, value)| (key(name), json!(value))).collect::<Map<_, _>>(),
        "items": [],
    })
}
