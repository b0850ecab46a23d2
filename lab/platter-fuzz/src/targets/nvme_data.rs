//! Data that NVMe controllers return.

use super::hold;
use crate::bytes;
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use platter_nvme::structure::{Decoded, Structure, Value};
use platter_nvme::{data, identify, log, status};

pub(super) const TARGET: Target = Target {
    name: "nvme-data",
    summary: "identify data, log pages, completions and data of commands of NVMe controllers",
    generate,
    mutate,
    read,
    memory: 1 << 20,
};

/// The layouts; the first byte of an input chooses one.
fn layout(choice: u8) -> &'static Structure {
    match choice % 14 {
        0 => &identify::CONTROLLER,
        1 => &identify::NAMESPACE,
        2 => &identify::NAMESPACE_LIST,
        3 => &identify::INDEPENDENT_NAMESPACE,
        4 => &identify::NVM_NAMESPACE,
        5 => &log::SMART,
        6 => &log::ERRORS,
        7 => &log::FIRMWARE,
        8 => &log::EFFECTS,
        9 => &data::RANGES,
        10 => data::reservation_status(false),
        11 => data::reservation_status(true),
        12 => &status::COMPLETION,
        _ => &identify::DESCRIPTORS,
    }
}

fn generate(rng: &mut Rng) -> Vec<u8> {
    let choice = rng.any() as u8;
    let len = match choice % 14 {
        0 => 2048 + rng.index(1100),
        1 => 128 + rng.index(300),
        12 => 16,
        _ => rng.index(300),
    };
    let mut all: Vec<u8> = (0..=len).map(|_| if rng.one_in(2) { 0 } else { rng.any() as u8 }).collect();
    all[0] = choice;
    let body = &mut all[1..];
    match choice % 14 {
        // Numbers of power states, of formats, of registered controllers.
        0 => body[263] = rng.extreme(8) as u8,
        1 => (body[25], body[82]) = (rng.extreme(8) as u8, rng.extreme(8) as u8),
        10 | 11 if len > 6 => (body[5], body[6]) = (rng.below(9) as u8, 0),
        13 => descriptors(rng, body),
        _ => {}
    }
    all
}

/// Descriptors one after the other, and zeroes behind the last.
fn descriptors(rng: &mut Rng, list: &mut [u8]) {
    list.fill(0);
    let mut at = 0;
    while at + 4 < list.len() && !rng.one_in(6) {
        let kind = 1 + rng.index(5);
        let len = [8, 16, 16, 1, rng.index(40)][kind - 1];
        (list[at], list[at + 1]) = (kind as u8, len as u8);
        at += 4 + len;
    }
}

fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    match input.len() > 8 && rng.one_in(3) {
        true => input[1 + rng.index(8)] = rng.any() as u8,
        false => bytes::mutate(rng, input, other),
    }
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let Some((&choice, data)) = input.split_first() else {
        return Ok(Verdict::Refused("no layout".to_owned()));
    };
    let structure = layout(choice);
    let decoded = structure.decode(data);
    check(decoded, data.len())?;
    rebuilt(structure, decoded)?;
    if let Some(status) =
        status::of_completion(&decoded).filter(|_| core::ptr::eq(structure, &status::COMPLETION))
    {
        let line = status.to_string();
        hold(!line.is_empty() && !line.chars().any(char::is_control), || format!("{line:?}"))?;
        hold(status.is_success() == (status.bare().0 == 0), || format!("{status}"))?;
    }
    if core::ptr::eq(structure, &identify::NAMESPACE)
        && let Some(format) = identify::format(data)
    {
        hold(format.data.is_power_of_two(), || format!("{format:?}"))?;
        let block = identify::block_len(data);
        let whole = format.data + format.metadata;
        hold(block == Some(if format.is_extended { whole } else { format.data }), || {
            format!("{format:?}: {block:?}")
        })?;
    }
    Ok(Verdict::Accepted)
}

/// Fields have values that fit and text that is safe to print; items fill the list, one after the other, and a list that has
/// an end ends there.
fn check(decoded: Decoded<'_>, len: usize) -> Result<(), String> {
    let name = decoded.structure().name;
    hold(decoded.bytes().len() <= len, || format!("{name} is longer than the {len} bytes that it is in"))?;
    for (field, value) in decoded.fields() {
        if let Value::Text(text) = value {
            hold(text.chars().all(|c| (' '..='~').contains(&c)), || {
                format!("{field} of {name} is {text:?}")
            })?;
        }
    }
    let items = decoded.items();
    let sum: usize = items.iter().map(|item| item.bytes().len()).sum();
    let whole = decoded.list().len();
    hold(sum == whole, || format!("{} items of {name} have {sum} of {whole} bytes", items.len()))?;
    for item in items {
        let ends = item.get("nidt") == Some(0) || item.get("nsid") == Some(0) && item.bytes().len() == 4;
        hold(!ends, || format!("{name} has an item behind its end"))?;
        check(item, whole)?;
    }
    Ok(())
}

/// Fields that are set to what they are change nothing.
fn rebuilt(structure: &'static Structure, decoded: Decoded<'_>) -> Result<(), String> {
    let mut built = structure.edit(decoded.bytes().to_vec());
    for (name, value) in decoded.fields().filter(|(_, value)| !matches!(value, Value::Text(_))) {
        hold(built.set(name, &value), || format!("{name} cannot be set to {value:?}"))?;
    }
    hold(built.into_bytes() == decoded.bytes(), || {
        format!("{} is another one when it is rebuilt", structure.name)
    })
}
