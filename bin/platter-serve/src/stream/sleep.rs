//! The sleep of a connection's thread: until the socket, the device or another thread has something for it.

use super::admission::Admission;
use super::socket::Socket;
use platter_block::bio::Bio;
use platter_disk::channel::Channel;
use platter_wait::{Epoll, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use std::os::fd::{AsFd, AsRawFd, RawFd};

/// What ends a sleep, besides bios that complete and requests that are admitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wants {
    /// Something can be received.
    pub(crate) receives: bool,
    /// Something can be sent.
    pub(crate) sends: bool,
    /// The bell of the [`Admission`] is rung.
    pub(crate) wakes: bool,
}

#[derive(Default)]
pub(crate) struct Sleep {
    /// A descriptor that is readable while the socket can be written to; made at first need.
    writable: Option<Epoll>,
}

impl Sleep {
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
        let [wake, hangup] = admission.descriptors();
        let all = [
            wants.receives.then(|| socket.descriptor()),
            writable,
            (waits || wants.wakes).then_some(wake),
            waits.then_some(hangup),
        ];
        let mut descriptors = [0; 4];
        let mut count = 0;
        for descriptor in all.into_iter().flatten() {
            descriptors[count] = descriptor;
            count += 1;
        }
        let descriptors = &descriptors[..count];
        if !waits {
            channel.wait_or_readable(done, descriptors, None);
            if wants.wakes {
                admission.woken();
            }
            return;
        }
        let clock = channel.clock().clone();
        match (clock.simulated(), admission.again_at()) {
            // Virtual time passes only when a program that waits lets it.
            (Some(clock), Some(at)) if channel.outstanding() == 0 => clock.advance_to(at),
            _ => {
                let timeout = admission.timeout(clock.now());
                channel.wait_or_readable(done, descriptors, timeout);
            }
        }
        admission.woken();
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
