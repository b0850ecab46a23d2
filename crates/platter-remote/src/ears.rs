//! What threads sleep on that wait for a channel.

use platter_block::time::Span;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

pub(crate) fn timespec(span: Span) -> Timespec {
    Timespec { tv_sec: (span.0 / 1_000_000_000) as i64, tv_nsec: (span.0 % 1_000_000_000) as i64 }
}

/// A descriptor that is readable when a channel has something to do: its socket, or a bell.
#[derive(Debug)]
pub(crate) struct Ears {
    epoll: OwnedFd,
    bell: OwnedFd,
}

impl Ears {
    pub(crate) fn new() -> io::Result<Ears> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &bell, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        Ok(Ears { epoll, bell })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Listens to a socket. One that is closed leaves by itself.
    pub(crate) fn listen(&self, socket: impl AsFd, output: bool) {
        let flags = match output {
            true => epoll::EventFlags::IN | epoll::EventFlags::OUT,
            false => epoll::EventFlags::IN,
        };
        let data = epoll::EventData::new_u64(1);
        if epoll::modify(&self.epoll, &socket, data, flags).is_err() {
            // It is not in the set yet. Without memory for it threads find out when they next look.
            let _ = epoll::add(&self.epoll, &socket, data, flags);
        }
    }

    /// Listens to a socket no longer.
    #[cfg(feature = "sg")]
    pub(crate) fn forget(&self, socket: impl AsFd) {
        // It may not be in the set.
        let _ = epoll::delete(&self.epoll, &socket);
    }

    pub(crate) fn ring(&self) {
        // Full means that it is readable.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    pub(crate) fn silence(&self) {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }
}
