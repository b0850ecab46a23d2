//! The sleep of a connection's thread: until the socket, the device or another thread has something for it.

use super::socket::Socket;
use crate::admission::Admission;
use platter_block::bio::Bio;
use platter_block::lane::Bell;
use platter_disk::channel::Channel;
use platter_wait::{Epoll, EventFd, EventFlags, is_ready};
use rustix::event::{PollFd, PollFlags, poll};
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;

/// What ends a sleep, besides bios that complete and requests that are admitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wants {
    /// Something can be received.
    pub(crate) receives: bool,
    /// Something can be sent.
    pub(crate) sends: bool,
    /// The bell of the [`Sleep`] is rung.
    pub(crate) wakes: bool,
}

pub(crate) struct Sleep {
    wake: Arc<EventFd>,
    /// Readable once the peer sends no more requests.
    hangup: Epoll,
    /// A descriptor that is readable while the socket can be written to; made at first need.
    writable: Option<Epoll>,
}

impl Sleep {
    /// # Errors
    /// There is no free descriptor.
    pub(crate) fn new(socket: &Socket) -> io::Result<Sleep> {
        let (wake, hangup) = (Arc::new(EventFd::new()?), Epoll::new()?);
        hangup.add(socket.fd(), EventFlags::RDHUP)?;
        Ok(Sleep { wake, hangup, writable: None })
    }

    /// Ends a sleep for a request that waits, or one that wants to be woken.
    pub(crate) fn bell(&self) -> Arc<dyn Bell> {
        Arc::clone(&self.wake) as Arc<dyn Bell>
    }

    /// Sleeps until there is something to do. Bios that are complete go to `done`.
    pub(crate) fn sleep(
        &mut self,
        socket: &Socket,
        channel: &mut Channel,
        done: &mut Vec<Bio>,
        admission: &mut Admission,
        wants: Wants,
    ) {
        let waits = admission.waits();
        if channel.outstanding() == 0 && !waits && !wants.wakes {
            return on_socket(socket, wants);
        }
        let writable = if wants.sends { self.writable(socket) } else { None };
        let all = [
            wants.receives.then(|| socket.descriptor()),
            writable,
            (waits || wants.wakes).then(|| self.wake.raw()),
            waits.then(|| self.hangup.as_raw_fd()),
        ];
        let mut descriptors = [0; 4];
        let mut count = 0;
        for descriptor in all.into_iter().flatten() {
            descriptors[count] = descriptor;
            count += 1;
        }
        admission.sleep(channel, done, &descriptors[..count]);
        if waits || wants.wakes {
            self.wake.clear();
            if !admission.has_ended() && is_ready(&self.hangup, PollFlags::IN) {
                admission.end();
            }
        }
    }

    fn writable(&mut self, socket: &Socket) -> Option<RawFd> {
        if self.writable.is_none() {
            let epoll = Epoll::new().ok()?;
            epoll.add(socket.fd(), EventFlags::OUT).ok()?;
            self.writable = Some(epoll);
        }
        self.writable.as_ref().map(AsRawFd::as_raw_fd)
    }
}

/// Sleeps for the socket alone.
fn on_socket(socket: &Socket, wants: Wants) {
    let mut events = PollFlags::empty();
    events.set(PollFlags::IN, wants.receives);
    events.set(PollFlags::OUT, wants.sends);
    let cut = socket.cut_event();
    if !socket.is_cut() {
        // Without a descriptor for it, the end is noticed when the peer takes replies.
        let (cut, count) = cut.map_or((socket.fd().as_fd(), 1), |event| (event.as_fd(), 2));
        let mut fds = [PollFd::new(socket.fd(), events), PollFd::from_borrowed_fd(cut, PollFlags::IN)];
        // Interrupted or not, the caller tries again.
        let _ = poll(&mut fds[..count], None);
    }
}
