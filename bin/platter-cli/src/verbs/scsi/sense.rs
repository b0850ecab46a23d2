//! Sense data as a table and as JSON.

use super::super::decoded::{show, to_json};
use crate::cli::{CliError, Context};
use platter::scsi::sense::{self, Sense};
use serde_json::{Value as Json, json};

/// Sense data, in words first.
pub(super) fn show_sense(bytes: &[u8], context: &Context) -> Result<(), CliError> {
    let sense = Sense::decode(bytes).map_err(|error| CliError::usage(error.to_string()))?;
    if !context.json {
        context.print(&format!("{sense}\n"))?;
        return show(sense.fields(), context);
    }
    context.print_json(&sense_to_json(&sense))
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
