//! Bytes that QEMU's controller (`-device nvme`, Linux 6.1) returned, and what nvme-cli 2.3 made of the same ones: both were
//! recorded one after the other, with `nvme VERB -b` and `nvme VERB -o json`.

use platter_nvme::structure::{Decoded, Structure, Value};
use platter_nvme::{bits, identify, log};
use serde_json::Value as Json;

struct Record {
    structure: &'static Structure,
    bytes: &'static [u8],
    json: &'static str,
}

macro_rules! record {
    ($structure:expr, $name:literal) => {
        Record {
            structure: &$structure,
            bytes: include_bytes!(concat!("data/qemu-", $name, ".bin")),
            json: include_str!(concat!("data/qemu-", $name, ".json")),
        }
    };
}

fn records() -> [Record; 7] {
    [
        record!(identify::CONTROLLER, "id-ctrl"),
        record!(identify::NAMESPACE, "id-ns"),
        record!(log::SMART, "smart-log"),
        record!(log::ERRORS, "error-log"),
        record!(log::FIRMWARE, "fw-log"),
        record!(identify::DESCRIPTORS, "ns-descs"),
        record!(identify::NAMESPACE_LIST, "list-ns"),
    ]
}

/// Keys of nvme-cli that differ from the specification's abbreviation.
const RENAMED: &[(&str, &str)] = &[
    ("max_power", "mp"),
    ("entry_lat", "enlat"),
    ("exit_lat", "exlat"),
    ("read_tput", "rrt"),
    ("read_lat", "rrl"),
    ("write_tput", "rwt"),
    ("write_lat", "rwl"),
    ("idle_power", "idlp"),
    ("idle_scale", "ips"),
    ("active_power", "actp"),
    ("active_power_work", "apw"),
    ("active_scale", "aps"),
    ("ds", "lbads"),
];

/// Keys without a field of their own: places that nvme-cli adds, the flags of a power state (two fields here), the value of a
/// descriptor under the name of its type, and the same without its zeroes.
const WITHOUT_FIELD: &[&str] = &["loc", "flags", "type", "csi"];

/// Digits without separators, as identifiers are printed in several ways.
fn digits(text: &str) -> String {
    text.chars().filter(|c| *c != '-').collect()
}

fn agrees(value: &Value<'_>, theirs: &Json) -> bool {
    match (value, theirs) {
        (Value::Number(ours), Json::Number(_)) => theirs.as_u64() == Some(*ours),
        (Value::Wide(ours), Json::Number(_)) => theirs.as_u64().map(u128::from) == Some(*ours),
        (Value::Number(ours), Json::String(text)) => *text == ours.to_string(),
        (Value::Wide(ours), Json::String(text)) => *text == ours.to_string(),
        (Value::Text(ours), Json::String(text)) => text.trim() == ours,
        (Value::Bytes(ours), Json::String(text)) => {
            digits(text) == ours.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        }
        _ => false,
    }
}

/// Compares every key of an object with the field of its name; returns how many there were.
fn compare(decoded: &Decoded<'_>, theirs: &Json) -> usize {
    let mut compared = 0;
    for (key, value) in theirs.as_object().expect("an object") {
        if value.is_array() {
            let items = decoded.items();
            let list = value.as_array().expect("a list");
            assert_eq!(items.len(), list.len(), "{key}");
            compared += items.iter().zip(list).map(|(item, theirs)| compare(item, theirs)).sum::<usize>();
            continue;
        }
        if WITHOUT_FIELD.contains(&key.as_str()) {
            continue;
        }
        let name = RENAMED.iter().find(|(theirs, _)| theirs == key).map_or(key.as_str(), |(_, ours)| *ours);
        let ours = decoded.fields().find(|(field, _)| *field == name);
        let (_, ours) = ours.unwrap_or_else(|| panic!("{}: no field {name}", decoded.structure().name));
        assert!(agrees(&ours, value), "{name} is {ours:?}, nvme-cli says {value}");
        compared += 1;
    }
    compared
}

#[test]
fn decoded_bytes_agree_with_nvme_cli_field_by_field() {
    let mut compared = 0;
    for record in records() {
        let theirs: Json = serde_json::from_str(record.json).unwrap();
        // The log of firmware has the slots under keys in words; another test looks at it.
        if !core::ptr::eq(record.structure, &log::FIRMWARE) {
            compared += compare(&record.structure.decode(record.bytes), &theirs);
        }
    }
    assert!(compared > 150, "{compared} values");
}

