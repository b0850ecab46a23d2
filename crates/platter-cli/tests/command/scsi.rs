//! `platter scsi`.

use crate::run::{fails_saying, json, ok};
use std::process::Command;

const READ: &str = "28 08 00 00 12 34 00 00 08 00";

/// Sense data in both formats.
const SENSE: &[&str] = &[
    "f0 00 03 00 00 10 00 0a 00 00 00 00 11 00 00 00 00 00",
    "70 00 05 00 00 00 00 0a 00 00 00 00 24 00 00 cb 00 01",
    "70 00 06 00 00 00 00 0a 00 00 00 00 29 00 00 00 00 00",
    "72 0e 1d 00 00 00 00 0c 00 0a 80 00 00 00 00 00 00 00 02 00",
    "72 05 21 00 00 00 00 08 02 06 00 00 c0 00 02 00",
];

fn decode(what: &str, hex: &str, more: &[&str]) -> Vec<String> {
    ["scsi", "decode", what]
        .into_iter()
        .chain(hex.split(' '))
        .chain(more.iter().copied())
        .map(str::to_owned)
        .collect()
}

fn args(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

#[test]
fn a_command_is_shown_with_the_names_of_its_fields() {
    let read = json(&args(&decode("command", READ, &[])));
    assert_eq!((&read["structure"], &read["direction"]), (&"READ (10)".into(), &"in".into()));
    assert_eq!(
        (&read["fields"]["logical_block_address"], &read["fields"]["fua"]),
        (&0x1234.into(), &1.into())
    );
    assert!(read["reserved"].is_null());
    let text = ok(&args(&decode("command", READ, &[])));
    assert!(text.starts_with("READ (10) (SBC-3), data in\n") && text.contains("TRANSFER LENGTH"), "{text}");
}

#[test]
fn the_fields_of_a_page_and_its_list() {
    let page = json(&args(&decode("vpd", "00 83 00 0c 01 03 00 08 50 00 c5 00 01 02 03 04", &[])));
    assert_eq!(page["fields"]["page_code"], 0x83);
    assert_eq!(page["items"][0]["fields"]["designator"], "50 00 c5 00 01 02 03 04");
}

#[test]
fn what_is_not_a_command_or_sense_data_is_refused() {
    fails_saying(2, &["scsi", "decode", "command", "28", "00"], &["READ (10) of 2 bytes; it has 10"]);
    fails_saying(2, &["scsi", "decode", "command", "ff"], &["unknown operation code ffh"]);
    fails_saying(2, &["scsi", "decode", "sense", "45 00"], &["response code from 70h to 73h, not 45h"]);
    fails_saying(2, &["scsi", "decode", "sense", "7"], &["`7` has an odd number of digits"]);
    fails_saying(2, &["scsi", "decode", "inquiry", "--file", "/nonexistent/page"], &["/nonexistent/page"]);
}

#[test]
fn bytes_come_from_files_too() {
    let dir = tempfile::tempdir().unwrap();
    let (binary, text) = (dir.path().join("page.bin"), dir.path().join("page.hex"));
    std::fs::write(&binary, [0, 0, 0, 0x7f, 0, 0, 2, 0]).unwrap();
    std::fs::write(&text, "# last block, block size\n00 00 00 7f\n00 00 02 00\n").unwrap();
    for (path, more) in [(&binary, &["--binary"][..]), (&text, &[])] {
        let mut all = vec!["scsi", "decode", "capacity10", "--file", path.to_str().unwrap()];
        all.extend(more);
        let capacity = json(&all);
        assert_eq!(capacity["fields"]["returned_logical_block_address"], 127);
        assert_eq!(capacity["fields"]["logical_block_length_in_bytes"], 512);
    }
    fails_saying(2, &["scsi", "decode", "inquiry", "--file", "/dev/zero"], &["longer than 1048576 bytes"]);
}

/// The names of sense key and additional sense are those that sg3-utils prints.
#[test]
fn sense_data_agrees_with_sg_decode_sense() {
    for sense in SENSE {
        let ours = json(&args(&decode("sense", sense, &[])));
        let Ok(theirs) = Command::new("sg_decode_sense").args(sense.split(' ')).output() else {
            eprintln!("skipped: sg_decode_sense is not installed (package sg3-utils)");
            return;
        };
        let theirs = String::from_utf8(theirs.stdout).unwrap().to_lowercase();
        for key in ["sense_key", "additional_sense"] {
            let words = ours[key].as_str().unwrap().to_lowercase();
            assert!(theirs.contains(&words), "{sense}: {key} is {words}, sg_decode_sense says {theirs}");
        }
    }
}
