//! Why a run failed.

use platter_block::fault;
use platter_disk::pool::BadPool;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a run failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileioError {
    /// An option is invalid regardless of the devices; the message has the allowed values.
    Option(String),
    /// An option does not fit the devices or files, such as a size beyond their end.
    Unfit(String),
    /// A device gave no channel, or an I/O on it failed.
    Device(fault::Error),
    /// A file cannot be made, opened, read, written or made durable.
    File {
        /// The operation that failed.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Where in it, if it was at a place.
        pos: Option<u64>,
        /// The error of the system.
        source: io::Error,
    },
    /// The buffers could not be had.
    Buffers(BadPool),
    /// The system gave no thread.
    Thread(io::Error),
    /// Requests are out on a simulated device that will never complete them.
    Stuck {
        /// Requests that were waited for.
        requests: usize,
    },
    /// It was interrupted before the run began.
    Interrupted,
}

impl FileioError {
    pub(super) fn file(what: &'static str, path: &Path, pos: Option<u64>, source: io::Error) -> FileioError {
        FileioError::File { what, path: path.to_owned(), pos, source }
    }
}

impl fmt::Display for FileioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileioError::Option(message) | FileioError::Unfit(message) => f.write_str(message),
            FileioError::Device(error) => error.fmt(f),
            FileioError::File { what, path, pos, source } => {
                write!(f, "cannot {what} {}", path.display())?;
                if let Some(pos) = pos {
                    write!(f, " at {pos}")?;
                }
                write!(f, ": {source}{}", advice(source))
            }
            FileioError::Buffers(error) => {
                write!(f, "{error}; lower --threads, --file-async-backlog or --file-block-size")
            }
            FileioError::Thread(error) => {
                write!(f, "the system gives no more threads: {error}; lower --threads")
            }
            FileioError::Stuck { requests } => write!(
                f,
                "{requests} requests are out and no device will ever complete them; give the device a timeout \
                 (timeout=30s)"
            ),
            FileioError::Interrupted => f.write_str("interrupted before the run began"),
        }
    }
}

/// What to do next, if there is advice.
fn advice(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EMFILE) => "; raise `ulimit -n`, lower --file-num or --threads, or use --handles shared",
        Some(libc::ENOSPC | libc::EDQUOT) => "; lower --file-total-size, or give another --dir",
        Some(libc::EINVAL) => {
            "; with --file-extra-flags direct the file system must offer direct I/O in blocks of --file-block-size"
        }
        Some(libc::EAGAIN) => "; raise /proc/sys/fs/aio-max-nr, or lower --threads or --file-async-backlog",
        _ => "",
    }
}

impl std::error::Error for FileioError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FileioError::Device(error) => Some(error),
            FileioError::File { source, .. } | FileioError::Thread(source) => Some(source),
            FileioError::Buffers(error) => Some(error),
            FileioError::Option(_)
            | FileioError::Unfit(_)
            | FileioError::Stuck { .. }
            | FileioError::Interrupted => None,
        }
    }
}

impl From<fault::Error> for FileioError {
    fn from(error: fault::Error) -> FileioError {
        FileioError::Device(error)
    }
}

impl From<BadPool> for FileioError {
    fn from(error: BadPool) -> FileioError {
        FileioError::Buffers(error)
    }
}
