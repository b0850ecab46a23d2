//! Hands a completed bio from its lane to the future that waits for it, without a lock.
//!
//! Downside of not using the lane's lock for this: each I/O exchanges two more words between two processors. The lock
//! would cost the same, and the future would have to wait for a thread that runs the lane with it held.

use crate::sync::{AtomicU32, Ordering, UnsafeCell};
use platter_block::bio::Bio;

/// No bio is in the reply.
const EMPTY: u32 = 0;
/// A bio is in the reply.
const FULL: u32 = 1;
/// Some thread is putting a bio in or taking it out.
const BUSY: u32 = 2;

/// The end of a list of replies.
const NONE: u32 = u32::MAX;

/// Room for one bio. Only a thread that has set the state to busy touches the bio, so all methods may be called by any
/// thread at any time.
pub(crate) struct Reply {
    /// Its index in the lane's table.
    pub(crate) index: u32,
    state: AtomicU32,
    bio: UnsafeCell<Option<Bio>>,
    /// The next reply in the list of returned ones.
    next: AtomicU32,
}

// SAFETY: the cell is accessed only between a change of the state to busy, which one thread at a time can make, and
// the release of that state; a `Bio` may move between threads.
unsafe impl Sync for Reply {}
// SAFETY: as above.
unsafe impl Send for Reply {}

impl Reply {
    pub(crate) fn new(index: u32) -> Reply {
        let (state, next) = (AtomicU32::new(EMPTY), AtomicU32::new(NONE));
        Reply { index, state, bio: UnsafeCell::new(None), next }
    }

    fn claim(&self, from: u32) -> bool {
        self.state.compare_exchange(from, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// The index of the reply that was returned before this one.
    pub(crate) fn next(&self) -> Option<u32> {
        Some(self.next.load(Ordering::Relaxed)).filter(|&next| next != NONE)
    }

    /// Whether a bio is there.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.state.load(Ordering::Acquire) == FULL
    }

    /// Puts a bio in. An error returns the bio: there is one already.
    pub(crate) fn put(&self, bio: Bio) -> Result<(), Bio> {
        if !self.claim(EMPTY) {
            return Err(bio);
        }
        // SAFETY: no other thread accesses the cell in the state `BUSY`, see above.
        self.bio.with_mut(|place| unsafe { *place = Some(bio) });
        self.state.store(FULL, Ordering::Release);
        Ok(())
    }

    /// Takes the bio out, if there is one.
    pub(crate) fn take(&self) -> Option<Bio> {
        if !self.is_full() || !self.claim(FULL) {
            return None;
        }
        // SAFETY: no other thread accesses the cell in the state `BUSY`, see above.
        let bio = self.bio.with_mut(|place| unsafe { (*place).take() });
        self.state.store(EMPTY, Ordering::Release);
        bio
    }
}

/// The replies that futures no longer need, for the lane to use again. Any thread may add one; all are taken out
/// together, so an entry cannot come back while another thread still looks at it.
pub(crate) struct Returned(AtomicU32);

impl Returned {
    pub(crate) fn new() -> Returned {
        Returned(AtomicU32::new(NONE))
    }

    /// Adds a reply that is in no list.
    pub(crate) fn push(&self, reply: &Reply) {
        let mut first = self.0.load(Ordering::Relaxed);
        loop {
            reply.next.store(first, Ordering::Relaxed);
            match self.0.compare_exchange_weak(first, reply.index, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => first = other,
            }
        }
    }

    /// Takes out all replies. Returns the index of the first; [`Reply::next`] has that of the following one.
    pub(crate) fn take_all(&self) -> Option<u32> {
        if self.0.load(Ordering::Relaxed) == NONE {
            return None;
        }
        Some(self.0.swap(NONE, Ordering::Acquire)).filter(|&first| first != NONE)
    }
}
