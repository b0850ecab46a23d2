//! What the caches have of the files when the run begins.

use super::FileioError;
use super::device::Cut;
use super::plan::{CacheState, Plan};
use platter_block::hint::Hint;
use platter_disk::handle::Handle;
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes read at a time.
const PIECE: u64 = 1 << 20;

/// Brings the caches of a device into the state of the plan. The handles of the run are not used, so their readahead has seen
/// nothing.
pub(super) fn of_device(plan: &Plan, cut: &Cut, cancel: &AtomicBool) -> Result<(), FileioError> {
    let handle = cut.device.handle();
    match plan.cache_state {
        CacheState::AsIs => Ok(()),
        CacheState::Cold => evict(&handle, plan),
        CacheState::Warm => {
            // Nothing is read ahead beyond the files, or still on its way when the run begins.
            handle.advise(Hint::Random, 0, plan.total_size)?;
            let mut buffer = vec![0; PIECE.min(plan.total_size) as usize];
            pieces(plan.total_size, cancel, |pos, len| Ok(handle.read_at(&mut buffer[..len], pos)?))
        }
    }
}

fn evict(handle: &Handle, plan: &Plan) -> Result<(), FileioError> {
    // Pages whose data is not on the disk cannot be evicted.
    if !handle.device().geometry().features.read_only {
        handle.flush()?;
    }
    Ok(handle.advise(Hint::DontNeed, 0, plan.total_size)?)
}

/// Brings what the kernel caches of a file into the state of the plan.
pub(super) fn of_file(plan: &Plan, path: &Path, cancel: &AtomicBool) -> Result<(), FileioError> {
    let open = || File::open(path).map_err(|error| FileioError::file("open", path, None, error));
    match plan.cache_state {
        CacheState::AsIs => Ok(()),
        CacheState::Cold => {
            let file = open()?;
            let done = file.sync_all().and_then(|()| Ok(fadvise(&file, 0, None, Advice::DontNeed)?));
            done.map_err(|error| FileioError::file("evict from the cache", path, None, error))
        }
        CacheState::Warm => {
            let file = open()?;
            let failed = |pos, error| FileioError::file("read", path, Some(pos), error);
            let size =
                file.metadata().map_err(|error| FileioError::file("look at", path, None, error))?.len();
            let mut buffer = vec![0; PIECE.min(plan.file_size()) as usize];
            // A file that is to be written from its beginning may be shorter.
            pieces(plan.file_size().min(size), cancel, |pos, len| {
                file.read_exact_at(&mut buffer[..len], pos).map_err(|error| failed(pos, error))
            })
        }
    }
}

/// Calls `read` for pieces of `size` bytes, in order.
fn pieces(
    size: u64,
    cancel: &AtomicBool,
    mut read: impl FnMut(u64, usize) -> Result<(), FileioError>,
) -> Result<(), FileioError> {
    for pos in (0..size).step_by(PIECE as usize) {
        if cancel.load(Ordering::Relaxed) {
            return Err(FileioError::Interrupted);
        }
        read(pos, PIECE.min(size - pos) as usize)?;
    }
    Ok(())
}
