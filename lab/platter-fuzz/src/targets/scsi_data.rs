//! Data that SCSI devices return.

use super::hold;
use crate::bytes;
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use platter_scsi::page;
use platter_scsi::sense::{self, Sense};
use platter_scsi::structure::{Decoded, Structure, Value};

pub(super) const TARGET: Target = Target {
    name: "scsi-data",
    summary: "sense data, INQUIRY data, VPD and mode pages and capacities of SCSI devices",
    generate,
    mutate,
    read,
    memory: 1 << 20,
};

/// The layouts; the first byte of an input chooses one. VPD pages choose their own by their code.
fn layout(choice: u8, bytes: &[u8]) -> &'static Structure {
    match choice % 8 {
        0 => &sense::FIXED,
        1 => &sense::DESCRIPTOR,
        2 => &page::INQUIRY,
        3 => &page::CAPACITY_16,
        4 => &page::LUNS,
        6 => &page::MODE_PARAMETERS_10,
        7 => &page::TARGET_PORT_GROUPS,
        _ => page::vpd(bytes),
    }
}

fn generate(rng: &mut Rng) -> Vec<u8> {
    let choice = rng.any() as u8;
    let len = 8 + rng.index(96);
    let mut all: Vec<u8> = (0..=len).map(|_| if rng.one_in(2) { 0 } else { rng.any() as u8 }).collect();
    all[0] = choice;
    let body = &mut all[1..];
    match choice % 8 {
        0 => (body[0], body[7]) = (0x70 | rng.below(2) as u8, (len - 8) as u8),
        1 => {
            (body[0], body[7]) = (0x72 | rng.below(2) as u8, (len - 8) as u8);
            items(rng, &mut body[8..], 2, 1);
        }
        4 => body[..4].copy_from_slice(&(len as u32 - 8).to_be_bytes()),
        5 => {
            body[1] = *rng.pick(&[0, 0x80, 0x83, 0xb0, 0xb1, 0xb2, 0xc0]);
            (body[2], body[3]) = (0, (len - 4) as u8);
            items(rng, &mut body[4..], 4, 3);
        }
        6 => {
            (body[0], body[1], body[6], body[7]) = (0, (len - 2) as u8, 0, *rng.pick(&[0, 8, 16, 200]));
            items(rng, &mut body[8..], 2, 1);
        }
        7 => {
            body[..4].copy_from_slice(&(len as u32 - 4).to_be_bytes());
            if let Some(ports) = body.get_mut(11) {
                *ports = rng.below(4) as u8;
            }
        }
        _ => body[4] = (len - 5) as u8,
    }
    all
}

/// Lengths of items that fill a list; each has a header of some bytes, with the length of the rest at an offset in it.
fn items(rng: &mut Rng, list: &mut [u8], header: usize, length_at: usize) {
    let mut at = 0;
    while at + header < list.len() {
        let len = rng.index(14);
        list[at] &= if rng.one_in(2) { 7 } else { 0x4a };
        list[at + length_at] = len as u8;
        at += header + len;
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
    check(layout(choice, data).decode(data), data.len())?;
    if choice % 8 > 1 {
        return Ok(Verdict::Accepted);
    }
    match Sense::decode(data) {
        Ok(sense) => {
            let line = sense.to_string();
            hold(!line.chars().any(char::is_control), || format!("{line:?} has control characters"))?;
            Ok(Verdict::Accepted)
        }
        Err(error) => Ok(Verdict::Refused(error.to_string())),
    }
}

/// Fields have values that fit and text that is safe to print; items fill the list, one after the other.
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
    let Some(list) = &decoded.structure().items else { return Ok(()) };
    let items = decoded.items();
    let sum: usize = items.iter().map(|item| item.bytes().len()).sum();
    let whole = decoded.bytes().len().saturating_sub((list.start)(decoded.bytes()));
    hold(sum == whole, || format!("{} items of {name} have {sum} of {whole} bytes", items.len()))?;
    items.into_iter().try_for_each(|item| check(item, whole))
}
