//! The state file of a server: what the next one must know if this one is killed.
//!
//! It is text: a heading, a line `unflushed NAME` for each device that would lose answered writes, and a line `end`.

use crate::error::ServeError;
use crate::restart::Past;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// The first line.
const HEADING: &str = "platter-serve state 1";
/// The last line. What follows is left of an earlier state.
const END: &str = "end";
const UNFLUSHED: &str = "unflushed ";

/// Largest file, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// What the server before this one has left.
#[derive(Debug, PartialEq, Eq)]
enum Left {
    /// Nothing: the file is new.
    Nothing,
    /// These devices may have lost writes, and no others.
    Lost(Vec<String>),
    /// The list is not complete.
    Damaged,
}

/// The state file, locked as long as the server runs.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: String,
    file: File,
    left: Left,
    /// The names in the file as it is now.
    marked: Vec<String>,
    /// The names of devices that this server has served.
    served: Vec<String>,
}

impl StateFile {
    /// Opens the file, or creates it.
    ///
    /// # Errors
    /// It is another kind of file; another server uses it; the system refuses.
    pub(crate) fn open(path: &Path) -> Result<StateFile, ServeError> {
        let shown = path.display().to_string();
        let cannot =
            |error: io::Error| ServeError::system(format!("cannot use the state file {shown}: {error}"));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path).map_err(cannot)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let message = format!("the state file {shown} is used by another server; give each its own");
            return Err(ServeError::system(message));
        }
        let mut bytes = Vec::new();
        (&file).take(MAX_BYTES).read_to_end(&mut bytes).map_err(cannot)?;
        let Some(left) = parse(&bytes) else {
            let message = format!(
                "{shown} is not a state file (it does not begin with \"{HEADING}\"); give another path"
            );
            return Err(ServeError::usage(message));
        };
        let marked = if let Left::Lost(names) = &left { names.clone() } else { Vec::new() };
        Ok(StateFile { path: shown, file, left, marked, served: Vec::new() })
    }

    /// How the server before this one has left a device.
    pub(crate) fn past(&self, name: &str, holds_unflushed: bool) -> Past {
        match &self.left {
            Left::Nothing => Past::Unknown,
            Left::Lost(names) if names.iter().any(|lost| lost == name) => Past::Lost,
            Left::Damaged if holds_unflushed => Past::Lost,
            Left::Lost(_) | Left::Damaged => Past::Clean,
        }
    }

    /// Notes, durably, whether a device loses writes if the server is killed from now on.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn mark(&mut self, name: &str, loses: bool) -> Result<(), ServeError> {
        self.marked.retain(|known| known != name);
        self.served.push(name.to_owned());
        if loses {
            self.marked.push(name.to_owned());
        }
        self.write()
    }

    /// All devices that were served have been flushed. Those of `lost` have lost writes all the same, of which clients were not
    /// told.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn end(mut self, lost: Vec<String>) -> Result<(), ServeError> {
        let served = &self.served;
        self.marked.retain(|name| !served.contains(name));
        self.marked.extend(lost);
        self.write()
    }

    /// As it was found: the server did not come to serve anything.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn restore(mut self) -> Result<(), ServeError> {
        match std::mem::replace(&mut self.left, Left::Nothing) {
            Left::Nothing => self.file.set_len(0).map_err(|error| self.cannot_write(&error)),
            Left::Lost(names) => {
                self.marked = names;
                self.write()
            }
            // What is marked now includes all that may be lost.
            Left::Damaged => Ok(()),
        }
    }

    fn cannot_write(&self, error: &io::Error) -> ServeError {
        ServeError::system(format!("cannot write the state file {}: {error}", self.path))
    }

    fn write(&self) -> Result<(), ServeError> {
        let lines: String = self.marked.iter().map(|name| format!("{UNFLUSHED}{name}\n")).collect();
        let text = format!("{HEADING}\n{lines}{END}\n");
        // A server that is killed between these steps leaves more than the end, which is not read.
        let written = self.file.write_all_at(text.as_bytes(), 0);
        let written = written.and_then(|()| self.file.set_len(text.len() as u64));
        written.and_then(|()| self.file.sync_data()).map_err(|error| self.cannot_write(&error))
    }
}

/// What the file says; `None`: it is not a state file.
fn parse(bytes: &[u8]) -> Option<Left> {
    if bytes.is_empty() {
        return Some(Left::Nothing);
    }
    // Also one of which only a part of the heading was written.
    if !bytes.starts_with(HEADING.as_bytes()) && !HEADING.as_bytes().starts_with(bytes) {
        return None;
    }
    let mut names = Vec::new();
    for line in String::from_utf8_lossy(bytes).lines().skip(1) {
        match line.strip_prefix(UNFLUSHED) {
            Some(name) => names.push(name.to_owned()),
            None if line == END => return Some(Left::Lost(names)),
            None => break,
        }
    }
    Some(Left::Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_server_that_was_killed_leaves_its_marks_and_one_that_has_ended_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let mut state = StateFile::open(&path).unwrap();
        assert_eq!(state.past("a", true), Past::Unknown);
        state.mark("a", true).unwrap();
        state.mark("", true).unwrap();
        state.mark("b c", false).unwrap();
        assert!(StateFile::open(&path).unwrap_err().to_string().contains("another server"));
        drop(state);
        let mut state = StateFile::open(&path).unwrap();
        assert_eq!(
            ["a", "", "b c", "d"].map(|name| state.past(name, true)),
            [Past::Lost, Past::Lost, Past::Clean, Past::Clean]
        );
        // It is killed before it serves everything again: what is lost stays lost.
        state.mark("d", true).unwrap();
        drop(state);
        let mut state = StateFile::open(&path).unwrap();
        assert_eq!(["a", "d"].map(|name| state.past(name, true)), [Past::Lost; 2]);
        state.mark("a", true).unwrap();
        state.mark("c", false).unwrap();
        state.end(vec!["c".to_owned()]).unwrap();
        let mut state = StateFile::open(&path).unwrap();
        assert_eq!(state.past("c", false), Past::Lost, "a flush of it has failed, and not all clients know");
        assert_eq!(state.past("a", true), Past::Clean);
        assert_eq!(state.past("d", true), Past::Lost, "it was not served");
        state.mark("a", true).unwrap();
        state.restore().unwrap();
        assert_eq!(StateFile::open(&path).unwrap().past("a", true), Past::Clean);
    }

    #[test]
    fn a_damaged_file_accuses_all_that_can_lose_and_another_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        for damaged in
            ["platter-se", "platter-serve state 1\nunflushed a", "platter-serve state 1\nunflushed a\nunfl"]
        {
            fs::write(&path, damaged).unwrap();
            let state = StateFile::open(&path).unwrap();
            assert_eq!(
                [state.past("x", true), state.past("x", false)],
                [Past::Lost, Past::Clean],
                "{damaged}"
            );
        }
        fs::write(&path, "root:x:0:0").unwrap();
        let error = StateFile::open(&path).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains("not a state file"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"root:x:0:0");
    }
}
