//! `platter nvme`.

use crate::run::{fails_saying, json, ok};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Data of QEMU's controller, recorded with what nvme-cli printed of it.
fn recorded(name: &str) -> String {
    format!("{}/../../lib/platter-nvme/tests/data/qemu-{name}.bin", env!("CARGO_MANIFEST_DIR"))
}

fn decode(what: &str, name: &str) -> Value {
    json(&["nvme", "decode", what, "--binary", "--file", &recorded(name)])
}

#[test]
fn recorded_data_is_shown_with_the_names_of_its_fields() {
    let controller = decode("ctrl", "id-ctrl");
    assert_eq!(
        (&controller["fields"]["vid"], &controller["fields"]["mn"]),
        (&0x1b36.into(), &"QEMU NVMe Ctrl".into())
    );
    assert_eq!(controller["items"][0]["fields"]["mp"], 2500);
    assert_eq!(controller["bits"]["vwc"][0], "Volatile Write Cache Present");
    let namespace = decode("ns", "id-ns");
    assert_eq!(
        (&namespace["fields"]["nsze"], namespace["items"].as_array().unwrap().len()),
        (&131_072.into(), 8)
    );
    assert_eq!(decode("smart", "smart-log")["fields"]["temperature"], 323);
    assert_eq!(decode("ns-descs", "ns-descs")["items"][0]["fields"]["nidt"], 4);
    assert_eq!(decode("ns-list", "list-ns")["items"][0]["fields"]["nsid"], 1);
    assert_eq!(decode("firmware", "fw-log")["fields"]["frs1"], "1.0");
    let text = ok(&["nvme", "decode", "ns-list", "--binary", "--file", &recorded("list-ns")]);
    assert!(text.starts_with("Namespace List (NVMe Base 2.0)\n") && text.contains("nsid"), "{text}");
}

#[test]
fn commands_and_completions_are_decoded() {
    let mut bytes = [0u8; 64];
    (bytes[0], bytes[4], bytes[41], bytes[48], bytes[51]) = (0x02, 1, 0x10, 7, 0x40);
    let hex = bytes.map(|byte| format!("{byte:02x}")).join(" ");
    let read = json(&["nvme", "decode", "io", &hex]);
    assert_eq!(
        (&read["structure"], &read["direction"], &read["queue"]),
        (&"Read".into(), &"in".into(), &"io".into())
    );
    let fields = &read["fields"];
    assert_eq!((&fields["slba"], &fields["nlb"], &fields["fua"]), (&0x1000.into(), &7.into(), &1.into()));
    assert_eq!(json(&["nvme", "decode", "admin", &hex])["structure"], "Get Log Page");
    let text = ok(&["nvme", "decode", "io", &hex]);
    assert!(text.starts_with("Read (NVM Command Set 1.0), io queue, data in\n"), "{text}");
    let completion = "00 00 00 00 00 00 00 00 10 00 01 00 07 00 01 81";
    let decoded = json(&["nvme", "decode", "completion", completion]);
    assert_eq!(
        (&decoded["status"], &decoded["fields"]["cid"]),
        (&"LBA Out of Range (0x4080)".into(), &7.into())
    );
    fails_saying(2, &["nvme", "decode", "io", "02 00"], &["a submission queue entry of 2 bytes; it has 64"]);
    fails_saying(2, &["nvme", "decode", "ctrl", "--file", "/nonexistent/page"], &["/nonexistent/page"]);
}

#[test]
fn a_device_answers_commands() {
    let controller = json(&["nvme", "id", "--on", "ram(1M)"]);
    assert_eq!((&controller["fields"]["nn"], &controller["fields"]["cntrltype"]), (&1.into(), &1.into()));
    let namespace = json(&["nvme", "ns", "--on", "null(1T)"]);
    assert_eq!(namespace["fields"]["nsze"], 1u64 << 31);
    assert_eq!(namespace["fields"]["nvmcap"], 1u64 << 40);
    assert_eq!(
        json(&["nvme", "ns", "--on", "ram(1M)", "--about", "descriptors"])["items"][1]["fields"]["nidt"],
        4
    );
    assert_eq!(json(&["nvme", "smart", "--on", "ram(1M)"])["fields"]["avail_spare"], 100);
    let text = ok(&["nvme", "id", "--on", "ram(1M)"]);
    let optional = "oncs: Compare, Dataset Management, Write Zeroes, Save and Select, Verify\n";
    assert!(text.contains(optional), "{text}");
    let listed = json(&["nvme", "list", "--on", "ram(1M)"]);
    assert_eq!((&listed[0]["size_bytes"], &listed[0]["block_bytes"]), (&(1 << 20).into(), &512.into()));
    assert_eq!(json(&["nvme", "log", "05", "--on", "ram(1M)"])["items"][6]["fields"]["csupp"], 1);
    assert_eq!(json(&["nvme", "log", "04", "--on", "ram(1M)"])["items"], serde_json::json!([]));
    fails_saying(
        1,
        &["nvme", "ns", "--nsid", "2", "--on", "ram(1M)"],
        &["Invalid Namespace or Format (0x400b)"],
    );
    fails_saying(1, &["nvme", "log", "70", "--on", "ram(1M)"], &["Invalid Log Page (0x4109)"]);
    fails_saying(2, &["nvme", "log", "zz", "--on", "ram(1M)"], &["a hexadecimal number from 00 to ff"]);
    fails_saying(
        2,
        &["nvme", "log", "02", "--bytes", "6", "--on", "ram(1M)"],
        &["--bytes 6: not a multiple of 4"],
    );
    fails_saying(2, &["nvme", "id"], &["<DEVICE|--on <SPEC>>"]);
}

