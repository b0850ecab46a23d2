//! What the threads of a session share.

use crate::admission::{Bells, ClientShare};
use crate::clients::Connected;
use crate::events::Log;
use crate::restart::FirstFlush;
use crate::served::Served;
use crate::telling::FirstFailure;
use platter_block::lane::Bell;
use platter_wait::EventFd;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What all queues of a session share.
pub(super) struct Common {
    pub(super) served: Arc<Served>,
    pub(super) client: Arc<Connected>,
    pub(super) share: Arc<ClientShare>,
    /// Those of all queues.
    pub(super) bells: Arc<Bells>,
    pub(super) log: Log,
    pub(super) first_flush: FirstFlush,
    /// Writes are durable only after a flush.
    pub(super) write_back: Arc<AtomicBool>,
    /// Most requests of a queue that are worked on at once.
    pub(super) depth: usize,
    pub(super) failure: Arc<FirstFailure>,
}

/// How the thread of a queue is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Not at all.
    Not,
    /// When what is available now is answered.
    AfterThese,
    /// When what was taken is answered.
    Now,
}

/// How the session talks to the thread of a queue.
pub(super) struct Line {
    pub(super) wake: Arc<EventFd>,
    stop: AtomicU8,
    call: Arc<Call>,
}

/// The descriptor by which the guest is notified; the front end may change it at any time.
#[derive(Default)]
pub(super) struct Call(Mutex<Option<Arc<OwnedFd>>>);

impl Call {
    pub(super) fn set(&self, fd: Option<OwnedFd>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = fd.map(Arc::new);
    }

    /// Notifies the guest.
    pub(super) fn ring(&self) {
        let guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fd) = &*guard {
            // It does not block. A counter at its maximum notifies as well.
            let _ = rustix::io::write(&**fd, &1u64.to_ne_bytes());
        }
    }
}

impl Line {
    pub(super) fn new(wake: Arc<EventFd>, call: &Arc<Call>) -> Arc<Line> {
        Arc::new(Line { wake, stop: AtomicU8::new(Stop::Not as u8), call: Arc::clone(call) })
    }

    pub(super) fn call(&self) {
        self.call.ring();
    }

    /// Has the thread end.
    pub(super) fn end(&self, how: Stop) {
        self.stop.fetch_max(how as u8, Ordering::Release);
        self.wake.ring();
    }

    #[inline]
    pub(super) fn stop(&self) -> Stop {
        match self.stop.load(Ordering::Acquire) {
            0 => Stop::Not,
            1 => Stop::AfterThese,
            _ => Stop::Now,
        }
    }
}
