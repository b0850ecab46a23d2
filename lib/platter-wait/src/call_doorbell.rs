//! A doorbell for the calls of a program, which may close every descriptor that it finds (`closefrom(3)`). A number is then that of
//! another file of the program, which must neither be written to nor read.

use super::doorbell::Armed;
use super::parker::Parker;
use super::sleeper::{NAP, wait_readable};
use platter_block::time::Span;
use rustix::fs::fstat;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A socket of a pair. All eventfds have one inode, while sockets can be told apart; and `send` fails on what is none.
struct End {
    /// `None` only while it is dropped.
    fd: Option<OwnedFd>,
    identity: (u64, u64),
}

impl End {
    fn new(fd: OwnedFd) -> io::Result<End> {
        let stat = fstat(&fd)?;
        Ok(End { fd: Some(fd), identity: (stat.st_dev, stat.st_ino) })
    }

    /// The socket, if its number is still that of it.
    fn get(&self) -> Option<&OwnedFd> {
        let fd = self.fd.as_ref()?;
        fstat(fd).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == self.identity).then_some(fd)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let ours = self.get().is_some();
        if let Some(fd) = self.fd.take().filter(|_| !ours) {
            // Closed by the program, whose descriptor it may be.
            let _ = fd.into_raw_fd();
        }
    }
}

/// Where the waiter sleeps.
enum Place {
    /// On a socket, in a ring that polls it.
    Sockets { armed: Armed, waiter: End, ringer: End },
    /// Without a descriptor.
    Parker(Parker),
}

/// As [`ArmedDoorbell`](super::ArmedDoorbell): armed by the waiter, rung by others with a system call only then.
pub struct CallDoorbell {
    /// A socket has been closed by the program; nothing wakes the waiter any more.
    lost: AtomicBool,
    place: Place,
}

impl CallDoorbell {
    /// For a ring.
    ///
    /// # Errors
    /// No descriptors are available.
    pub fn for_ring() -> io::Result<CallDoorbell> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (waiter, ringer) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        let (waiter, ringer) = (End::new(waiter)?, End::new(ringer)?);
        Ok(CallDoorbell::at(Place::Sockets { armed: Armed::new(), waiter, ringer }))
    }

    /// For a waiter that has nothing else to wait for.
    pub fn parked() -> CallDoorbell {
        CallDoorbell::at(Place::Parker(Parker::new()))
    }

    fn at(place: Place) -> CallDoorbell {
        CallDoorbell { lost: AtomicBool::new(false), place }
    }

    /// The descriptor to poll.
    pub fn raw(&self) -> Option<RawFd> {
        match &self.place {
            Place::Sockets { waiter, .. } => waiter.fd.as_ref().map(AsRawFd::as_raw_fd),
            Place::Parker(_) => None,
        }
    }

    /// Wakes the waiter if it sleeps. `false`: it cannot be woken any more, and may sleep.
    pub fn ring(&self) -> bool {
        match &self.place {
            Place::Sockets { armed, ringer, .. } => {
                if armed.take() && !signal(ringer) {
                    self.lost.store(true, Ordering::SeqCst);
                }
                !self.is_lost()
            }
            Place::Parker(parker) => {
                parker.unpark();
                true
            }
        }
    }

    fn is_lost(&self) -> bool {
        self.lost.load(Ordering::SeqCst)
    }

    /// Whether the waiter is awake, or can be woken.
    pub fn is_reachable(&self) -> bool {
        match &self.place {
            Place::Sockets { armed, ringer, .. } => {
                (!armed.is_set() || ringer.get().is_some()) && !self.is_lost()
            }
            Place::Parker(_) => true,
        }
    }

    /// Whether the numbers of its descriptors still are those of its own.
    pub fn is_whole(&self) -> bool {
        match &self.place {
            Place::Sockets { waiter, ringer, .. } => waiter.get().is_some() && ringer.get().is_some(),
            Place::Parker(_) => true,
        }
    }

    /// Whether the waiter can sleep and be woken. If not, those who hand work over and ring after that see it.
    fn can_sleep(&self, waiter: &End) -> bool {
        if waiter.get().is_none() {
            self.lost.store(true, Ordering::SeqCst);
        }
        !self.is_lost()
    }

    /// Before the waiter looks for work for the last time and sleeps. `false`: nothing will wake it.
    pub fn arm(&self) -> bool {
        match &self.place {
            Place::Sockets { armed, waiter, .. } => {
                if !self.can_sleep(waiter) {
                    return false;
                }
                let mut byte = [0];
                while waiter.get().is_some_and(|fd| recv(fd, &mut byte, RecvFlags::DONTWAIT).is_ok()) {}
                armed.set();
            }
            Place::Parker(parker) => parker.arm(),
        }
        true
    }

    /// Arms what is polled already. `false`: nothing will wake the waiter.
    pub fn rearm(&self) -> bool {
        match &self.place {
            Place::Sockets { armed, waiter, .. } => {
                armed.set();
                self.can_sleep(waiter)
            }
            Place::Parker(parker) => {
                parker.arm();
                true
            }
        }
    }

    /// No waiter any more.
    pub fn disarm(&self) {
        match &self.place {
            Place::Sockets { armed, .. } => armed.clear(),
            Place::Parker(parker) => {
                parker.disarm();
            }
        }
    }

    /// Sleeps outside of a ring, until it is rung or the time has passed.
    pub fn wait(&self, timeout: Option<Span>) {
        match &self.place {
            Place::Sockets { waiter, .. } => match waiter.get() {
                Some(fd) => wait_readable(fd, timeout),
                None => std::thread::sleep(Duration::from_nanos(NAP.0)),
            },
            Place::Parker(parker) => parker.sleep(timeout.map(|span| Duration::from_nanos(span.0))),
        }
    }
}

/// `false`: the socket has been closed by the program.
fn signal(ringer: &End) -> bool {
    // Full is readable.
    ringer.get().is_some_and(|fd| {
        let sent = send(fd, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        sent.is_ok() || sent == Err(rustix::io::Errno::AGAIN)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_bells_only_a_thread_that_sleeps() {
        for bell in [CallDoorbell::for_ring().unwrap(), CallDoorbell::parked()] {
            assert!(bell.ring() && bell.arm() && bell.ring() && bell.ring());
            bell.wait(None);
            assert!(bell.arm(), "cleared");
            bell.wait(Some(Span::from_micros(1)));
            bell.disarm();
            assert!(bell.ring() && bell.is_reachable() && bell.is_whole());
        }
    }

    /// The number belongs to another socket afterwards, as after `closefrom`.
    #[test]
    fn a_socket_that_is_another_is_not_used() {
        let mut bell = CallDoorbell::for_ring().unwrap();
        assert!(bell.arm());
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::NONBLOCK, None).unwrap();
        let Place::Sockets { ringer, .. } = &mut bell.place else { unreachable!() };
        let before = ringer.fd.replace(ours).unwrap();
        assert!(!bell.is_reachable() && !bell.ring() && !bell.is_whole());
        assert_eq!(recv(&theirs, &mut [0; 8], RecvFlags::DONTWAIT), Err(rustix::io::Errno::AGAIN));
        drop(bell);
        // It was not closed either: then this would be a connection that is refused.
        assert_eq!(recv(&theirs, &mut [0; 8], RecvFlags::DONTWAIT), Err(rustix::io::Errno::AGAIN));
        drop(before);
    }
}
