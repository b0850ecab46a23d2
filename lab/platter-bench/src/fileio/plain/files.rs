//! The test's files: made where they are missing, removed at the end.

use crate::fileio::FileioError;
use crate::fileio::plan::{Mode, Plan};
use crate::stats::Seeded;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes written at a time while files are made.
const PIECE: u64 = 1 << 20;

/// The files of a directory. Dropping it removes those that it made, unless they are to be kept.
pub(in crate::fileio) struct TestFiles {
    dir: PathBuf,
    keep: bool,
    made: Vec<PathBuf>,
}

impl TestFiles {
    /// Makes the files that are missing.
    pub(super) fn prepare(
        dir: &Path,
        keep: bool,
        plan: &Plan,
        cancel: &AtomicBool,
    ) -> Result<TestFiles, FileioError> {
        let mut files = TestFiles { dir: dir.to_owned(), keep, made: Vec::new() };
        let mut noise = vec![0; PIECE.min(plan.file_size()) as usize];
        let mut seeded = Seeded::stream(plan.seed, u64::MAX);
        noise
            .chunks_mut(8)
            .for_each(|part| part.copy_from_slice(&seeded.next_u64().to_le_bytes()[..part.len()]));
        for number in 0..plan.files {
            if cancel.load(Ordering::Relaxed) {
                return Err(FileioError::Interrupted);
            }
            files.prepare_one(number, plan, &noise)?;
        }
        Ok(files)
    }

    /// Where a file is.
    pub(super) fn path(&self, number: u32) -> PathBuf {
        self.dir.join(format!("test_file.{number}"))
    }

    fn prepare_one(&mut self, number: u32, plan: &Plan, noise: &[u8]) -> Result<(), FileioError> {
        let (path, size) = (self.path(number), plan.file_size());
        match fs::metadata(&path) {
            Ok(found) if !found.is_file() => {
                let message = format!("{} is no regular file; give another --dir", path.display());
                return Err(FileioError::Unfit(message));
            }
            // A file that will be written from its beginning need not exist in full.
            Ok(found) if found.len() >= size || plan.mode == Mode::SeqWr => return Ok(()),
            Ok(found) => {
                return Err(FileioError::Unfit(format!(
                    "{} has {} bytes and needs {size}; remove it, give another --dir, or lower --file-total-size",
                    path.display(),
                    found.len()
                )));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(FileioError::file("look at", &path, None, error)),
        }
        let made = OpenOptions::new().write(true).create_new(true).open(&path);
        let made = made.map_err(|error| FileioError::file("make", &path, None, error))?;
        self.made.push(path.clone());
        if plan.mode == Mode::SeqWr {
            return Ok(());
        }
        fill(made, size, noise).map_err(|error| FileioError::file("fill", &path, None, error))
    }
}

fn fill(mut file: File, size: u64, noise: &[u8]) -> std::io::Result<()> {
    let mut left = size;
    while left > 0 {
        let piece = &noise[..left.min(noise.len() as u64) as usize];
        file.write_all(piece)?;
        left -= piece.len() as u64;
    }
    // Data that is still to be written back would disturb the run.
    file.sync_all()
}

impl Drop for TestFiles {
    fn drop(&mut self) {
        if !self.keep {
            // A drop cannot report an error; files that remain have the documented names.
            self.made.iter().for_each(|path| drop(fs::remove_file(path)));
        }
    }
}

/// Opens a file as the plan requires.
pub(super) fn open(path: &Path, plan: &Plan) -> Result<File, FileioError> {
    let extra = plan.extra_flags;
    let flags = [(extra.direct, libc::O_DIRECT), (extra.sync, libc::O_SYNC), (extra.dsync, libc::O_DSYNC)];
    let flags = flags.iter().filter(|(on, _)| *on).fold(0, |all, (_, flag)| all | flag);
    let open = OpenOptions::new().read(true).write(plan.mode.writes()).custom_flags(flags).open(path);
    open.map_err(|error| FileioError::file("open", path, None, error))
}
