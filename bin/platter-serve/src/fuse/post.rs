//! The descriptors of a thread, and replies to the kernel.

use super::wire;
use platter_block::lane::Bell;
use platter_disk::pool::PoolBuf;
use platter_wait::{Epoll, EventFd, EventFlags};
use rustix::io::Errno;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Largest read or write, in bytes: what the kernel allows.
pub(super) const MAX_TRANSFER: usize = 1 << 20;

/// Wakes a worker, and counts what others have finished for it.
pub(super) struct WorkerWake {
    pub(super) event: EventFd,
    finished: AtomicUsize,
    /// The memory of what is finished.
    returned: Mutex<Vec<PoolBuf>>,
    /// It was rung and not answered.
    rung: AtomicBool,
}

impl WorkerWake {
    fn new() -> io::Result<WorkerWake> {
        Ok(WorkerWake {
            event: EventFd::new()?,
            finished: AtomicUsize::new(0),
            returned: Mutex::default(),
            rung: AtomicBool::new(false),
        })
    }

    /// A request that another thread has carried out for the worker is answered; gives its memory back.
    pub(super) fn finished(&self, memory: Option<PoolBuf>) {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner).extend(memory);
        self.finished.fetch_add(1, Ordering::Release);
        self.ring();
    }

    /// How many requests others have finished since the last call. Their memory goes to `put`.
    pub(super) fn take_finished(&self, put: impl FnMut(PoolBuf)) -> usize {
        let finished = self.finished.swap(0, Ordering::Acquire);
        if finished > 0 {
            self.returned.lock().unwrap_or_else(PoisonError::into_inner).drain(..).for_each(put);
        }
        finished
    }

    /// Answers it.
    pub(super) fn clear(&self) {
        if self.rung.swap(false, Ordering::SeqCst) && self.event.clear() == 0 {
            // Between the two steps of `ring`: the next call finds the event.
            self.rung.store(true, Ordering::SeqCst);
        }
    }
}

impl Bell for WorkerWake {
    fn ring(&self) {
        self.rung.store(true, Ordering::SeqCst);
        self.event.signal();
    }
}

/// Sends a reply: its data, or an error. `false`: the kernel does not wait for it any more.
pub(super) fn reply(fuse: &OwnedFd, unique: u64, result: Result<&[u8], Errno>) -> bool {
    let (data, errno) = match result {
        Ok(data) => (data, 0),
        Err(error) => (&[][..], error.raw_os_error()),
    };
    let header = wire::reply_header(unique, errno, data.len());
    rustix::io::writev(fuse, &[IoSlice::new(&header), IoSlice::new(data)]).is_ok()
}

/// The descriptors of a worker.
pub(super) struct Post {
    pub(super) fuse: Arc<OwnedFd>,
    pub(super) bell: Arc<WorkerWake>,
    /// Readable when there are requests or the bell was rung.
    pub(super) any: Epoll,
}

impl Post {
    pub(super) fn new(fuse: OwnedFd) -> io::Result<Post> {
        let bell = Arc::new(WorkerWake::new()?);
        let any = Epoll::new()?;
        // Of the threads that sleep without any request in work, one is woken.
        any.add(&fuse, EventFlags::IN | EventFlags::EXCLUSIVE)?;
        any.add(&bell.event, EventFlags::IN)?;
        Ok(Post { fuse: Arc::new(fuse), bell, any })
    }
}
