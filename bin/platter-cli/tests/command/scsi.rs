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

#[test]
fn a_device_answers_commands() {
    let limits = json(&["scsi", "vpd", "b0", "--on", "ram(1M)"]);
    assert_eq!((&limits["fields"]["page_code"], &limits["fields"]["wsnz"]), (&0xb0.into(), &1.into()));
    let capacity = json(&["scsi", "readcap", "--on", "null(1T)"]);
    assert_eq!(capacity["fields"]["returned_logical_block_address"], (1u64 << 31) - 1);
    assert_eq!(json(&["scsi", "luns", "--on", "ram(1M)"])["items"][0]["fields"]["lun"], 0);
    let modes = json(&["scsi", "modes", "--on", "ram(1M)"]);
    let page = |n: usize| &modes["items"][n]["fields"]["page_code"];
    assert_eq!((page(0), page(1)), (&8.into(), &10.into()));
    assert_eq!(modes["fields"]["block_descriptor_length"], 8);
    fails_saying(2, &["scsi", "modes", "40", "--on", "ram(1M)"], &["from 00 to 3f"]);
    fails_saying(
        1,
        &["scsi", "vpd", "c1", "--on", "ram(1M)"],
        &["INVALID FIELD IN CDB (byte 2 of the command)"],
    );
    let log = json(&["scsi", "log", "--on", "ram(1M)"]);
    assert_eq!(
        (&log["items"][0]["fields"]["page_code"], &log["items"][1]["fields"]["page_code"]),
        (&0.into(), &0x19.into())
    );
    let counts = json(&["scsi", "log", "19", "--on", "ram(1M)"]);
    assert_eq!(counts["items"][0]["fields"]["number_of_read_commands"], 0);
    let sense = json(&["scsi", "sense", "--descriptor", "--on", "ram(1M)"]);
    assert_eq!((&sense["sense_key"], &sense["fields"]["response_code"]), (&"NO SENSE".into(), &0x72.into()));
    fails_saying(
        1,
        &["scsi", "log", "3f", "--on", "ram(1M)"],
        &["INVALID FIELD IN CDB (byte 2 of the command"],
    );
    fails_saying(2, &["scsi", "vpd", "zz", "--on", "ram(1M)"], &["a hexadecimal number from 00 to ff"]);
}

#[test]
fn what_is_written_by_a_command_is_read_by_another() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (disk, input, output) = (path("disk.img"), path("in"), path("out"));
    std::fs::File::create(&disk).unwrap().set_len(1 << 20).unwrap();
    let block = json(&["scsi", "readcap", "--on", &disk])["fields"]["logical_block_length_in_bytes"]
        .as_u64()
        .unwrap();
    std::fs::write(&input, vec![7; block as usize]).unwrap();
    let write = ["scsi", "raw", "2a 00 00 00 00 03 00 00 01 00", "--on", &disk, "--input", &input];
    fails_saying(4, &write, &["WRITE (10) may change", "--yes-destroy"]);
    ok(&[&write[..], &["--yes-destroy", &disk]].concat());
    let read = ["scsi", "raw", "28 00 00 00 00 03 00 00 01 00", "--on", &disk, "--output", &output];
    ok(&read);
    assert_eq!(std::fs::read(&output).unwrap(), vec![7; block as usize]);
    fails_saying(1, &read, &["--output", "exists"]);
    fails_saying(
        2,
        &[&read[..3], &["--on", &disk, "--input", &input]].concat(),
        &["READ (10) takes no data"],
    );
    let verify = |lba| ["scsi".to_owned(), "raw".to_owned(), format!("2f 02 00 00 00 {lba} 00 00 01 00")];
    let on = ["--on", &disk, "--input", &input];
    ok(&[&args(&verify("03"))[..], &on].concat());
    fails_saying(
        1,
        &[&args(&verify("04"))[..], &on].concat(),
        &["MISCOMPARE DURING VERIFY OPERATION", "information 0"],
    );
    let past = json_of_failure(&["scsi", "raw", "28 00 00 ff ff ff 00 00 01 00", "--on", &disk]);
    assert_eq!(past["sense"]["additional_sense"], "LOGICAL BLOCK ADDRESS OUT OF RANGE");
}

#[test]
fn a_command_that_linux_would_refuse_names_the_rule() {
    let raw = |hex| ["scsi", "raw", hex, "--on", "ram(1M)", "--unprivileged"];
    ok(&raw("12 00 00 00 24 00"));
    let write = raw("93 00 00 00 00 00 00 00 00 00 00 00 00 01 00 00");
    fails_saying(4, &write, &["WRITE SAME (16): operation code 93h", "open for writing, or CAP_SYS_RAWIO"]);
    let reserve = raw("5e 00 00 00 00 00 00 00 08 00");
    fails_saying(4, &reserve, &["PERSISTENT RESERVE IN, READ KEYS: operation code 5eh", "not among those"]);
    ok(&reserve[..5]);
}

#[test]
fn a_path_that_is_no_scsi_disk_is_refused_with_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("disk.img");
    std::fs::write(&file, [0; 4096]).unwrap();
    let file = file.to_str().unwrap();
    for verb in
        [&["inq"][..], &["vpd", "b0"], &["readcap"], &["luns"], &["modes", "3f"], &["log", "00"], &["sense"]]
    {
        fails_saying(3, &[&["scsi"], verb, &[file]].concat(), &["disk.img", "no device", "/dev/sgN"]);
    }
    fails_saying(3, &["scsi", "inq", "/dev/null"], &["/dev/null", "a character device 1:3"]);
    for verb in ["vpd", "modes", "log"] {
        fails_saying(2, &["scsi", verb, file], &["hexadecimal", "comes before DEVICE"]);
    }
    fails_saying(2, &["scsi", "inq", file, "--on", "ram(1M)"], &["cannot be used with"]);
    fails_saying(2, &["scsi", "inq"], &["--on"]);
    fails_saying(3, &["scsi", "raw", "00 00 00 00 00 00", "--device", "/dev/null"], &["/dev/null"]);
}

