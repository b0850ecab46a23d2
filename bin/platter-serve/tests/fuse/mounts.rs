//! Mounting and unmounting.

use crate::rig::{Mounted, PATIENCE, SIZE, errno};
use platter_disk::device::Device;
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_serve::server::Server;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CString;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

#[test]
fn users_of_open_files_are_named_and_lose_them_when_the_server_cannot_wait() {
    let Some(mut mounted) = Mounted::of(Device::ram(SIZE).unwrap()) else { return };
    let file = mounted.open();
    file.write_all_at(&[1; 512], 0).unwrap();
    let problems = mounted.stop(Duration::ZERO).unwrap_err();
    assert!(problems.iter().any(|text| text.contains(&format!("({})", std::process::id()))), "{problems:?}");
    assert!(file.read_at(&mut [0; 512], 0).is_err());
    drop(file);
    assert_eq!(fs::read_dir(mounted.directory.path()).unwrap().count(), 0, "it is not mounted any more");
}

#[test]
fn the_mount_of_a_dead_server_is_replaced() {
    let Some(mut mounted) = Mounted::of(Device::ram(SIZE).unwrap()) else { return };
    mounted.stop(PATIENCE).unwrap();
    let path = mounted.directory.path();
    let fuse = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", fuse.as_raw_fd());
    let (options, flags) = (CString::new(options).unwrap(), rustix::mount::MountFlags::empty());
    if let Err(error) = rustix::mount::mount("dead", path, "fuse", flags, Some(&*options)) {
        eprintln!("skipped: mount: {error}");
        return;
    }
    drop(fuse);
    assert_eq!(errno(fs::metadata(path)), Errno::NOTCONN);
    let mut server = Server::default();
    server.devices().add(Served::new("disk", Device::ram(SIZE).unwrap()).unwrap()).unwrap();
    server.start("fuse", path.to_str().unwrap(), &Options::default()).unwrap();
    assert!(mounted.path().exists());
    server.stop(PATIENCE).unwrap();
}

#[test]
fn what_cannot_be_a_mount_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::default();
    server.devices().add(Served::new("disk", Device::ram(SIZE).unwrap()).unwrap()).unwrap();
    let mut refused = |path: &Path, word: &str| {
        let error = server.start("fuse", path.to_str().unwrap(), &Options::default());
        let error = error.unwrap_err().to_string();
        assert!(error.contains(word) && error.contains(path.to_str().unwrap()), "{error}");
    };
    refused(&directory.path().join("missing"), "create it first");
    fs::write(directory.path().join("file"), "").unwrap();
    refused(directory.path(), "not empty");
    server.devices().add(Served::new("a/b", Device::ram(SIZE).unwrap()).unwrap()).unwrap();
    let error = server.start("fuse", "/nowhere", &Options::default()).unwrap_err();
    assert!(error.is_usage() && error.to_string().contains("a/b"), "{error}");
}
