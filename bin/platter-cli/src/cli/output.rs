//! Files that a verb writes besides its result on stdout: reports, traces, the data that a command returns.

use super::CliError;
use platter::registry;
use std::fs::{self, File, Metadata, OpenOptions};
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

/// The page or the plan that a verb writes at its end, in a file that is named before.
pub(crate) struct Page<'p> {
    path: Option<&'p Path>,
}

impl<'p> Page<'p> {
    /// Opens the file before the run, so that a path that cannot be written ends the verb now rather than after it. What an
    /// earlier run has left in it stays until [`Page::write`]. `specs` are the devices of the run.
    ///
    /// # Errors
    /// The file is a device, or it cannot be written.
    pub(crate) fn open<'s>(
        path: Option<&'p Path>,
        specs: impl IntoIterator<Item = &'s String>,
    ) -> Result<Page<'p>, CliError> {
        if let Some(path) = path {
            refuse_device(path, specs)?;
            let open = OpenOptions::new().append(true).create(true).open(path);
            open.map_err(|error| cannot_write(path, &error))?;
        }
        Ok(Page { path })
    }

    /// Whether its file is this one, which another option names.
    pub(crate) fn is(&self, other: Option<&Path>) -> bool {
        let found = |path: Option<&Path>| path.and_then(|path| fs::metadata(path).ok());
        match (found(self.path), found(other)) {
            (Some(own), Some(other)) => own.is_file() && same(&own, &other),
            _ => false,
        }
    }

    /// Writes the file, if one was named. Call it last: the result is shown even if the file cannot be written any more.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn write(&self, text: impl FnOnce() -> String) -> Result<(), CliError> {
        let Some(path) = self.path else { return Ok(()) };
        fs::write(path, text()).map_err(|error| cannot_write(path, &error))
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
        let file = File::create_new(path).map_err(|error| cannot_output(path, &error))?;
        Ok(NewFile { path: path.to_owned(), file, kept: false })
    }

    /// Writes the file, and leaves it.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn keep(mut self, data: &[u8]) -> Result<(), CliError> {
        self.file.write_all(data).map_err(|error| cannot_output(&self.path, &error))?;
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

fn cannot_output(path: &Path, error: &io::Error) -> CliError {
    CliError::failed(format!("--output {}: {error}", path.display()))
}

/// The error of a file that cannot be written.
pub(crate) fn cannot_write(path: &Path, error: &io::Error) -> CliError {
    CliError::failed(format!("cannot write {}: {error}; give another path", path.display()))
}

/// Whether both are the same file.
pub(crate) fn same(a: &Metadata, b: &Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}
