//! Structures as tables and as JSON.

use super::hex;
use crate::cli::{CliError, Context};
use platter::scsi::sense::{self, Sense};
use platter::scsi::structure::{Decoded, Value};
use platter_bench::report::{Column, Table, Terminal};
use serde_json::{Map, Value as Json, json};

pub(super) fn show(decoded: Decoded<'_>, context: &Context) -> Result<(), CliError> {
    // A structure of which not even the first field is there was not given at all.
    if decoded.fields().next().is_none() {
        let structure = decoded.structure().name;
        return Err(CliError::usage(format!("{structure} of {} bytes has no field", decoded.bytes().len())));
    }
    match context.json {
        true => context.print_json(&to_json(decoded)),
        false => context.print(&to_text(decoded, context.terminal)),
    }
}

/// Sense data, in words first.
pub(super) fn show_sense(bytes: &[u8], context: &Context) -> Result<(), CliError> {
    let sense = Sense::decode(bytes).map_err(|error| CliError::usage(error.to_string()))?;
    if !context.json {
        context.print(&format!("{sense}\n"))?;
        return show(sense.fields(), context);
    }
    context.print_json(&sense_to_json(&sense))
}

pub(super) fn fields_table() -> Table {
    Table::new([Column::text("field"), Column::text("value"), Column::text("hex")])
}

pub(super) fn number(table: &mut Table, name: &str, value: u64) {
    table.row([name.to_owned(), value.to_string(), format!("{value:02x}h")]);
}

fn to_text(decoded: Decoded<'_>, terminal: Terminal) -> String {
    let mut table = fields_table();
    for (name, value) in decoded.fields() {
        let (value, hex) = match value {
            Value::Number(value) => (value.to_string(), format!("{value:02x}h")),
            Value::Text(text) => (text, String::new()),
            Value::Bytes(bytes) => (String::new(), hex::print(bytes)),
        };
        table.row([name.to_owned(), value, hex]);
    }
    let structure = decoded.structure();
    let title = format!("{} ({})\n{}", structure.name, structure.standard, table.to_text(terminal));
    decoded
        .items()
        .into_iter()
        .map(|item| format!("\n{}", to_text(item, terminal)))
        .fold(title, |all, item| all + &item)
}

pub(super) fn to_json(decoded: Decoded<'_>) -> Json {
    let value = |value| match value {
        Value::Number(value) => json!(value),
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

/// Sense data with its key and its additional code in words.
pub(super) fn sense_to_json(sense: &Sense<'_>) -> Json {
    let mut object = to_json(sense.fields());
    let (asc, ascq) = sense.code();
    object["sense_key"] = json!(sense.key().name());
    object["additional_sense"] = json!(sense::words(asc, ascq));
    object["message"] = json!(sense.to_string());
    object
}