#[test]
fn a_command_that_changes_no_block_needs_no_permission_to_destroy() {
    // Synchronised, stopped: the device is opened for writing, as START STOP UNIT may change what others get.
    ok(&["scsi", "raw", "35 00 00 00 00 00 00 00 00 00", "--on", "ram(1M)"]);
    ok(&["scsi", "raw", "1b 00 00 00 00 00", "--on", "ram(1M)"]);
}

/// Fields of a log page, as sg3-utils decodes them.
#[test]
fn a_log_page_agrees_with_sg_logs() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.hex");
    let numbers: Vec<String> = (1..=8).map(|n| format!("00 00 00 00 00 00 00 {n:02x}")).collect();
    // With the parameters of idle time and of the interval, without which sg_logs shows none.
    let others = "00 02 03 08 00 00 00 00 00 00 00 00 00 03 03 08 00 00 00 00 00 00 00 00";
    let hex = format!("19 00 00 5c 00 01 03 40 {} {others}", numbers.join(" "));
    std::fs::write(&page, &hex).unwrap();
    let Ok(theirs) = Command::new("sg_logs").arg(format!("--in={}", page.display())).output() else {
        eprintln!("skipped: sg_logs is not installed (package sg3-utils)");
        return;
    };
    let theirs = String::from_utf8(theirs.stdout).unwrap().to_lowercase();
    let ours = json(&args(&decode("log", &hex, &[])));
    for key in [
        "number_of_read_commands",
        "number_of_logical_blocks_received",
        "number_of_logical_blocks_transmitted",
    ] {
        let wanted = format!("{} = {}", key.replace('_', " "), ours["items"][0]["fields"][key]);
        assert!(theirs.contains(&wanted), "{wanted}: {theirs}");
    }
}

/// What a command that fails prints as JSON.
fn json_of_failure(args: &[&str]) -> serde_json::Value {
    let output = Command::new(env!("CARGO_BIN_EXE_platter")).args(args).arg("--json").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Fields of our pages, as sg3-utils decodes them.
#[test]
fn our_pages_agree_with_sg_vpd_and_sg_inq() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.hex");
    let theirs = |program: &str, ours: &[&str]| {
        std::fs::write(&page, ok(&[ours, &["--on", "ram(1M)", "--hex"]].concat())).unwrap();
        let output = Command::new(program).arg(format!("--inhex={}", page.display())).output().ok()?;
        assert!(output.status.success(), "{program}: {output:?}");
        Some(String::from_utf8(output.stdout).unwrap())
    };
    let Some(inquiry) = theirs("sg_inq", &["scsi", "inq"]) else {
        eprintln!("skipped: sg_inq is not installed (package sg3-utils)");
        return;
    };
    for wanted in
        ["Vendor identification: PLATTER", "Product identification: BLOCK DEVICE", "SPC-4", "CmdQue=1"]
    {
        assert!(inquiry.contains(wanted), "{wanted}: {inquiry}");
    }
    let limits = theirs("sg_vpd", &["scsi", "vpd", "b0"]).unwrap();
    let ours = json(&["scsi", "vpd", "b0", "--on", "ram(1M)"]);
    for (key, name) in [
        ("maximum_transfer_length", "Maximum transfer length"),
        ("maximum_unmap_lba_count", "Maximum unmap LBA count"),
        ("maximum_unmap_block_descriptor_count", "Maximum unmap block descriptor count"),
        ("maximum_write_same_length", "Maximum write same length"),
    ] {
        let line = limits.lines().find(|line| line.trim().starts_with(name)).unwrap_or_default();
        let value = ours["fields"][key].as_u64().unwrap();
        let is = line.contains(&format!("{value:#x}"))
            || line.split([' ', ':']).any(|word| word == value.to_string());
        assert!(is, "{key} is {value}: {line}");
    }
    let provisioning = theirs("sg_vpd", &["scsi", "vpd", "b2"]).unwrap();
    assert!(provisioning.contains("Unmap command supported (LBPU): 1"), "{provisioning}");
    let identification = theirs("sg_vpd", &["scsi", "vpd", "83"]).unwrap();
    assert!(identification.contains("vendor id: PLATTER"), "{identification}");
}

#[test]
fn the_commands_of_the_page_run() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scsi.md")).unwrap();
    let lines: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("    platter ")).collect();
    assert!(lines.len() >= 5, "{lines:?}");
    // What needs a device of the system, or serves until it is stopped, is left out.
    for line in lines.iter().filter(|line| !line.contains("/dev/") && !line.starts_with("serve ")) {
        // Every other part is in quotation marks.
        let parts = line.split('\'').enumerate();
        let words: Vec<&str> = parts
            .flat_map(|(at, part)| match at % 2 {
                0 => part.split_whitespace().collect(),
                _ => vec![part],
            })
            .collect();
        let printed = ok(&words);
        if words[1] == "decode" {
            assert!(page.contains(printed.lines().next().unwrap()), "{printed}");
        }
    }
}
