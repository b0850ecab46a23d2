//! Structures of NVMe as tables and as JSON, with bits in words.

use super::super::decoded::{check, to_json, to_text};
use crate::cli::{CliError, Context};
use platter::nvme::bits::set_bits;
use platter::nvme::structure::Decoded;
use serde_json::{Map, json};

pub(super) fn show(decoded: Decoded<'_>, context: &Context) -> Result<(), CliError> {
    check(&decoded)?;
    let bits = set_bits(&decoded);
    if context.json {
        let mut object = to_json(decoded);
        object["bits"] = bits
            .into_iter()
            .map(|(field, names)| (field.to_owned(), json!(names)))
            .collect::<Map<_, _>>()
            .into();
        return context.print_json(&object);
    }
    let lines = bits.iter().map(|(field, names)| format!("{field}: {}\n", names.join(", ")));
    let words: String = lines.collect();
    let gap = if words.is_empty() { "" } else { "\n" };
    context.print(&format!("{}{gap}{words}", to_text(decoded, context.terminal)))
}