/// What `--hex` prints is read back as the same structure.
#[test]
fn hexadecimal_is_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("id.hex");
    std::fs::write(&file, ok(&["nvme", "id", "--on", "ram(1M)", "--hex"])).unwrap();
    let again = json(&["nvme", "decode", "ctrl", "--file", file.to_str().unwrap()]);
    assert_eq!(again, json(&["nvme", "id", "--on", "ram(1M)"]));
}

#[test]
fn what_is_written_by_a_command_is_read_by_another() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (disk, input, output) = (path("disk.img"), path("in"), path("out"));
    std::fs::File::create(&disk).unwrap().set_len(1 << 20).unwrap();
    let block = json(&["nvme", "list", "--on", &disk])[0]["block_bytes"].as_u64().unwrap();
    std::fs::write(&input, vec![7; block as usize]).unwrap();
    let write = ["nvme", "raw", "write", "slba=3", "--on", &disk, "--input", &input];
    fails_saying(4, &write, &["Write may change", "--yes-destroy"]);
    fails_saying(4, &[&write[..], &["--yes-destroy", "another"]].concat(), &["--yes-destroy"]);
    ok(&[&write[..], &["--yes-destroy", &disk]].concat());
    let read = ["nvme", "raw", "read", "slba=0x3", "--on", &disk, "--output", &output];
    ok(&read);
    assert_eq!(std::fs::read(&output).unwrap(), vec![7; block as usize]);
    fails_saying(1, &read, &["--output", "exists"]);
    let past = path("past");
    fails_saying(
        1,
        &["nvme", "raw", "read", "slba=0xffffffff", "--on", &disk, "--output", &past],
        &["LBA Out of Range"],
    );
    assert!(!std::path::Path::new(&past).exists());
    // A command whose answer could not be kept is not sent.
    let cleared =
        ["nvme", "raw", "write-zeroes", "slba=3", "--on", &disk, "--yes-destroy", &disk, "--output", &output];
    fails_saying(1, &cleared, &["--output", "exists"]);
    ok(&["nvme", "raw", "read", "slba=3", "--on", &disk, "--output", &path("again")]);
    assert_eq!(std::fs::read(path("again")).unwrap(), vec![7; block as usize]);
    fails_saying(2, &[&read[..4], &["--on", &disk, "--input", &input]].concat(), &["Read takes no data"]);
    let compare = |slba: &'static str| {
        ["nvme", "raw", "compare", slba, "--on", &disk, "--input", &input].map(str::to_owned)
    };
    let args = |all: &[String]| all.iter().map(|word| word.as_str().to_owned()).collect::<Vec<_>>();
    let run = |all: Vec<String>| ok(&all.iter().map(String::as_str).collect::<Vec<_>>());
    run(args(&compare("slba=3")));
    let other = args(&compare("slba=4"));
    fails_saying(1, &other.iter().map(String::as_str).collect::<Vec<_>>(), &["Compare Failure (0x285)"]);
    let past = json_of_failure(&["nvme", "raw", "read", "slba=0xffffffff", "--on", &disk]);
    assert_eq!((&past["status"], &past["status_words"]), (&0x4080.into(), &"LBA Out of Range".into()));
    let feature = json(&["nvme", "raw", "get-features", "fid=7", "--on", &disk]);
    assert_eq!(feature["result"], 0x003f_003f);
}

