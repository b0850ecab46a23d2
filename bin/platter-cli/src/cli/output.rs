//! Files that a verb writes besides its result on stdout: reports, traces, the data that a command returns.

use super::CliError;
use platter::registry;
use std::fs::{self, File, Metadata};
use std::io::{self, Write};
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

/// The file of `--output`, made before a command is sent, so that what the command returns is not lost because the
/// file exists already. Dropped before anything was written, it is removed.
pub(crate) struct NewFile {
    path: PathBuf,
    file: File,
    kept: bool,
}

impl NewFile {
    /// # Errors
    /// It exists; it cannot be made.
    pub(crate) fn create(path: &Path) -> Result<NewFile, CliError> {
        let file = File::create_new(path).map_err(|error| cannot_write(path, &error))?;
        Ok(NewFile { path: path.to_owned(), file, kept: false })
    }

    /// Writes the file, and leaves it.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn keep(mut self, data: &[u8]) -> Result<(), CliError> {
        self.file.write_all(data).map_err(|error| cannot_write(&self.path, &error))?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.kept {
            // That it was not needed is no reason to fail.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> CliError {
    CliError::failed(format!("--output {}: {error}", path.display()))
}

/// Whether both are the same file.
pub(crate) fn same(a: &Metadata, b: &Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}
