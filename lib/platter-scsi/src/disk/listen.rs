//! One descriptor for all on which it shows that a lane of the device has something to do.

use platter_block::lane::Lane;
use platter_wait::PollSet;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, PoisonError};
use std::vec::Vec;

/// See the module.
#[derive(Default)]
pub(super) struct Listen(Mutex<Set>);

#[derive(Default)]
struct Set {
    set: Option<PollSet>,
    /// How often it was asked for: a number may stand for another descriptor each time.
    lists: u64,
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
        let mut listed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Set { set, lists } = &mut *listed;
        *lists += 1;
        *set = set.take().or_else(|| PollSet::new().ok());
        let set = set.as_mut()?;
        set.set(&wanted, *lists).then(|| set.epoll().as_raw_fd())
    }
}