#[test]
fn commands_and_fields_that_are_wrong_are_named() {
    let raw = |words: &[&'static str]| [&["nvme", "raw"], words, &["--on", "ram(1M)"]].concat();
    fails_saying(2, &raw(&["reed"]), &["expected admin:HH, io:HH or one of", "write-zeroes"]);
    fails_saying(2, &raw(&["io:xyz"]), &["an operation code is a hexadecimal number"]);
    fails_saying(2, &raw(&["read", "lba=3"]), &["lba=3: Read has the fields", "slba"]);
    fails_saying(2, &raw(&["read", "nlb=65536"]), &["nlb=65536: from 0 to 65535"]);
    fails_saying(2, &raw(&["read", "slba"]), &["slba: expected FIELD=VALUE"]);
    fails_saying(2, &raw(&["read", "slba=x"]), &["slba=x: expected a number"]);
    fails_saying(2, &raw(&["read", "opcode=1"]), &["opcode=1: Read has the fields"]);
    fails_saying(2, &raw(&["read", "slba=1", "slba=2"]), &["slba=2: slba is given twice"]);
    fails_saying(4, &raw(&["io:c1"]), &["Other I/O command may change ram(1M)"]);
    let all = [&raw(&["io:c1"])[..], &["--yes-destroy", "ram(1M)"]].concat();
    fails_saying(1, &all, &["Invalid Command Opcode (0x4001)"]);
}

#[test]
fn a_file_is_no_nvme_device_of_the_system() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    fails_saying(1, &["nvme", "id", path], &[path, "Identify", "Inappropriate ioctl"]);
    fails_saying(3, &["nvme", "id", "/nonexistent/nvme0"], &["/nonexistent/nvme0"]);
}

/// What a command that fails prints as JSON.
fn json_of_failure(args: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_platter")).args(args).arg("--json").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A controller of this machine says the same to nvme-cli, field by field.
#[test]
fn a_controller_of_the_system_agrees_with_nvme_cli() {
    if !Path::new("/dev/nvme0").exists() {
        eprintln!("skipped: no NVMe controller here (/dev/nvme0)");
        return;
    }
    let Ok(theirs) = Command::new("nvme").args(["id-ctrl", "/dev/nvme0", "-o", "json"]).output() else {
        eprintln!("skipped: nvme is not installed (package nvme-cli)");
        return;
    };
    if !theirs.status.success() {
        eprintln!("skipped: nvme id-ctrl /dev/nvme0: {}", String::from_utf8_lossy(&theirs.stderr).trim());
        return;
    }
    let theirs: Value = serde_json::from_slice(&theirs.stdout).unwrap();
    let ours = json(&["nvme", "id", "/dev/nvme0"]);
    for (name, value) in ours["fields"].as_object().unwrap() {
        let Some(their) = theirs.get(name) else { continue };
        let text = |value: &Value| {
            value.as_str().map_or_else(|| value.to_string(), |text| text.trim().replace('-', ""))
        };
        let text = |value: &Value| text(value).split(' ').collect::<String>();
        assert_eq!(text(value), text(their), "{name}");
    }
}

#[test]
fn the_commands_of_the_page_run() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/nvme.md")).unwrap();
    let lines: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("    platter ")).collect();
    assert!(lines.len() >= 6, "{lines:?}");
    let system = |line: &&&str| line.contains("/dev/");
    assert!(lines.iter().any(|line| system(&line)));
    for line in lines.iter().filter(|line| !system(line)) {
        let words = line.split(' ').map(|word| word.trim_matches('\'')).collect::<Vec<_>>();
        let printed = ok(&words);
        if words[1] == "decode" {
            assert!(page.contains(printed.lines().next().unwrap()), "{printed}");
        }
    }
}

#[test]
fn a_command_that_linux_would_refuse_names_the_rule() {
    let raw =
        |words: &[&'static str]| [&["nvme", "raw"], words, &["--on", "ram(1M)", "--unprivileged"]].concat();
    ok(&raw(&["read", "slba=0", "nlb=0"]));
    ok(&raw(&["identify", "cns=1"]));
    fails_saying(4, &raw(&["identify", "cns=2"]), &["Identify with cns 02h", "00h (namespace)"]);
    fails_saying(4, &raw(&["get-log-page", "lid=2", "numdl=127"]), &["may send Identify only"]);
    let destroy = |words: &[&'static str]| [&raw(words)[..], &["--yes-destroy", "ram(1M)"]].concat();
    ok(&destroy(&["write-zeroes", "slba=0", "nlb=0"]));
    fails_saying(4, &destroy(&["io:c1"]), &["operation code c1h belongs to vendors"]);
}
