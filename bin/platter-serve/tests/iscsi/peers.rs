//! Programs of others as initiators. A test is skipped where its program is not installed.

use crate::initiator::TARGET;
use crate::serve;
use platter::registry::{self, Access};
use platter_serve::export::Options;
use std::process::{Command, Output};

/// Runs a program; `None` if it is not installed.
fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: {program} is not installed");
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

fn succeeds(program: &str, arguments: &[&str]) -> Option<String> {
    let output = run(program, arguments)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {text}{errors}");
    Some(text)
}

#[test]
fn libiscsi_finds_and_asks_the_target() {
    let fixture = serve(registry::open("ram(256M)", Access::read_write()).unwrap());
    let portal = format!("iscsi://{}", fixture.address);
    let Some(list) = succeeds("iscsi-ls", &["-s", &portal]) else { return };
    assert!(list.contains(&format!("Target:{TARGET} Portal:{},1", fixture.address)), "{list}");
    assert!(list.contains("Lun:0    Type:DIRECT_ACCESS"), "{list}");
    let inquiry = succeeds("iscsi-inq", &[&format!("{portal}/{TARGET}/0")]).unwrap();
    for part in ["Vendor:PLATTER", "Product:BLOCK DEVICE", "CmdQue:1"] {
        assert!(inquiry.contains(part), "{part}: {inquiry}");
    }
}

/// Every test that libiscsi has for a disk, those of multipath over two portals; those of commands that a target need not
/// have are skipped by it. `scripts/check-iscsi-target` runs them on other devices too, and lists what is skipped.
#[test]
fn libiscsi_finds_no_fault_with_the_target() {
    let mut fixture = serve(registry::open("ram(256M)", Access::read_write()).unwrap());
    let server = fixture.server.as_mut().unwrap();
    let other = server.start("iscsi", "127.0.0.1:0", &Options::default()).unwrap();
    let [url, second] = [&fixture.address, &other].map(|address| format!("iscsi://{address}/{TARGET}/0"));
    let Some(output) = run("iscsi-test-cu", &["-d", "-t", "ALL", &url, &second]) else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let line = text.lines().find(|line| line.trim_start().starts_with("tests ")).unwrap_or_default();
    let counts: Vec<u32> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // Total, ran, passed, failed.
    assert!(counts.len() >= 4 && counts[2] > 150 && counts[3] == 0, "{line}\n{text}");
}

#[test]
fn qemu_reads_what_it_has_written() {
    let fixture = serve(registry::open("ram(64M)", Access::read_write()).unwrap());
    let url = format!("iscsi://{}/{TARGET}/0", fixture.address);
    let io = ["-f", "raw", "-c", "write -P 7 1M 3M", "-c", "flush", "-c", "read -P 7 2M 1M"];
    let more = ["-c", "write -z 1M 1M", "-c", "read -P 0 1M 1M", "-c", "discard 2M 1M", &url];
    let all = [&io[..], &more].concat();
    let Some(text) = succeeds("qemu-io", &all) else { return };
    assert!(!text.contains("failed"), "{text}");
}
