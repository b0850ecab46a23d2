//! `platter iscsi`, and disks at iSCSI targets. libiscsi speaks the protocol; without it the tests are skipped.

use crate::docs::documented;
use crate::run::{fails_saying, json, platter, run, stderr};
use crate::running::Running;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// A server of two disks as iSCSI targets, at a port that the system has chosen.
struct Serving {
    _server: Running,
    address: String,
}

impl Serving {
    fn start() -> Serving {
        let devices = ["serve", "ram(1M)", "ram(2M)", "--name", "one", "--name", "two"];
        let mut command = platter();
        command.args(devices).args(["--iscsi", "127.0.0.1:0"]).stdout(Stdio::piped());
        let mut child = Running::start(&mut command);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let address =
            lines.find_map(|line| line.split_once(" at iscsi ").map(|(_, address)| address.to_owned()));
        Serving { _server: child, address: address.unwrap() }
    }
}

#[test]
fn targets_and_their_disks_are_listed_and_used() {
    let serving = Serving::start();
    let address = serving.address.clone();
    let shown = run(&["iscsi", "discover", &address, "--json"]);
    if stderr(&shown).contains("libiscsi is not installed") {
        println!("skipped: libiscsi is not installed");
        return;
    }
    let found = json(&["iscsi", "discover", &address]);
    documented("iscsi discover", std::slice::from_ref(&found));
    let targets = found["targets"].as_array().unwrap();
    assert_eq!(targets.len(), 2, "{found}");
    let two = targets.iter().find(|target| target["name"].as_str().unwrap().ends_with(":two")).unwrap();
    let unit = &two["units"][0];
    assert_eq!(
        (&unit["lun"], &unit["size"], &unit["vendor"]),
        (&0.into(), &(2 << 20).into(), &"PLATTER".into())
    );
    let url = unit["url"].as_str().unwrap();
    let info = json(&["info", url]);
    assert_eq!((&info[0]["facts"]["driver"], &info[0]["facts"]["target"]), (&"iscsi".into(), &two["name"]));
    // Commands go to the target: the page of the served disk has its serial number.
    let page = json(&["scsi", "vpd", "80", "--on", url]);
    assert_eq!(page["fields"]["product_serial_number"], unit["serial"], "{page}");
    let read = "scsi raw 28 00 00 00 00 00 00 00 01 00 --on".split(' ').chain([url]);
    let read = json(&read.collect::<Vec<_>>());
    assert_eq!((&read["status"], &read["data_in_bytes"]), (&"GOOD".into(), &512.into()));
    let capacity = json(&["scsi", "readcap", "--short", "--on", url]);
    assert_eq!(capacity["fields"]["returned_logical_block_address"], 4095);
    fails_saying(1, &["scsi", "vpd", "42", "--on", url], &["CHECK CONDITION", "INVALID FIELD IN CDB"]);
    let missing = url.replace("/0", "/5");
    fails_saying(3, &["info", &missing], &["no such logical unit", "platter iscsi discover", &missing]);
    let other = url.replace(two["name"].as_str().unwrap(), "iqn.2026-11.localhost.platter:other");
    fails_saying(3, &["info", &other], &["refuses the login", "Target not found"]);
    drop(serving);
    fails_saying(3, &["info", url], &["no connection to the target"]);
    fails_saying(1, &["iscsi", "discover", &address], &["no connection to the target", &address]);
}

#[test]
fn what_is_no_url_is_refused() {
    fails_saying(2, &["info", "iscsi://host/target"], &["exactly a host, a target and a logical unit"]);
    let empty = tempfile::NamedTempFile::new().unwrap();
    let spec = format!("iscsi(iscsi://ann@host/t/0, secret={})", empty.path().display());
    fails_saying(3, &["info", &spec], &["has 1 to 255 bytes, not 0"]);
    std::fs::write(&empty, "secret\n").unwrap();
    fails_saying(2, &["info", &spec.replace("ann@", "")], &["a secret without a user"]);
    fails_saying(2, &["iscsi", "discover", "host:70000"], &["a port is a number from 1 to 65535"]);
}
