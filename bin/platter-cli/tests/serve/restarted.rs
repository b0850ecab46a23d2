//! A server that is killed between a write and its flush, and its successor.

use crate::running::Running;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_remote::nbd::client::{NbdDisk, NbdOptions};
use platter_remote::nbd::uri::Uri;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

fn start(folder: &Path, spec: &str) -> Running {
    let spec = spec.replace("FILE", folder.join("disk").to_str().unwrap());
    let state = folder.join("state");
    let mut command = Command::new(env!("CARGO_BIN_EXE_platter"));
    command
        .args([
            "serve",
            "--quiet",
            &spec,
            "--nbd",
            &format!("unix:{}", folder.join("s").display()),
            "--state",
        ])
        .arg(state)
        .stdout(Stdio::piped());
    let mut server = Running::start(&mut command);
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("unix:"), "{line}");
    server
}

fn connect(folder: &Path, options: NbdOptions) -> Device {
    let disk = NbdDisk::open(Uri::unix(folder.join("s"), ""), options.with_write(true)).unwrap();
    let elevator = platter_elevators::by_name("noop").map(|row| (row.make)());
    Device::new(Arc::new(DiskBackend::over(Arc::new(disk), DiskSettings::default(), elevator).unwrap()))
}

/// Writes through a server that is killed before the flush, and flushes at the next one: how many flushes fail before one
/// succeeds, and what is in the file then.
fn killed_before_the_flush(spec: &str, options: NbdOptions, reconnects: bool) -> (usize, u8) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    File::create(folder.path().join("disk")).unwrap().set_len(1 << 20).unwrap();
    let server = start(folder.path(), spec);
    let before = connect(folder.path(), options);
    before.write_at(&[7; 512], 4096).unwrap();
    drop(server);
    let server = start(folder.path(), spec);
    // A client that the server cannot tell from the one before, as after a reconnection of another program.
    let device = if reconnects { before } else { connect(folder.path(), options) };
    let failed = (0..5).take_while(|_| {
        let failed = device.flush().is_err();
        device.acknowledge_flush_failure();
        failed
    });
    let failed = failed.count();
    drop(device);
    drop(server);
    let mut byte = [0];
    File::open(folder.path().join("disk")).unwrap().read_exact_at(&mut byte, 4096).unwrap();
    (failed, byte[0])
}

#[test]
fn a_flush_fails_once_if_writes_were_lost_with_the_server() {
    let plain = NbdOptions::default();
    assert_eq!(killed_before_the_flush("cache(size=1M, FILE)", plain, false), (1, 0));
    // The server fails one, and the client another, because it has lost its connection.
    assert_eq!(killed_before_the_flush("cache(size=1M, FILE)", plain, true), (2, 0));
    for spec in ["cache(size=1M, write=through, FILE)", "FILE"] {
        assert_eq!(killed_before_the_flush(spec, plain, false), (0, 7), "{spec}");
    }
}

/// The image of a guest's disk: a file system that a client made is no reason to refuse the same command after a crash.
#[test]
fn a_server_that_was_killed_is_started_again_over_what_its_clients_made() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    File::create(folder.path().join("disk")).unwrap().set_len(1 << 20).unwrap();
    let server = start(folder.path(), "FILE");
    let client = connect(folder.path(), NbdOptions::default());
    let mut sector = [0; 512];
    sector[..4].copy_from_slice(b"XFSB");
    client.write_at(&sector, 0).unwrap();
    client.flush().unwrap();
    drop(server);
    // Panics if it does not serve.
    let server = start(folder.path(), "FILE");
    sector.fill(0);
    connect(folder.path(), NbdOptions::default()).read_at(&mut sector, 0).unwrap();
    assert_eq!(&sector[..4], b"XFSB");
    drop(server);
}

#[test]
fn a_client_that_repeats_its_writes_loses_nothing_and_hears_of_nothing() {
    let replay = NbdOptions::default().with_replay(1 << 20);
    assert_eq!(killed_before_the_flush("cache(size=1M, FILE)", replay, true), (0, 7));
}
