//! Tests of [`super::OpenOptions`] on real files and devices.

use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::OFlags;

use super::testing::{LoopDevice, image, run, skip};
use super::{Direct, Kind, LockState, OpenOptions, Sharing, SignaturePolicy, SysError};

const MIB: u64 = 1 << 20;

fn refused(options: &OpenOptions, path: &Path) -> SysError {
    options.open(path).expect_err("must be refused")
}

fn is_direct(fd: impl AsFd) -> bool {
    rustix::fs::fcntl_getfl(fd).unwrap().contains(OFlags::DIRECT)
}

#[test]
fn a_file_opens_as_asked() {
    let dir = tempfile::tempdir().unwrap();
    let file = image(dir.path(), "disk", MIB);
    let link = dir.path().join("link");
    symlink(&file, &link).unwrap();
    let disk = OpenOptions::read_write().open(&link).unwrap();
    assert_eq!(
        (disk.probe.size_bytes, disk.lock.state().clone(), disk.overridden.len()),
        (MIB, LockState::Exclusive, 0)
    );
    assert_eq!((disk.direct, disk.buffered.is_none()), (is_direct(&disk), true));
    assert_eq!(disk.direct, disk.why_not_direct.is_none());
    drop(disk);
    let disk = OpenOptions { direct: Direct::Off, ..OpenOptions::read_only() }.open(&file).unwrap();
    assert_eq!(
        (disk.lock.state().clone(), disk.direct, disk.why_not_direct.clone()),
        (LockState::Shared, false, None)
    );
    assert!(rustix::io::pwrite(&disk, b"x", 0).is_err(), "read-only");
}

#[test]
fn writers_are_alone_and_readers_share() {
    let dir = tempfile::tempdir().unwrap();
    let file = image(dir.path(), "disk", MIB);
    let (reader, writer) = (OpenOptions::read_only(), OpenOptions::read_write());
    let shared = OpenOptions { sharing: Sharing::Shared, ..writer.clone() };
    let alone = OpenOptions { sharing: Sharing::Exclusive, ..reader.clone() };
    for (first, second, together) in [
        (&reader, &reader, true),
        (&reader, &writer, false),
        (&writer, &reader, false),
        (&writer, &writer, false),
        (&shared, &shared, true),
        (&shared, &reader, true),
        (&shared, &writer, false),
        (&alone, &reader, false),
    ] {
        let held = first.open(&file).unwrap();
        let result = second.open(&file);
        assert_eq!(result.is_ok(), together, "{first:?} then {second:?}: {result:?}");
        if let Err(e) = result {
            assert_eq!(e.errno, Some(libc::EWOULDBLOCK));
            assert!(e.message.contains("this process") || e.message.contains("another program"), "{e}");
            let forced = OpenOptions { allow_in_use: true, ..second.clone() }.open(&file).unwrap();
            assert!(
                matches!(forced.lock.state(), LockState::None { .. }) && forced.overridden.len() == 1,
                "{forced:?}"
            );
        }
        drop(held);
    }
    writer.open(&file).unwrap();
}

#[test]
fn a_missing_file_is_created_with_its_size_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new");
    assert_eq!(refused(&OpenOptions::read_write(), &path).errno, Some(libc::ENOENT));
    let create = OpenOptions { create: Some(3 * MIB), ..OpenOptions::read_write() };
    assert_eq!(create.open(&path).unwrap().probe.size_bytes, 3 * MIB);
    create.open(&path).unwrap();
    let e = refused(&OpenOptions { create: Some(MIB), ..create.clone() }, &path);
    assert!(e.message.contains("3145728") && e.message.contains("1048576"), "{e}");
    assert!(path.exists());

    let huge = dir.path().join("huge");
    let e = refused(&OpenOptions { create: Some(u64::MAX), ..create.clone() }, &huge);
    assert!(e.op == "create" && !huge.exists(), "{e}");
    let nowhere = refused(&create, &dir.path().join("no/such/dir"));
    assert_eq!((nowhere.op, nowhere.errno), ("create", Some(libc::ENOENT)));
    refused(&OpenOptions { write: false, ..create.clone() }, &huge);
    refused(&OpenOptions { create: Some(0), ..create.clone() }, &huge);
    assert!(!huge.exists());
    symlink("nothing", dir.path().join("link")).unwrap();
    assert!(refused(&create, &dir.path().join("link")).message.contains("symbolic link"));
}

