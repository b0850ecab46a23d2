//! Files of a directory, by the system's own calls.

mod aio;
mod files;

pub(super) use files::TestFiles;

use super::FileioError;
use super::engine::{Engine, buffers};
use super::hooks::Hooks;
use super::plan::{Handles, IoMode, Plan, SyncMode};
use super::report::Report;
use super::requests::Request;
use super::{caches, real, report};
use platter_disk::pool::PoolBuf;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Runs the plan on the files `test_file.0`, `test_file.1`, … of a directory. Missing files are created, and
/// removed at the end unless `keep`; existing files, for instance from SysBench, are used and kept.
///
/// # Errors
/// An invalid plan; a file that is too short or cannot be created, opened, read or written.
pub fn run_in(dir: &Path, keep: bool, plan: &Plan, hooks: Hooks<'_>) -> Result<Report, FileioError> {
    plan.check()?;
    let files = TestFiles::prepare(dir, keep, plan, hooks.cancel)?;
    for number in 0..plan.files {
        caches::of_file(plan, &files.path(number), hooks.cancel)?;
    }
    let shared = Arc::new(Open::all(&files, plan)?);
    let open = |thread: u32| -> Result<Box<dyn Engine>, FileioError> {
        let files = match plan.handles {
            Handles::Shared => Arc::clone(&shared),
            Handles::Each => Arc::new(Open::all(&files, plan)?),
        };
        Ok(match plan.io_mode {
            IoMode::Sync => Box::new(Calls::new(plan, files, thread)?),
            IoMode::Async => Box::new(aio::Aio::new(plan, files, thread)?),
        })
    };
    let measured: report::Measured = real::run(plan, &open, hooks)?;
    Ok(Report::new(plan, dir.display().to_string(), measured, None))
}

/// The open files.
struct Open {
    files: Vec<File>,
    paths: Vec<std::path::PathBuf>,
    fsync_mode: SyncMode,
}

impl Open {
    fn all(files: &TestFiles, plan: &Plan) -> Result<Open, FileioError> {
        let paths: Vec<_> = (0..plan.files).map(|number| files.path(number)).collect();
        let open = |path: &std::path::PathBuf| files::open(path, plan);
        Ok(Open {
            files: paths.iter().map(open).collect::<Result<_, _>>()?,
            paths,
            fsync_mode: plan.fsync_mode,
        })
    }

    fn sync(&self, file: u32) -> Result<(), FileioError> {
        let open = &self.files[file as usize];
        let (what, result) = match self.fsync_mode {
            SyncMode::Fsync => ("fsync", open.sync_all()),
            SyncMode::Fdatasync => ("fdatasync", open.sync_data()),
        };
        result.map_err(|error| self.error(what, file, None, error))
    }

    fn error(&self, what: &'static str, file: u32, pos: Option<u64>, error: std::io::Error) -> FileioError {
        FileioError::file(what, &self.paths[file as usize], pos, error)
    }
}

/// A thread that calls and waits.
struct Calls {
    files: Arc<Open>,
    buffer: PoolBuf,
    done: Option<u32>,
}

impl Calls {
    fn new(plan: &Plan, files: Arc<Open>, thread: u32) -> Result<Calls, FileioError> {
        let buffer = buffers(plan, thread, 1, 1)?.pop();
        Ok(Calls { files, buffer: buffer.expect("a pool of one buffer has it"), done: None })
    }
}

impl Engine for Calls {
    fn start(&mut self, slot: u32, request: Request) -> Result<(), FileioError> {
        let files = &self.files.files;
        match request {
            Request::Read { file, pos } => {
                let read = files[file as usize].read_exact_at(&mut self.buffer, pos);
                read.map_err(|error| self.files.error("read", file, Some(pos), error))?;
            }
            Request::Write { file, pos } => {
                let written = files[file as usize].write_all_at(&self.buffer, pos);
                written.map_err(|error| self.files.error("write", file, Some(pos), error))?;
            }
            Request::Sync { file } => self.files.sync(file)?,
        }
        self.done = Some(slot);
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<u32>) -> Result<(), FileioError> {
        done.extend(self.done.take());
        Ok(())
    }
}
