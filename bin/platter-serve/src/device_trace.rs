//! The trace of a served device: the events of its queues, to a file of the server's machine.

use crate::error::ServeError;
use platter_disk::device::Device;
use platter_disk::trace_output::{Format, Tracer};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most bytes of a trace, unless told otherwise.
pub const MOST_BYTES: u64 = 1 << 30;

/// A trace that is being written.
pub(crate) struct DeviceTrace {
    tracer: Tracer,
    file: PathBuf,
    format: Format,
    written: Arc<AtomicU64>,
}

/// What operators see of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceState {
    /// Where it goes.
    pub file: PathBuf,
    /// How it is written.
    pub format: Format,
    /// Bytes of events so far; some of them may not be in the file yet.
    pub written_bytes: u64,
    /// Why no more events are written; `None`: they are.
    pub error: Option<String>,
}

/// A file that takes a limited number of bytes.
struct Limited {
    file: BufWriter<File>,
    written: Arc<AtomicU64>,
    most: u64,
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = self.written.load(Ordering::Relaxed) + bytes.len() as u64;
        if end > self.most {
            let why = format!("the trace has reached its limit of {} bytes", self.most);
            return Err(io::Error::new(io::ErrorKind::StorageFull, why));
        }
        // Whole events only, so that the file can be read to its end.
        self.file.write_all(bytes)?;
        self.written.store(end, Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl DeviceTrace {
    /// Begins to trace `device` to a new file, which only the server's user may read.
    ///
    /// # Errors
    /// The path is not absolute, exists, or cannot be written.
    pub(crate) fn begin(
        device: &Device,
        file: &Path,
        format: Format,
        most: u64,
    ) -> Result<DeviceTrace, ServeError> {
        if !file.is_absolute() {
            return Err(ServeError::usage(format!(
                "file is {}; give an absolute path on the machine of the server",
                file.display()
            )));
        }
        let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
        let created = created.map_err(|error| {
            let advice = match error.kind() {
                io::ErrorKind::AlreadyExists => "; remove it first, or give another path",
                _ => "",
            };
            ServeError::system(format!("cannot create {}: {error}{advice}", file.display()))
        })?;
        let written = Arc::new(AtomicU64::new(0));
        let to = Limited { file: BufWriter::new(created), written: Arc::clone(&written), most };
        let tracer = Tracer::start(std::slice::from_ref(device), format, Box::new(to));
        Ok(DeviceTrace { tracer, file: file.to_owned(), format, written })
    }

    pub(crate) fn state(&self) -> TraceState {
        TraceState {
            file: self.file.clone(),
            format: self.format,
            written_bytes: self.written.load(Ordering::Relaxed),
            error: self.tracer.error(),
        }
    }

    /// Ends the trace: from now on nothing is written to the file.
    pub(crate) fn end(self) -> TraceState {
        let state = self.state();
        let ended = self.tracer.finish();
        TraceState {
            written_bytes: self.written.load(Ordering::Relaxed),
            error: ended.err().map(|error| error.to_string()),
            ..state
        }
    }
}
