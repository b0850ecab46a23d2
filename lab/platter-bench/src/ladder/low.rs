//! The low pool: the fixed pages through which a bouncing device transfers everything.
//!
//! In 2.4 they came from low memory, which all devices shared, so here the process shares them. A caller that
//! holds pages never waits in this pool, so that the waiting callers always get pages eventually.

use std::cell::UnsafeCell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes of a page.
pub(super) const PAGE: usize = 4096;

/// Most pages: 16 MiB, the size of the lowest zone of 2.4.
const MOST: usize = 4096;

#[repr(align(4096))]
struct Page {
    _bytes: [u8; PAGE],
}

/// A page taken from the pool, until it is returned.
pub(super) struct LowPage(Box<UnsafeCell<Page>>);

struct Pool {
    free: Vec<LowPage>,
    made: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { free: Vec::new(), made: 0 });
static GIVEN_BACK: Condvar = Condvar::new();

impl Pool {
    fn take(&mut self) -> Option<LowPage> {
        if self.free.is_empty() && self.made < MOST {
            let page = LowPage(Box::new(UnsafeCell::new(Page { _bytes: [0; PAGE] })));
            self.made += 1;
            return Some(page);
        }
        self.free.pop()
    }
}

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds free pages, at most `count`.
pub(super) fn try_take(count: usize, pages: &mut Vec<LowPage>) {
    let mut pool = pool();
    pages.extend(std::iter::from_fn(|| pool.take()).take(count));
}

/// Takes a page; waits for one. Only for callers that hold none.
pub(super) fn take() -> LowPage {
    let mut pool = pool();
    loop {
        if let Some(page) = pool.take() {
            return page;
        }
        pool = GIVEN_BACK.wait(pool).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Returns pages to the pool.
pub(super) fn give_back(pages: &mut Vec<LowPage>) {
    if !pages.is_empty() {
        pool().free.append(pages);
        GIVEN_BACK.notify_all();
    }
}

impl LowPage {
    /// Address of the page.
    pub(super) fn as_ptr(&self) -> *mut u8 {
        self.0.get().cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn an_empty_pool_makes_callers_wait_for_what_others_give_back() {
        let mut pages = vec![];
        try_take(10 * MOST, &mut pages);
        assert_eq!(pages.len(), MOST);
        let (send, receive) = mpsc::channel();
        let waiter = std::thread::spawn(move || {
            let page = take();
            let address = Some(page.as_ptr() as usize);
            give_back(&mut vec![page]);
            send.send(address)
        });
        assert!(receive.try_recv().is_err(), "there is no page to be had");
        let mut last: Vec<LowPage> = pages.pop().into_iter().collect();
        let address = last.first().map(|page| page.as_ptr() as usize);
        give_back(&mut last);
        assert_eq!(receive.recv().unwrap(), address);
        assert!(waiter.join().is_ok());
        give_back(&mut pages);
        try_take(1, &mut pages);
        assert_eq!(pages.len(), 1);
        give_back(&mut pages);
    }
}
