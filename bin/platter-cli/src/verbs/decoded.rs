//! Structures of SCSI and NVMe as tables and as JSON, and the bytes that they are read from.

use super::hex;
use crate::cli::{CliError, Context};
use clap::Args;
use platter::scsi::structure::{Decoded, Value};
use platter_bench::report::{Column, Table, Terminal};
use serde_json::{Map, Value as Json, json};
use std::io::Read;
use std::path::PathBuf;

pub(super) fn show(decoded: Decoded<'_>, context: &Context) -> Result<(), CliError> {
    check(&decoded)?;
    context.show(&to_json(decoded), &to_text(decoded, context.terminal))
}

/// A structure of which not even the first field is there was not given at all.
pub(super) fn check(decoded: &Decoded<'_>) -> Result<(), CliError> {
    let has_fields = !decoded.structure().fields.is_empty();
    if has_fields && decoded.fields().next().is_none() && decoded.items().is_empty() {
        let structure = decoded.structure().name;
        return Err(CliError::usage(format!("{structure} of {} bytes has no field", decoded.bytes().len())));
    }
    Ok(())
}

pub(super) fn fields_table() -> Table {
    Table::new([Column::text("field"), Column::text("value"), Column::text("hex")])
}

pub(super) fn number(table: &mut Table, name: &str, value: u64) {
    table.row([name.to_owned(), value.to_string(), format!("{value:02x}h")]);
}

pub(super) fn to_text(decoded: Decoded<'_>, terminal: Terminal) -> String {
    let mut table = fields_table();
    let has_fields = decoded.fields().next().is_some();
    for (name, value) in decoded.fields() {
        let (value, hex) = match value {
            Value::Number(value) => (value.to_string(), format!("{value:02x}h")),
            Value::Wide(value) => (value.to_string(), format!("{value:02x}h")),
            Value::Text(text) => (text, String::new()),
            Value::Bytes(bytes) => (String::new(), hex::print(bytes)),
        };
        table.row([name.to_owned(), value, hex]);
    }
    let structure = decoded.structure();
    let table = if has_fields { table.to_text(terminal) } else { String::new() };
    let title = format!("{} ({})\n{table}", structure.name, structure.standard);
    decoded
        .items()
        .into_iter()
        .map(|item| format!("\n{}", to_text(item, terminal)))
        .fold(title, |all, item| all + &item)
}

pub(super) fn to_json(decoded: Decoded<'_>) -> Json {
    let value = |value| match value {
        Value::Number(value) => json!(value),
        // Text where JSON has no number for it.
        Value::Wide(value) => {
            u64::try_from(value).map_or_else(|_| json!(value.to_string()), |value| json!(value))
        }
        Value::Text(text) => json!(text),
        Value::Bytes(bytes) => json!(hex::print(bytes)),
    };
    json!({
        "structure": decoded.structure().name,
        "standard": decoded.structure().standard,
        "fields": decoded.fields().map(|(name, of)| (key(name), value(of))).collect::<Map<_, _>>(),
        "items": decoded.items().into_iter().map(to_json).collect::<Vec<_>>(),
    })
}

/// The key of a field: its name in lower case, with `_` for what is neither letter nor digit.
pub(super) fn key(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect()
}

/// Most bytes that are read of a file. The longest data that a 16-bit length allows, as text with room for comments.
const MOST: u64 = 1 << 20;

/// Bytes on the command line or in a file.
#[derive(Args, Debug)]
pub(super) struct Input {
    /// The bytes in hexadecimal
    #[arg(value_name = "HEX", required_unless_present = "file", conflicts_with = "file")]
    bytes: Vec<String>,
    /// Read the bytes from a file, - for standard input
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The file holds the bytes themselves, not hexadecimal digits
    #[arg(long, requires = "file")]
    binary: bool,
}

impl Input {
    pub(super) fn bytes(&self) -> Result<Vec<u8>, CliError> {
        let Some(path) = &self.file else {
            return hex::parse(&self.bytes.join(" ")).map_err(|why| CliError::usage(format!("HEX: {why}")));
        };
        let named = path.display();
        let failed = |why: &dyn std::fmt::Display| CliError::usage(format!("--file {named}: {why}"));
        let source: Box<dyn Read> = match path.as_os_str() == "-" {
            true => Box::new(std::io::stdin()),
            false => Box::new(std::fs::File::open(path).map_err(|error| failed(&error))?),
        };
        let mut bytes = Vec::new();
        source.take(MOST + 1).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
        if bytes.len() as u64 > MOST {
            return Err(failed(&format_args!("longer than {MOST} bytes")));
        }
        if self.binary {
            return Ok(bytes);
        }
        let text =
            String::from_utf8(bytes).map_err(|_| failed(&"not text; give --binary if it holds the bytes"))?;
        hex::parse(&text).map_err(|why| failed(&why))
    }
}