#[test]
fn firmware_slots_and_descriptors() {
    let [_, _, _, _, firmware, descriptors, _] = records();
    let firmware = firmware.structure.decode(firmware.bytes);
    assert_eq!(firmware.get("afi"), Some(1));
    let revision = firmware.fields().find(|(name, _)| *name == "frs1");
    assert_eq!(revision, Some(("frs1", Value::Text("1.0".into()))));
    let descriptors = descriptors.structure.decode(descriptors.bytes).items();
    assert_eq!(descriptors.len(), 1);
    assert_eq!(descriptors[0].fields().last(), Some(("nid", Value::Bytes(&[0]))));
}

/// No field is lost or moved: a structure whose fields are set to what they are has the same bytes, and one of ones keeps
/// exactly the fields.
#[test]
fn encoding_the_fields_of_a_device_gives_its_bytes() {
    for record in records() {
        let decoded = record.structure.decode(record.bytes);
        let mut same = record.structure.edit(decoded.bytes().to_vec());
        let mut other = record.structure.edit(vec![0xff; decoded.bytes().len()]);
        for (name, value) in decoded.fields() {
            assert!(same.set(name, &value) && other.set(name, &value), "{name}");
        }
        // Text is filled up with spaces, also where a device used zeroes.
        let shown =
            |bytes: &[u8]| bytes.iter().map(|byte| if *byte == 0 { b' ' } else { *byte }).collect::<Vec<_>>();
        assert_eq!(shown(&same.into_bytes()), shown(decoded.bytes()), "{}", record.structure.name);
        let other = other.into_bytes();
        assert!(record.structure.decode(&other).fields().eq(decoded.fields()), "{}", record.structure.name);
    }
}

#[test]
fn the_structures_of_the_command_set_have_their_limits() {
    let controller = identify::NVM_CONTROLLER.decode(include_bytes!("data/qemu-cs-ctrl.bin"));
    assert_eq!((controller.get("vsl"), controller.get("dmrsl")), (Some(7), Some(0x3f_ffff)));
    let namespace = identify::NVM_NAMESPACE.decode(include_bytes!("data/qemu-cs-ns.bin"));
    assert_eq!((namespace.items().len(), namespace.get("stcrs")), (64, Some(0)));
}

#[test]
fn the_length_of_a_block_follows_from_the_format() {
    let mut namespace = include_bytes!("data/qemu-id-ns.bin").to_vec();
    assert_eq!(identify::block_len(&namespace), Some(512));
    // FLBAS: the last of eight formats has blocks of 4096 bytes with 64 of metadata.
    namespace[26] = 7;
    assert_eq!(identify::block_len(&namespace), Some(4096));
    namespace[26] = 7 | 1 << 4;
    assert_eq!(identify::block_len(&namespace), Some(4160));
    namespace[26] = 8;
    assert_eq!(identify::block_len(&namespace), None);
    assert_eq!(identify::block_len(&namespace[..100]), None);
}

/// The bits that nvme-cli says are supported, by `nvme id-ctrl -H` and `nvme id-ns -H` of the same bytes.
#[test]
fn bits_have_the_meaning_that_nvme_cli_gives_them() {
    let [controller, namespace, ..] = records();
    let controller = bits::set_bits(&controller.structure.decode(controller.bytes));
    let of = |all: &[(&str, Vec<&'static str>)], field: &str| {
        all.iter().find(|(name, _)| *name == field).map(|(_, names)| names.join(", ")).unwrap_or_default()
    };
    for (field, names) in [
        ("oaes", "Namespace Attribute Notices"),
        ("ctratt", "Extended LBA Formats"),
        ("oacs", "Format NVM, Namespace Management and Attachment, Doorbell Buffer Config"),
        ("frmw", "First Firmware Slot Read Only"),
        ("oncs", "Compare, Dataset Management, Write Zeroes, Save and Select, Timestamp, Copy"),
        ("ocfs", "Copy Format 0h, Copy Format 1h"),
        ("vwc", "Volatile Write Cache Present"),
        ("cmic", ""),
        ("fuses", ""),
    ] {
        assert_eq!(of(&controller, field), names, "{field}");
    }
    let namespace = bits::set_bits(&namespace.structure.decode(namespace.bytes));
    let features = "Deallocated or Unwritten Logical Block Error, Optimal Performance Fields";
    assert_eq!((of(&namespace, "nsfeat").as_str(), of(&namespace, "rescap").as_str()), (features, ""));
}
