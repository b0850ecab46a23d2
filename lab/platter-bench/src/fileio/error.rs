//! Why a run failed.

use crate::load::Stuck;
use platter_block::fault;
use platter_disk::pool::BadPool;
use std::io;
use std::path::{Path, PathBuf};

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileioError {
    /// An option is invalid regardless of the devices; the message has the allowed values.
    #[error("{0}")]
    Option(String),
    /// An option does not fit the devices or files, such as a size beyond their end.
    #[error("{0}")]
    Unfit(String),
    /// A device gave no channel, or an I/O on it failed.
    #[error(transparent)]
    Device(#[from] fault::Error),
    /// A file cannot be made, opened, read, written or made durable.
    #[error("cannot {what} {}{}: {source}{}", path.display(), place(*pos), advice(source))]
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
    #[error("{0}; lower --threads, --file-async-backlog or --file-block-size")]
    Buffers(#[from] BadPool),
    /// The system gave no thread.
    #[error("the system gives no more threads: {0}; lower --threads")]
    Thread(#[source] io::Error),
    /// Requests are out on a simulated device that will never complete them.
    #[error(transparent)]
    Stuck(#[from] Stuck),
    /// It was interrupted before the run began.
    #[error("interrupted before the run began")]
    Interrupted,
}

impl FileioError {
    pub(super) fn file(what: &'static str, path: &Path, pos: Option<u64>, source: io::Error) -> FileioError {
        FileioError::File { what, path: path.to_owned(), pos, source }
    }
}

fn place(pos: Option<u64>) -> String {
    pos.map(|pos| format!(" at {pos}")).unwrap_or_default()
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
