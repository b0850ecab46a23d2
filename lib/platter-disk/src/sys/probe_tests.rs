//! Tests of [`super::Probe`] on real files and devices.

use std::io::Write;
use std::path::Path;

use super::testing::{LoopDevice, image};
use super::{AlignSource, Kind, Probe};

#[test]
fn a_regular_file_has_size_alignments_and_a_file_system() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&[7; 5000]).unwrap();
    let p = Probe::of(&file, file.path()).unwrap();
    assert_eq!((p.kind, p.size_bytes), (Kind::Regular, 5000));
    for align in [p.dio_mem_align, p.dio_offset_align, p.dio_read_offset_align, p.logical_block] {
        assert!(align.is_power_of_two(), "{p:?}");
    }
    assert!(p.physical_block >= p.logical_block && p.dio_read_offset_align <= p.dio_offset_align, "{p:?}");
    let fs = p.filesystem.as_ref().unwrap();
    if let Some(out) = super::testing::run("stat", &["-f", "-c", "%t", file.path().to_str().unwrap()]) {
        assert_eq!(format!("{:x}", fs.magic), out);
    }
    assert_eq!(p, Probe::of_path(file.path()).unwrap());
}

#[test]
fn two_paths_of_one_file_have_the_same_inode() {
    let dir = tempfile::tempdir().unwrap();
    let a = image(dir.path(), "a", 4096);
    let link = dir.path().join("b");
    std::fs::hard_link(&a, &link).unwrap();
    let c = image(dir.path(), "c", 4096);
    let inode = |path: &Path| Probe::of_path(path).unwrap().inode;
    assert_eq!(inode(&a), inode(&link));
    assert_ne!(inode(&a), inode(&c));
}

#[test]
fn a_file_on_a_disk_has_the_disks_queue() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let p = Probe::of_path(file.path()).unwrap();
    let Some(device) = p.device.filter(|d| d.major != 0) else {
        return super::testing::skip("a_file_on_a_disk_has_the_disks_queue", "no block device under it");
    };
    let has_sysfs = Path::new(&format!("/sys/dev/block/{device}/queue")).exists();
    if !has_sysfs {
        return super::testing::skip("a_file_on_a_disk_has_the_disks_queue", "the device is not in sysfs");
    }
    let kernel = p.kernel.unwrap();
    assert!(kernel.nr_requests.is_some_and(|n| n > 0), "{kernel:?}");
    assert!(kernel.disk.is_some() && p.limits.max_io.is_some_and(|n| n >= 4096), "{kernel:?}");
}

#[test]
fn tmpfs_is_a_memory_file_system() {
    let Ok(file) = tempfile::NamedTempFile::new_in("/dev/shm") else {
        return super::testing::skip("tmpfs_is_a_memory_file_system", "no /dev/shm");
    };
    let fs = Probe::of_path(file.path()).unwrap().filesystem.unwrap();
    assert!(fs.is_memory(), "{fs:?}");
    assert_eq!(fs.name, "tmpfs");
}

#[test]
fn errors_name_the_path_and_the_number() {
    let e = Probe::of_path("/nonexistent/disk").unwrap_err();
    assert_eq!(e.errno, Some(libc::ENOENT));
    assert!(e.to_string().contains("cannot probe /nonexistent/disk"), "{e}");
    let (reader, _writer) = std::io::pipe().unwrap();
    assert!(Probe::of(&reader, "pipe").unwrap_err().message.contains("FIFO"));
}

#[test]
fn a_block_device_reports_its_own_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let file = image(dir.path(), "disk", 4 << 20);
    let options = ["--sector-size", "4096"];
    let Some(device) = LoopDevice::over("a_block_device_reports_its_own_sizes", &file, &options) else {
        return;
    };
    let p = Probe::of_path(&device.path).unwrap();
    assert_eq!((p.kind, p.size_bytes, p.logical_block), (Kind::Block, 4 << 20, 4096));
    assert!(matches!(p.align_source, AlignSource::Statx | AlignSource::BlockSize), "{p:?}");
    assert_eq!((p.dio_offset_align, p.physical_block), (4096, 4096));
    assert_eq!((p.filesystem, p.device.map(|d| d.major)), (None, Some(7)));
    let name = device.path.file_name().unwrap().to_str().map(str::to_owned);
    assert_eq!(p.kernel.unwrap().disk, name);
}
