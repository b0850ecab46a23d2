//! What threads sleep on that wait for a channel.

use platter_wait::{Doorbell, Epoll, EventFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// A descriptor that is readable when a channel has something to do: its socket, or a doorbell.
pub(crate) struct Waiter {
    set: Epoll,
    pub(crate) bell: Doorbell,
}

impl Waiter {
    pub(crate) fn new() -> io::Result<Waiter> {
        let (set, bell) = (Epoll::new()?, Doorbell::new()?);
        set.add(bell.fd(), EventFlags::IN)?;
        Ok(Waiter { set, bell })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }

    /// Awaits a socket: input, and room for `output`. One that is closed leaves by itself.
    pub(crate) fn listen(&self, socket: impl AsFd, output: bool) {
        let flags = match output {
            true => EventFlags::IN | EventFlags::OUT,
            false => EventFlags::IN,
        };
        // Without memory for it threads find out when they next look.
        let _ = self.set.listen(socket, flags);
    }

    /// Awaits a socket no longer.
    #[cfg(feature = "sg")]
    pub(crate) fn forget(&self, socket: impl AsFd) {
        self.set.remove(socket);
    }
}
