//! A defect that is put back is found. It is active for the whole process, so this test is alone in its own.

#[allow(dead_code, reason = "the other tests use all of it")]
mod common;

use common::{Request, file, pipe, put, suspend};
use platter_block::defect::{self, Defect};

/// Whether a sync of a pipe ends while a read that was queued before it waits for data.
fn sync_passes(wait_first: bool) -> bool {
    let (read_end, write_end) = pipe();
    let mut read = Request::new(&read_end, 0, vec![0; 4]).read();
    let mut sync = Request::new(&read_end, 0, vec![]).sync(libc::O_SYNC);
    if !wait_first {
        put(&write_end, b"data");
    }
    suspend(&[&sync]);
    let passes = read.error() == libc::EINPROGRESS;
    if wait_first {
        put(&write_end, b"data");
    }
    assert_eq!((read.finish(), sync.finish()), (Ok(4), Err(libc::EINVAL)));
    passes
}

#[test]
fn a_sync_that_passes_others_is_found() {
    const { assert!(defect::AVAILABLE, "the tests are built with the feature") };
    assert!(!sync_passes(false));
    defect::put_back(Defect::AioSyncPasses, true);
    assert!(sync_passes(true));
    defect::put_back(Defect::AioSyncPasses, false);
    assert!(!sync_passes(false));
    assert_eq!(Request::new(&file(), 0, vec![1; 8]).write().finish(), Ok(8));
}
