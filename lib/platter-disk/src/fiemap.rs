//! Where the contents of a file are on the device under its file system (`FIEMAP`).

#![allow(unsafe_code)]

use crate::sys::SysError;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A part of a file that is contiguous on the device. In bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileExtent {
    /// First byte in the file.
    pub logical: u64,
    /// First byte on the device.
    pub physical: u64,
    /// Length.
    pub len: u64,
}

/// The extents of a file as of one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileMap {
    /// The extents in order; holes of the file have none.
    pub extents: Vec<FileExtent>,
    /// Bytes of the file.
    pub size: u64,
    /// Device number of its file system.
    pub device: u64,
    /// When its contents or its extents changed last: seconds and nanoseconds.
    pub changed: [(i64, i64); 2],
}

/// Extents asked for in one call.
const BATCH: usize = 256;

/// `FS_IOC_FIEMAP` of linux/fs.h.
const FS_IOC_FIEMAP: libc::c_ulong = 0xc020_660b;

/// Write the file's pages back first.
const FLAG_SYNC: u32 = 1;

/// The last extent of the file.
const LAST: u32 = 1;

/// Flags of linux/fiemap.h of extents that cannot be read from the device as they are.
const REFUSED: [(u32, &str); 7] = [
    (0x2, "has no known place"),
    (0x4, "is not allocated yet (delayed allocation)"),
    (0x8 | 0x80, "is encoded: compressed or encrypted"),
    (0x100, "is not aligned to blocks"),
    (0x200 | 0x400, "is inline: among the metadata, or in a block with other data"),
    (0x800, "is unwritten: it was allocated and holds no data"),
    (0x2000, "is shared with another file or a snapshot"),
];

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    len: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_too: [u32; 3],
}

#[repr(C)]
struct Map {
    start: u64,
    len: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Extent; BATCH],
}

/// The extents of a file.
///
/// # Errors
/// The file cannot be opened; its file system does not report extents; an extent that cannot be read from the device, by
/// its kind; a file that changes meanwhile.
pub fn map_file(path: &Path) -> Result<FileMap, SysError> {
    let fail = |error: &std::io::Error| SysError::from_io("map the extents of", path, error);
    let file = File::open(path).map_err(|error| fail(&error))?;
    let metadata = file.metadata().map_err(|error| fail(&error))?;
    if !metadata.is_file() {
        let help = "name a file, and give the device under its file system as the device";
        return Err(SysError::new("map the extents of", path, "it is no regular file", help));
    }
    let extents = query(&file, path)?;
    let after = file.metadata().map_err(|error| fail(&error))?;
    let changed =
        |data: &std::fs::Metadata| [(data.mtime(), data.mtime_nsec()), (data.ctime(), data.ctime_nsec())];
    if (metadata.size(), changed(&metadata)) != (after.size(), changed(&after)) {
        let help = "its extents are only known while nothing writes to it; stop what does";
        return Err(SysError::new("map the extents of", path, "the file changes", help));
    }
    Ok(FileMap { extents, size: after.size(), device: after.dev(), changed: changed(&after) })
}

fn query(file: &File, path: &Path) -> Result<Vec<FileExtent>, SysError> {
    let mut found = Vec::new();
    let mut start = 0;
    loop {
        let extents = [Extent::default(); BATCH];
        let (len, count) = (u64::MAX - start, BATCH as u32);
        let mut map = Map { start, len, flags: FLAG_SYNC, mapped: 0, count, reserved: 0, extents };
        // SAFETY: the kernel writes at most `count` extents after the header, which is how many the array has; the
        // structures are those of linux/fiemap.h.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut map) };
        if result < 0 {
            return Err(SysError::from_io("map the extents of", path, &std::io::Error::last_os_error()));
        }
        for extent in map.extents.iter().take(map.mapped as usize) {
            check(extent).map_err(|what| {
                let Extent { logical, len, .. } = extent;
                let message = format!("its extent at {logical}, of {len} bytes, {what}");
                let help = "copy the file, without holes, to a file system that stores it as it is";
                SysError::new("map the extents of", path, message, help)
            })?;
            found.push(FileExtent { logical: extent.logical, physical: extent.physical, len: extent.len });
            start = extent.logical.saturating_add(extent.len);
        }
        let last = map.extents.iter().take(map.mapped as usize).next_back();
        if last.is_none_or(|extent| extent.flags & LAST != 0) {
            return Ok(found);
        }
    }
}

fn check(extent: &Extent) -> Result<(), &'static str> {
    let wrong = REFUSED.iter().find(|(flags, _)| extent.flags & flags != 0);
    wrong.map_or(Ok(()), |(_, what)| Err(what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn extents_that_cannot_be_read_are_refused_by_kind() {
        let told = |flags| check(&Extent { flags, ..Extent::default() });
        assert_eq!(told(0x1 | 0x1000), Ok(()), "the last one, and merged");
        for (flag, word) in [
            (0x2, "no known place"),
            (0x4, "delayed"),
            (0x8, "encoded"),
            (0x80, "encrypted"),
            (0x100, "not aligned"),
            (0x200, "inline"),
            (0x400, "inline"),
            (0x800, "unwritten"),
            (0x2000, "shared"),
        ] {
            assert!(told(flag | 0x1).unwrap_err().contains(word), "{flag:x}");
        }
    }

    #[test]
    fn the_extents_of_a_file_cover_it() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![7; 300_000]).unwrap();
        let map = match map_file(file.path()) {
            Ok(map) => map,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        assert_eq!(map.size, 300_000);
        let mut end = 0;
        for extent in &map.extents {
            assert_eq!(extent.logical, end, "no hole");
            end += extent.len;
        }
        assert!(end >= 300_000);
    }
}
