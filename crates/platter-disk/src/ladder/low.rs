//! The low pool: the fixed pages through which a bouncing device transfers everything.
//!
//! In 2.4 they came from low memory, which all devices shared; so these are shared by the process. A caller
//! that holds pages never waits here, so that somebody always gives back.

#![allow(unsafe_code)]

use crate::aligned::Aligned;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes of a page.
pub(super) const PAGE: usize = 4096;

/// Most pages: 16 MiB, as much as the lowest zone of 2.4 had.
const MOST: usize = 4096;

/// A page of the pool; dropping it gives it back.
pub(super) struct LowPage(Option<Aligned>);

struct Pool {
    free: Vec<Aligned>,
    made: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { free: Vec::new(), made: 0 });
static GIVEN_BACK: Condvar = Condvar::new();

impl Pool {
    fn take(&mut self) -> Option<LowPage> {
        if self.free.is_empty() && self.made < MOST {
            let page = Aligned::new(PAGE, PAGE)?;
            self.made += 1;
            return Some(LowPage(Some(page)));
        }
        self.free.pop().map(|page| LowPage(Some(page)))
    }

    /// Whether a page will come without one being made.
    fn will_have(&self) -> bool {
        self.made > 0
    }
}

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A page, if one is free.
pub(super) fn try_take() -> Option<LowPage> {
    pool().take()
}

/// A page; waits for one. Only for callers that hold none. `None` when there is no memory at all.
pub(super) fn take() -> Option<LowPage> {
    let mut pool = pool();
    loop {
        if let Some(page) = pool.take() {
            return Some(page);
        }
        if !pool.will_have() {
            return None;
        }
        pool = GIVEN_BACK.wait(pool).unwrap_or_else(PoisonError::into_inner);
    }
}

impl LowPage {
    /// Where the page is.
    pub(super) fn as_ptr(&self) -> *mut u8 {
        self.0.as_ref().map_or(std::ptr::null_mut(), Aligned::as_ptr)
    }

    /// Copies the first `len` bytes, a page at most, to `to`.
    ///
    /// # Safety
    /// `to` is valid for writing `len` bytes; nothing is on its way into the page.
    pub(super) unsafe fn copy_to(&self, to: *mut u8, len: usize) {
        assert!(len <= PAGE, "a page holds {PAGE} bytes");
        if let Some(page) = &self.0 {
            // SAFETY: the page has that many bytes (checked) and is memory of our own, so the ranges do not
            // overlap; the caller vouches for the other side.
            unsafe { std::ptr::copy_nonoverlapping(page.as_ptr(), to, len) }
        }
    }
}

impl Drop for LowPage {
    fn drop(&mut self) {
        if let Some(page) = self.0.take() {
            pool().free.push(page);
            GIVEN_BACK.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn an_empty_pool_makes_callers_wait_for_what_others_give_back() {
        let mut pages: Vec<LowPage> = std::iter::from_fn(try_take).collect();
        assert_eq!(pages.len(), MOST);
        let (send, receive) = mpsc::channel();
        let waiter = std::thread::spawn(move || send.send(take().map(|page| page.as_ptr() as usize)));
        assert!(receive.try_recv().is_err(), "there is no page to be had");
        let last = pages.pop().map(|page| page.as_ptr() as usize);
        assert_eq!(receive.recv().unwrap(), last);
        assert!(waiter.join().is_ok());
        drop(pages);
        assert!(try_take().is_some());
    }
}
