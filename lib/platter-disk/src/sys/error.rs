//! The error type of all operations that ask the system about a disk.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};

use super::errno;

/// Why an operation on a disk, a file or a directory failed.
///
/// Displayed as `cannot OP PATH: MESSAGE (ERRNO); HELP`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SysError {
    /// The operation, as a verb that fits after "cannot": `open`, `lock`, `probe`.
    pub op: &'static str,
    /// The path it was applied to.
    pub path: PathBuf,
    /// The system's error number, if a system call failed.
    pub errno: Option<i32>,
    /// What is wrong, with the relevant values.
    pub message: String,
    /// What to do next; empty if there is no useful advice.
    pub help: String,
}

impl SysError {
    /// A failure found by our own checks, without a failed system call.
    pub fn new(
        op: &'static str,
        path: impl AsRef<Path>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        let path = path.as_ref().to_path_buf();
        SysError { op, path, errno: None, message: message.into(), help: help.into() }
    }

    /// A failed system call, described by the errno table.
    pub fn from_errno(op: &'static str, path: impl AsRef<Path>, errno: i32) -> Self {
        let (message, help) = match errno::info(errno) {
            Some(info) => (info.text, info.advice),
            None => ("unknown system error", ""),
        };
        SysError { errno: Some(errno), ..SysError::new(op, path, message, help) }
    }

    /// A failed call of the standard library; without an error number, its own text is the message.
    pub fn from_io(op: &'static str, path: impl AsRef<Path>, error: &std::io::Error) -> Self {
        match error.raw_os_error() {
            Some(code) => SysError::from_errno(op, path, code),
            None => SysError::new(op, path, error.to_string(), ""),
        }
    }

    /// The same error with another message.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// For a file that was to be created or opened: if a directory of its path does not exist, the error names
    /// the first such directory.
    #[must_use]
    pub fn naming_missing_directory(self) -> Self {
        let Some(missing) = missing_directory(&self.path).filter(|_| self.errno == Some(libc::ENOENT)) else {
            return self;
        };
        let message = format!("the directory {} does not exist", missing.display());
        let help = format!("make it (mkdir -p {}), or check the path", missing.display());
        self.with_message(message).with_help(help)
    }

    /// The same error with another piece of advice.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = help.into();
        self
    }
}

/// The outermost directory of a path that does not exist.
fn missing_directory(path: &Path) -> Option<&Path> {
    let parents = path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
    parents.take_while(|parent| !parent.exists()).last()
}

impl fmt::Display for SysError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.op, self.path.display(), self.message)?;
        if let Some(code) = self.errno {
            write!(f, " ({})", errno::name(code))?;
        }
        if !self.help.is_empty() {
            write!(f, "; {}", self.help)?;
        }
        Ok(())
    }
}

impl Error for SysError {}

impl From<SysError> for std::io::Error {
    fn from(error: SysError) -> Self {
        let kind =
            error.errno.map_or(std::io::ErrorKind::Other, |e| std::io::Error::from_raw_os_error(e).kind());
        std::io::Error::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_operation_path_errno_and_help() {
        let e = SysError::from_errno("open", "/dev/sdz", libc::ENOENT);
        let text = e.to_string();
        assert!(text.starts_with("cannot open /dev/sdz: "), "{text}");
        assert!(text.contains("(ENOENT)"), "{text}");
        assert!(text.contains("; "), "{text}");
    }

    #[test]
    fn a_missing_directory_is_blamed_for_the_file_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let (file, deep) = (dir.path().join("file"), dir.path().join("a/b/file"));
        let said =
            |path: &Path, errno| SysError::from_errno("create", path, errno).naming_missing_directory();
        let missing = dir.path().join("a");
        assert_eq!(
            said(&deep, libc::ENOENT).message,
            format!("the directory {} does not exist", missing.display())
        );
        assert!(said(&deep, libc::ENOENT).help.contains("mkdir -p"));
        let plain = SysError::from_errno("create", &file, libc::ENOENT);
        assert_eq!(said(&file, libc::ENOENT), plain, "its directory is there");
        assert_eq!(said(&deep, libc::EIO).message, "I/O error");
        assert_eq!(said(Path::new("x"), libc::ENOENT).message, plain.message);
    }

    #[test]
    fn unknown_errno_and_empty_help_still_read_well() {
        let e = SysError::from_errno("lock", "x", 4000);
        assert_eq!(e.to_string(), "cannot lock x: unknown system error (errno 4000)");
    }

    #[test]
    fn becomes_an_io_error_of_the_right_kind() {
        let e: std::io::Error = SysError::from_errno("open", "x", libc::EACCES).into();
        assert_eq!(e.kind(), std::io::ErrorKind::PermissionDenied);
        assert!(e.to_string().contains("EACCES"));
    }

    #[test]
    fn io_errors_without_a_number_keep_their_text() {
        let e = SysError::from_io("read", "x", &std::io::Error::other("torn page"));
        assert_eq!((e.errno, e.message.as_str()), (None, "torn page"));
    }
}
