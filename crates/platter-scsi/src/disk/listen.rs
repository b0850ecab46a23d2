//! One descriptor for all on which a lane of the device can be heard.

#![allow(unsafe_code)]

use platter_block::lane::Lane;
use rustix::event::epoll;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::vec::Vec;

/// See the module.
#[derive(Default)]
pub(super) struct Listen(Mutex<Set>);

#[derive(Default)]
struct Set {
    epoll: Option<OwnedFd>,
    has: Vec<i32>,
}

impl Listen {
    /// A descriptor that is readable when the lane has something to do; `None`: it cannot be seen that way.
    pub(super) fn descriptor(&self, lane: &dyn Lane) -> Option<i32> {
        let mut wanted = Vec::new();
        if !lane.wait_handles(&mut wanted) {
            return None;
        }
        if let [only] = wanted[..] {
            return Some(only);
        }
        let mut set = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Set { epoll, has } = &mut *set;
        if epoll.is_none() {
            *epoll = epoll::create(epoll::CreateFlags::CLOEXEC).ok();
        }
        let epoll = epoll.as_ref()?;
        // A closed descriptor has left the set already, and its number may stand for another one now.
        has.drain(..).for_each(|fd| _ = epoll::delete(epoll, borrowed(fd)));
        for fd in wanted {
            let data = epoll::EventData::new_u64(0);
            epoll::add(epoll, borrowed(fd), data, epoll::EventFlags::IN).ok()?;
            has.push(fd);
        }
        Some(epoll.as_raw_fd())
    }
}

fn borrowed(fd: i32) -> BorrowedFd<'static> {
    // SAFETY: the borrow ends with the system call that it is made for. If the descriptor has been closed or reused since,
    // the call fails, or it wakes a sleeper that then finds nothing to do.
    unsafe { BorrowedFd::borrow_raw(fd) }
}