#[test]
fn reserved_space_is_allocated_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new");
    let options = OpenOptions { create: Some(MIB), reserve: true, ..OpenOptions::read_write() };
    let disk = match options.open(&path) {
        Ok(disk) => disk,
        Err(e) if e.errno == Some(libc::EOPNOTSUPP) => return skip("reserved_space", "no fallocate here"),
        Err(e) => panic!("{e}"),
    };
    assert!(rustix::fs::fstat(&disk).unwrap().st_blocks as u64 * 512 >= MIB);
    let free = rustix::fs::statfs(dir.path()).unwrap();
    let too_much = (free.f_blocks as u64 + 1) * free.f_bsize as u64;
    let path = dir.path().join("too much");
    let e = refused(&OpenOptions { create: Some(too_much), ..options }, &path);
    assert!(matches!(e.errno, Some(libc::ENOSPC | libc::EFBIG)) && !path.exists(), "{e}");
}

#[test]
fn an_empty_file_is_no_disk_but_can_become_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = image(dir.path(), "empty", 0);
    let e = refused(&OpenOptions::read_only(), &file);
    assert!(e.message.contains("empty") && e.help.contains("truncate"), "{e}");
    let create = OpenOptions { create: Some(MIB), ..OpenOptions::read_write() };
    assert_eq!(create.open(&file).unwrap().probe.size_bytes, MIB);
}

#[test]
fn a_size_that_direct_io_cannot_reach_has_a_buffered_descriptor() {
    let dir = tempfile::tempdir().unwrap();
    let file = image(dir.path(), "disk", MIB + 100);
    let disk = OpenOptions::read_write().open(&file).unwrap();
    if !disk.direct {
        return skip("a_size_that_direct_io_cannot_reach", disk.why_not_direct.as_deref().unwrap());
    }
    let tail = std::fs::File::from(disk.buffered.expect("a tail of 100 bytes"));
    assert!(!is_direct(&tail));
    tail.write_all_at(&[7; 100], MIB).unwrap();
    let mut end = [0; 100];
    tail.read_exact_at(&mut end, MIB).unwrap();
    assert_eq!(end, [7; 100]);
}

#[test]
fn resizing_under_us_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let file = image(dir.path(), "disk", MIB);
    let disk = OpenOptions::read_only().open(&file).unwrap();
    disk.check_same_size().unwrap();
    for (size, verb) in [(MIB - 1, "shrank"), (MIB + 1, "grew")] {
        std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(size).unwrap();
        let e = disk.check_same_size().unwrap_err();
        assert!(e.message.contains(verb) && e.message.contains(&size.to_string()), "{e}");
    }
}

#[test]
fn memory_file_systems_are_buffered_and_say_why() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        return skip("memory_file_systems_are_buffered", "no /dev/shm");
    };
    let file = image(dir.path(), "disk", MIB);
    let disk = OpenOptions::read_write().open(&file).unwrap();
    assert!(!disk.direct && !is_direct(&disk));
    assert!(disk.why_not_direct.as_ref().unwrap().contains("tmpfs"), "{disk:?}");
    drop(disk);
    let e = refused(&OpenOptions { direct: Direct::Require, ..OpenOptions::read_write() }, &file);
    assert!(e.op == "open for direct I/O" && e.message.contains("tmpfs"), "{e}");
}

#[test]
fn what_cannot_be_opened_says_why() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(refused(&OpenOptions::read_write(), dir.path()).errno, Some(libc::EISDIR));
    let neither = OpenOptions { read: false, ..OpenOptions::read_only() };
    assert!(refused(&neither, dir.path()).message.contains("neither reading nor writing"));
    // The test's own program is running: no process may write to it, whatever its owner.
    let me = std::env::current_exe().unwrap();
    let errno = refused(&OpenOptions::read_write(), &me).errno;
    assert!(matches!(errno, Some(libc::ETXTBSY | libc::EACCES)), "{errno:?}");
}

#[test]
fn no_permission_names_mode_and_user() {
    let dir = tempfile::tempdir().unwrap();
    let file = image(dir.path(), "disk", MIB);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o400)).unwrap();
    match OpenOptions::read_write().open(&file) {
        Ok(_) => skip("no_permission_names_mode_and_user", "root may write to everything"),
        Err(e) => assert!(e.message.contains("0400") && e.errno == Some(libc::EACCES), "{e}"),
    }
}

#[test]
fn files_are_looked_at_only_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let path = image(dir.path(), "disk", MIB);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(b"XFSB", 0).unwrap();
    OpenOptions::read_write().open(&path).unwrap();
    let signatures = SignaturePolicy { files: true, ..SignaturePolicy::default() };
    let careful = OpenOptions { signatures, ..OpenOptions::read_write() };
    let e = refused(&careful, &path);
    assert!(e.message.contains("xfs at byte 0") && e.help.contains("--force"), "{e}");
    OpenOptions { write: false, ..careful.clone() }.open(&path).unwrap();
    let force = SignaturePolicy { force: true, ..signatures };
    OpenOptions { signatures: force, ..careful }.open(&path).unwrap();
}

