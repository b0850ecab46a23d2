//! `platter scsi decode`: bytes as commands, sense data and pages.

use super::super::decoded::{Input, fields_table, key, number, show};
use super::sense::show_sense;
use crate::cli::{CliError, Context};
use clap::{Args, ValueEnum};

use platter::scsi::cdb::Cdb;
use platter::scsi::page;
use serde_json::{Map, json};

/// Arguments of `platter scsi decode`.
#[derive(Args, Debug)]
#[command(after_help = "\
Bytes are pairs of hexadecimal digits, as sg_raw and the kernel's log print them. Fields have the names of the standards \
SPC-4 and SBC-3; those that the bytes do not reach are left out.

Examples:
  platter scsi decode command 28 00 00 00 12 34 00 00 08 00
  platter scsi decode sense f0 00 03 00 00 10 00 0a 00 00 00 00 11 00
  platter scsi decode vpd --file page.hex --json

JSON: an object with structure, standard, fields and items, a list of objects with the same keys. Keys of fields are \
their names in lower case with _ for other characters; values are numbers or text, in hexadecimal where the bytes have \
no meaning. A command also has operation_code, direction (none, in, out), length_bytes, control and reserved, the place of a \
reserved bit that is set, or null; sense data has sense_key, additional_sense and message.")]
pub(crate) struct Decode {
    /// What the bytes are
    what: What,
    #[command(flatten)]
    input: Input,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum What {
    /// A command descriptor block
    Command,
    /// Sense data in fixed or descriptor format
    Sense,
    /// Standard INQUIRY data
    Inquiry,
    /// A vital product data page, with its header
    Vpd,
    /// READ CAPACITY (10) parameter data
    Capacity10,
    /// READ CAPACITY (16) parameter data
    Capacity16,
    /// MODE SENSE (10) parameter data
    Modes10,
    /// A log page, with its header
    Log,
}

impl Decode {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let bytes = self.input.bytes()?;
        match self.what {
            What::Command => command(&bytes, context),
            What::Sense => show_sense(&bytes, context),
            What::Inquiry => show(page::INQUIRY.decode(&bytes), context),
            What::Vpd => show(page::vpd(&bytes).decode(&bytes), context),
            What::Capacity10 => show(page::CAPACITY_10.decode(&bytes), context),
            What::Log => show(page::log(&bytes).decode(&bytes), context),
            What::Modes10 => show(page::MODE_PARAMETERS_10.decode(&bytes), context),
            What::Capacity16 => show(page::CAPACITY_16.decode(&bytes), context),
        }
    }
}

fn command(bytes: &[u8], context: &Context) -> Result<(), CliError> {
    let cdb = Cdb::decode(bytes).map_err(|error| CliError::usage(error.to_string()))?;
    let row = cdb.command();
    let fields = || row.fields.iter().filter_map(|field| Some((field.name, cdb.get(field.name)?)));
    if context.json {
        return context.print_json(&json!({
            "structure": row.name,
            "standard": row.standard,
            "operation_code": row.opcode,
            "direction": row.direction.name(),
            "length_bytes": row.length(),
            "fields": fields().map(|(name, value)| (key(name), json!(value))).collect::<Map<_, _>>(),
            "control": cdb.control(),
            "reserved": cdb.reserved().map(|(byte, bit)| json!({ "byte": byte, "bit": bit })),
            "items": [],
        }));
    }
    let mut table = fields_table();
    table.row(["OPERATION CODE".to_owned(), row.opcode.to_string(), format!("{:02x}h", row.opcode)]);
    fields().for_each(|(name, value)| number(&mut table, name, value));
    number(&mut table, "CONTROL", cdb.control().into());
    let data = match row.direction.name() {
        "none" => "without data".to_owned(),
        direction => format!("data {direction}"),
    };
    let reserved =
        cdb.reserved().map(|(byte, bit)| format!("a reserved bit is set: byte {byte}, bit {bit}\n"));
    let title = format!("{} ({}), {data}\n", row.name, row.standard);
    context.print(&format!("{title}{}{}", table.to_text(context.terminal), reserved.unwrap_or_default()))
}
