//! Sets of descriptors: the only place that makes them.

use rustix::event::epoll::{self, EventData, EventFlags};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

/// A set of descriptors behind one descriptor, which is readable if any of them is ready.
///
/// A thread that sleeps on that descriptor also sees descriptors that another thread adds later.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// An empty set.
    ///
    /// # Errors
    /// No descriptor is available.
    pub fn new() -> io::Result<Epoll> {
        Ok(Epoll(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Adds a descriptor, which leaves the set when it is closed.
    ///
    /// # Errors
    /// It is in the set already, or cannot be polled; or the system has no memory for it.
    pub fn add(&self, fd: impl AsFd, events: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.0, fd, EventData::new_u64(0), events)?)
    }

    /// Adds a descriptor, or changes what is awaited of it.
    ///
    /// # Errors
    /// It cannot be polled, or the system has no memory for it.
    pub fn listen(&self, fd: impl AsFd, events: EventFlags) -> io::Result<()> {
        match epoll::modify(&self.0, &fd, EventData::new_u64(0), events) {
            Ok(()) => Ok(()),
            Err(_) => self.add(fd, events),
        }
    }

    /// Removes a descriptor, if it is in the set.
    pub fn remove(&self, fd: impl AsFd) {
        // A closed descriptor has left the set already.
        let _ = epoll::delete(&self.0, fd);
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Epoll {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// An [`Epoll`] that has the descriptors of a list, which changes.
///
/// If several threads slept on the list itself, they would have to be woken whenever it changes, and a ring of a doorbell in it would
/// be lost for those that have not run before the first of them clears it.
#[derive(Debug)]
pub struct PollSet {
    epoll: Arc<Epoll>,
    has: Vec<RawFd>,
    generation: u64,
}

impl PollSet {
    /// An empty set.
    ///
    /// # Errors
    /// No descriptor is available.
    pub fn new() -> io::Result<PollSet> {
        Ok(PollSet { epoll: Arc::new(Epoll::new()?), has: Vec::new(), generation: 0 })
    }

    /// The set, for as long as the caller needs it.
    pub fn epoll(&self) -> &Arc<Epoll> {
        &self.epoll
    }

    /// Changes the set to `wanted`. Another `generation` than the last time: the same number may stand for another descriptor.
    /// `false`: not all could be added.
    pub fn set(&mut self, wanted: &[RawFd], generation: u64) -> bool {
        if self.has == wanted && self.generation == generation {
            return true;
        }
        self.has.drain(..).for_each(|fd| self.epoll.remove(borrowed(fd)));
        self.has.extend(wanted.iter().filter(|&&fd| self.epoll.add(borrowed(fd), EventFlags::IN).is_ok()));
        self.generation = generation;
        self.has.len() == wanted.len()
    }
}

#[allow(unsafe_code)]
fn borrowed(fd: RawFd) -> BorrowedFd<'static> {
    // SAFETY: the borrow ends with the system call that it is made for. If the descriptor has been closed or reused
    // since, the call fails, or it wakes a waiter that then finds nothing to do.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Doorbell, is_ready};
    use rustix::event::PollFlags;

    #[test]
    fn a_set_follows_its_list_and_its_generation() {
        let bells = [(); 2].map(|()| Doorbell::new().unwrap());
        let [first, second] = [0, 1].map(|at: usize| bells[at].fd().raw());
        let mut set = PollSet::new().unwrap();
        let epoll = Arc::clone(set.epoll());
        let shows = || is_ready(&*epoll, PollFlags::IN);
        bells[0].ring();
        assert!(set.set(&[first, second], 0) && shows());
        assert!(set.set(&[second], 0) && !shows());
        assert!(!set.set(&[second, RawFd::MAX], 0), "there is no such descriptor");
        bells[1].ring();
        assert!(set.set(&[first], 0) && shows());
        bells[0].clear();
        assert!(!shows());
        // Taken out behind its back, as a descriptor that was closed is.
        epoll.remove(bells[0].fd());
        bells[0].ring();
        assert!(set.set(&[first], 0) && !shows());
        assert!(set.set(&[first], 1) && shows());
    }

    #[test]
    fn what_is_awaited_of_a_descriptor_can_change() {
        let (bell, epoll) = (Doorbell::new().unwrap(), Epoll::new().unwrap());
        epoll.listen(bell.fd(), EventFlags::IN).unwrap();
        assert!(!is_ready(&epoll, PollFlags::IN));
        epoll.listen(bell.fd(), EventFlags::IN | EventFlags::OUT).unwrap();
        assert!(is_ready(&epoll, PollFlags::IN), "an eventfd can be written to");
    }
}