/// The first bytes of XFS, and an md superblock of version 1.2.
#[test]
fn a_block_device_of_users_may_hold_all_but_a_part_of_an_array() {
    let dir = tempfile::tempdir().unwrap();
    let file = image(dir.path(), "disk", MIB);
    let test = "a_block_device_of_users_may_hold_all_but_a_part_of_an_array";
    let Some(device) = LoopDevice::over(test, &file, &[]) else { return };
    let put = |bytes: &[u8], at: u64| {
        let disk = std::fs::OpenOptions::new().write(true).open(&device.path).unwrap();
        disk.write_all_at(bytes, at).unwrap();
        disk.sync_all().unwrap();
    };
    put(b"XFSB", 0);
    let users = SignaturePolicy { of_users: true, ..SignaturePolicy::default() };
    let server = OpenOptions { signatures: users, ..OpenOptions::read_write() };
    assert!(refused(&OpenOptions::read_write(), &device.path).message.contains("xfs at byte 0"));
    drop(server.open(&device.path).unwrap());
    put(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0], 4096);
    let e = refused(&server, &device.path);
    assert!(e.message.contains("md array member") && !e.message.contains("xfs"), "{e}");
}

#[test]
fn block_devices_are_claimed() {
    let dir = tempfile::tempdir().unwrap();
    let file = image(dir.path(), "disk", MIB);
    let Some(device) = LoopDevice::over("block_devices_are_claimed", &file, &[]) else { return };
    let writer = OpenOptions::read_write();
    let disk = writer.open(&device.path).unwrap();
    assert_eq!(
        (disk.probe.kind, disk.lock.state().clone(), disk.direct),
        (Kind::Block, LockState::Exclusive, true)
    );
    assert!(refused(&writer, &device.path).message.contains("open"));
    refused(&OpenOptions::read_only(), &device.path);
    let forced = OpenOptions { allow_in_use: true, ..writer.clone() }.open(&device.path).unwrap();
    assert_eq!(forced.overridden.len(), 1);
    drop((disk, forced));
    writer.open(&device.path).unwrap();
}

#[test]
fn the_file_behind_a_loop_device_is_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let file = image(dir.path(), "disk", MIB);
    let Some(device) = LoopDevice::over("the_file_behind_a_loop_device", &file, &[]) else { return };
    let name = device.path.file_name().unwrap().to_str().unwrap();
    let e = refused(&OpenOptions::read_write(), &file);
    assert!(e.message.contains(&format!("backing file of {name}")), "{e}");
    OpenOptions::read_only().open(&file).unwrap();
}

#[test]
fn a_read_only_device_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let file = image(dir.path(), "disk", MIB);
    let Some(device) = LoopDevice::over("a_read_only_device_says_so", &file, &["--read-only"]) else {
        return;
    };
    let e = refused(&OpenOptions::read_write(), &device.path);
    assert!(e.to_string().contains("read-only"), "{e}");
    OpenOptions::read_only().open(&device.path).unwrap();
}

/// A mounted file system, unmounted when dropped.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        run("umount", &[self.0.to_str().unwrap()]);
    }
}

#[test]
fn mounted_and_used_devices_are_refused() {
    const TEST: &str = "mounted_and_used_devices_are_refused";
    let dir = tempfile::tempdir().unwrap();
    let file = image(dir.path(), "disk", 8 * MIB);
    if run("mkfs.ext4", &["-q", "-F", file.to_str().unwrap()]).is_none() {
        return skip(TEST, "no mkfs.ext4");
    }
    let Some(device) = LoopDevice::over(TEST, &file, &[]) else { return };
    let writer = OpenOptions::read_write();
    let e = refused(&writer, &device.path);
    assert!(e.message.contains("ext4 at byte 1080") && e.help.contains("--force"), "{e}");

    let mount_point = dir.path().join("mount point");
    std::fs::create_dir(&mount_point).unwrap();
    let args = [device.path.to_str().unwrap(), mount_point.to_str().unwrap()];
    if run("mount", &args).is_none() {
        return skip(TEST, "not allowed to mount");
    }
    let mounted = Mounted(&mount_point);
    let force = OpenOptions { signatures: SignaturePolicy { force: true, ..Default::default() }, ..writer };
    let shared = OpenOptions { sharing: Sharing::Shared, ..force.clone() };
    for options in [&force, &shared] {
        let e = refused(options, &device.path);
        assert!(e.message.contains(mount_point.to_str().unwrap()), "{e}");
        assert_eq!(e.errno, Some(libc::EBUSY));
    }
    OpenOptions::read_only().open(&device.path).unwrap();
    match (OpenOptions { allow_in_use: true, ..force.clone() }).open(&device.path) {
        Ok(disk) => assert!(disk.overridden[0].contains("is mounted on"), "{disk:?}"),
        Err(e) => assert!(e.message.contains("CONFIG_BLK_DEV_WRITE_MOUNTED"), "{e}"),
    }
    drop(mounted);
    force.open(&device.path).unwrap();
}
