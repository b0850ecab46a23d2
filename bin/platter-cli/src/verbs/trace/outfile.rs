//! The file that a verb writes: new, or in place of an old one only with `--force`, and only when it is whole.

use crate::cli::output::{refuse_device, same};
use crate::cli::{CliError, Context};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What is removed if a signal ends the program while it waits.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// A file under way. Dropped before it is kept, it is removed.
pub(in crate::verbs) struct OutFile {
    path: PathBuf,
    /// The file that is written, if it will get the name of the path.
    part: Option<PathBuf>,
    to: BufWriter<Box<dyn Write>>,
}

fn remove_unfinished() {
    if let Some(path) = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // It is not needed any more.
        let _ = fs::remove_file(path);
    }
}

/// Refuses to write over one of the inputs.
pub(super) fn refuse_input(path: &Path, inputs: &[PathBuf]) -> Result<(), CliError> {
    let Ok(found) = fs::metadata(path) else { return Ok(()) };
    match inputs.iter().any(|input| fs::metadata(input).is_ok_and(|input| same(&input, &found))) {
        true => Err(CliError::refused(format!("{} is one of the inputs; give another path", path.display()))),
        false => Ok(()),
    }
}

impl OutFile {
    /// Begins a file at a path; `-` is stdout.
    pub(in crate::verbs) fn create(
        path: &Path,
        force: bool,
        inputs: &[PathBuf],
    ) -> Result<OutFile, CliError> {
        let shown = path.display();
        let cannot =
            |error: io::Error| CliError::failed(format!("cannot write {shown}: {error}; give another path"));
        let buffered = |to: Box<dyn Write>| BufWriter::with_capacity(256 << 10, to);
        if path.to_str() == Some("-") {
            return Ok(OutFile { path: path.to_owned(), part: None, to: buffered(Box::new(io::stdout())) });
        }
        refuse_device(path, [])?;
        if let Ok(found) = fs::metadata(path) {
            if found.is_dir() {
                return Err(CliError::usage(format!("{shown} is a directory; give the path of a file")));
            }
            refuse_input(path, inputs)?;
            if !found.is_file() {
                let open = || OpenOptions::new().write(true).open(path);
                let file = Context::unattended(open).map_err(cannot)?;
                return Ok(OutFile { path: path.to_owned(), part: None, to: buffered(Box::new(file)) });
            }
            if !force {
                return Err(CliError::refused(format!(
                    "{shown} exists; give another path, or --force to replace it"
                )));
            }
        }
        let mut part = path.as_os_str().to_owned();
        part.push(format!(".part-{}", std::process::id()));
        let part = PathBuf::from(part);
        let file = File::create_new(&part).map_err(cannot)?;
        *UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner) = Some(part.clone());
        Context::at_end(Some(remove_unfinished));
        Ok(OutFile { path: path.to_owned(), part: Some(part), to: buffered(Box::new(file)) })
    }

    pub(in crate::verbs) fn is_stdout(&self) -> bool {
        self.path.to_str() == Some("-")
    }

    pub(in crate::verbs) fn write(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.to.write_all(bytes).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &io::Error) -> CliError {
        match error.kind() {
            // The reader wants no more.
            io::ErrorKind::BrokenPipe if self.is_stdout() => CliError::failed(""),
            _ => CliError::failed(format!("cannot write {}: {error}", self.path.display())),
        }
    }

    /// Ends the file, and gives it its name.
    pub(in crate::verbs) fn keep(mut self) -> Result<(), CliError> {
        self.to.flush().map_err(|error| self.failed(&error))?;
        if let Some(part) = &self.part {
            fs::rename(part, &self.path).map_err(|error| self.failed(&error))?;
        }
        self.part = None;
        *UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }
}

impl Drop for OutFile {
    fn drop(&mut self) {
        if self.part.is_some() {
            remove_unfinished();
        }
    }
}
