//! Files that a verb writes besides its result on stdout: reports, traces.

use super::CliError;
use platter::registry;
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Refuses to write over a device: one of those in `specs`, or any block device.
///
/// # Errors
/// The file is one.
pub(crate) fn refuse_device<'s>(
    path: &Path,
    specs: impl IntoIterator<Item = &'s String>,
) -> Result<(), CliError> {
    // A file that does not exist yet is no device; what else is wrong with it shows when it is opened.
    let Ok(found) = fs::metadata(path) else { return Ok(()) };
    let shown = path.display();
    if found.file_type().is_block_device() {
        return Err(CliError::refused(format!("{shown} is a block device; give the path of a file")));
    }
    // A spec that is wrong is reported when it is opened.
    let used = specs.into_iter().filter_map(|spec| registry::paths(&registry::parse(spec).ok()?).ok());
    let is_used = |device: &PathBuf| fs::metadata(device).is_ok_and(|device| same(&device, &found));
    match used.flatten().any(|device| is_used(&device)) {
        true => Err(CliError::refused(format!("{shown} is one of the devices; give another path"))),
        false => Ok(()),
    }
}

/// Whether both are the same file.
pub(crate) fn same(a: &Metadata, b: &Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}
