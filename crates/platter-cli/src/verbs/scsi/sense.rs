//! Sense data as JSON.

use super::super::decoded::to_json;
use platter::scsi::sense::{self, Sense};
use serde_json::{Value as Json, json};

/// Sense data with its key and its additional code in words.
pub(super) fn sense_to_json(sense: &Sense<'_>) -> Json {
    let mut object = to_json(sense.fields());
    let (asc, ascq) = sense.code();
    object["sense_key"] = json!(sense.key().name());
    object["additional_sense"] = json!(sense::words(asc, ascq));
    object["message"] = json!(sense.to_string());
    object
}
