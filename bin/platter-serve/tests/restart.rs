//! A server that follows a killed one says so to clients that flush.

use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_remote::nbd::client::{NbdDisk, NbdOptions};
use platter_remote::nbd::uri::Uri;
use platter_serve::config::{Config, DeviceConfig, ExportConfig};
use platter_serve::daemon::{Daemon, DaemonError};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(30);

/// Starts a server once the device has been closed: a server that could not start flushes it in a thread of its own.
fn start(folder: &Path, spec: &str) -> Result<Arc<Daemon>, DaemonError> {
    loop {
        match try_start(folder, spec) {
            Err(error) if error.to_string().contains("it is open already") => std::thread::yield_now(),
            result => return result,
        }
    }
}

fn try_start(folder: &Path, spec: &str) -> Result<Arc<Daemon>, DaemonError> {
    let mut config = Config::default();
    config.server.state = Some(folder.join("state"));
    let spec = spec.replace("FILE", folder.join("disk").to_str().unwrap());
    config.devices.push(DeviceConfig::new("disk", &spec));
    let socket = format!("unix:{}", folder.join("s").display());
    config.exports.push(ExportConfig::new("nbd1", "nbd", &socket));
    Daemon::start(config, None, |_| {})
}

fn connect(folder: &Path, options: NbdOptions) -> Device {
    let disk = NbdDisk::open(Uri::unix(folder.join("s"), "disk"), options.with_write(true)).unwrap();
    let elevator = platter_elevators::by_name("noop").map(|row| (row.make)());
    Device::new(Arc::new(DiskBackend::over(Arc::new(disk), DiskSettings::default(), elevator).unwrap()))
}

fn folder() -> TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::File::create(folder.path().join("disk")).unwrap().set_len(1 << 20).unwrap();
    folder
}

/// Serves, and leaves behind the state file of a server that was killed then.
fn serve_and_be_killed(folder: &Path, spec: &str) {
    let daemon = start(folder, spec).unwrap();
    connect(folder, NbdOptions::default()).write_at(&[1; 512], 0).unwrap();
    let state = std::fs::read(folder.join("state")).unwrap();
    stop(daemon);
    std::fs::write(folder.join("state"), state).unwrap();
}

/// A clean end. The device is closed with the last owner of the daemon.
fn stop(daemon: Arc<Daemon>) {
    daemon.stop(LIMIT).unwrap();
    drop(daemon);
}

/// Whether each of three flushes of a new client fails.
fn failures(folder: &Path) -> [bool; 3] {
    let device = connect(folder, NbdOptions::default());
    [(); 3].map(|()| {
        let failed = device.flush().is_err();
        device.acknowledge_flush_failure();
        failed
    })
}

/// As [`failures`], with a server that is started and stopped for it.
fn failures_after(folder: &Path, spec: &str) -> [bool; 3] {
    let daemon = start(folder, spec).unwrap();
    let found = failures(folder);
    stop(daemon);
    found
}

const BACK: &str = "cache(size=1M, FILE)";
const THROUGH: &str = "cache(size=1M, write=through, FILE)";
const ONCE: [bool; 3] = [true, false, false];
const NEVER: [bool; 3] = [false; 3];

#[test]
fn the_first_flush_of_each_client_fails_after_a_server_was_killed() {
    let folder = folder();
    let path = folder.path();
    // What holds nothing back loses nothing.
    for spec in ["FILE", THROUGH] {
        serve_and_be_killed(path, spec);
        assert_eq!(failures_after(path, spec), NEVER, "{spec}");
    }
    // Each client that comes pays, until a server ends cleanly.
    serve_and_be_killed(path, BACK);
    let daemon = start(path, BACK).unwrap();
    assert_eq!([failures(path), failures(path)], [ONCE; 2]);
    stop(daemon);
    assert_eq!(failures_after(path, BACK), NEVER);
    // The debt outlives a server that does not come to serve, one that is killed, and another spec.
    serve_and_be_killed(path, BACK);
    std::fs::create_dir(path.join("s")).unwrap();
    assert!(start(path, BACK).is_err(), "its address is a folder");
    std::fs::remove_dir(path.join("s")).unwrap();
    serve_and_be_killed(path, THROUGH);
    assert_eq!(failures_after(path, THROUGH), ONCE);
}
