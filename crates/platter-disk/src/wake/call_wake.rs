//! Wakes the thread of a channel for the calls of a program, which may close every descriptor that it finds
//! (`closefrom(3)`). A number is then that of another file of the program, which must neither be written to nor read.

use super::Armed;
use super::event_fd::wait_readable;
use platter_block::time::Span;
use rustix::fs::fstat;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use std::io;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
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

/// Where the thread sleeps.
enum Bed {
    /// On a socket, in a ring that polls it.
    Sockets { sleeper: End, ringer: End },
    /// Without a descriptor.
    Bell { rung: Mutex<bool>, bell: Condvar },
}

/// As [`WakeFd`](super::WakeFd): armed by the thread that sleeps, rung by others with a system call only then.
pub(crate) struct CallWake {
    armed: Armed,
    /// A socket has been closed by the program; nothing wakes the thread any more.
    lost: AtomicBool,
    bed: Bed,
}

impl CallWake {
    /// For a ring.
    ///
    /// # Errors
    /// No descriptors are available.
    pub(crate) fn for_ring() -> io::Result<CallWake> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (sleeper, ringer) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        Ok(CallWake::on(Bed::Sockets { sleeper: End::new(sleeper)?, ringer: End::new(ringer)? }))
    }

    /// For a thread that has nothing else to wait for.
    pub(crate) fn bell() -> CallWake {
        CallWake::on(Bed::Bell { rung: Mutex::new(false), bell: Condvar::new() })
    }

    fn on(bed: Bed) -> CallWake {
        CallWake { armed: Armed::new(), lost: AtomicBool::new(false), bed }
    }

    /// The descriptor to poll.
    pub(crate) fn raw(&self) -> Option<RawFd> {
        match &self.bed {
            Bed::Sockets { sleeper, .. } => sleeper.fd.as_ref().map(AsRawFd::as_raw_fd),
            Bed::Bell { .. } => None,
        }
    }

    /// Wakes the thread if it sleeps. `false`: it cannot be woken any more, and may sleep.
    pub(crate) fn ring(&self) -> bool {
        if self.armed.take() && !self.signal() {
            self.lost.store(true, Ordering::SeqCst);
        }
        !self.lost.load(Ordering::SeqCst)
    }

    fn signal(&self) -> bool {
        match &self.bed {
            // Full is readable.
            Bed::Sockets { ringer, .. } => ringer.get().is_some_and(|fd| {
                let sent = send(fd, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
                sent.is_ok() || sent == Err(rustix::io::Errno::AGAIN)
            }),
            Bed::Bell { rung, bell } => {
                *rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
                bell.notify_one();
                true
            }
        }
    }

    /// Whether the thread is awake, or can be woken.
    pub(crate) fn is_reachable(&self) -> bool {
        let rings = match &self.bed {
            Bed::Sockets { ringer, .. } => !self.armed.is_set() || ringer.get().is_some(),
            Bed::Bell { .. } => true,
        };
        rings && !self.lost.load(Ordering::SeqCst)
    }

    /// Whether the numbers of its descriptors still are those of its own.
    pub(crate) fn is_whole(&self) -> bool {
        match &self.bed {
            Bed::Sockets { sleeper, ringer } => sleeper.get().is_some() && ringer.get().is_some(),
            Bed::Bell { .. } => true,
        }
    }

    /// Whether the thread can sleep and be woken. If not, those who hand work over and ring after that see it.
    fn can_sleep(&self) -> bool {
        if let Bed::Sockets { sleeper, .. } = &self.bed
            && sleeper.get().is_none()
        {
            self.lost.store(true, Ordering::SeqCst);
        }
        !self.lost.load(Ordering::SeqCst)
    }

    /// Before the thread looks for work for the last time and sleeps. `false`: nothing will wake it.
    pub(crate) fn arm(&self) -> bool {
        if !self.can_sleep() {
            return false;
        }
        match &self.bed {
            Bed::Sockets { sleeper, .. } => {
                let mut byte = [0];
                while sleeper.get().is_some_and(|fd| recv(fd, &mut byte, RecvFlags::DONTWAIT).is_ok()) {}
            }
            Bed::Bell { rung, .. } => *rung.lock().unwrap_or_else(PoisonError::into_inner) = false,
        }
        self.armed.set();
        true
    }

    /// Arms what is polled already. `false`: nothing will wake the thread.
    pub(crate) fn rearm(&self) -> bool {
        self.armed.set();
        self.can_sleep()
    }

    /// No thread sleeps any more.
    pub(crate) fn disarm(&self) {
        self.armed.clear();
    }

    /// Sleeps outside of a ring, until it is rung or the time has passed.
    pub(crate) fn wait(&self, timeout: Option<Span>) {
        match &self.bed {
            Bed::Sockets { sleeper, .. } => match sleeper.get() {
                Some(fd) => wait_readable(fd.as_fd(), timeout),
                None => std::thread::sleep(Duration::from_nanos(super::NAP.0)),
            },
            Bed::Bell { rung, bell } => {
                let rung = rung.lock().unwrap_or_else(PoisonError::into_inner);
                let sleeps = |rung: &mut bool| !*rung;
                match timeout {
                    None => drop(bell.wait_while(rung, sleeps)),
                    Some(span) => drop(bell.wait_timeout_while(rung, Duration::from_nanos(span.0), sleeps)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_wakes_only_a_thread_that_sleeps() {
        for wake in [CallWake::for_ring().unwrap(), CallWake::bell()] {
            assert!(wake.ring() && wake.arm() && wake.ring() && wake.ring());
            wake.wait(None);
            assert!(wake.arm(), "cleared");
            wake.wait(Some(Span::from_micros(1)));
            wake.disarm();
            assert!(wake.ring() && wake.is_reachable() && wake.is_whole());
        }
    }

    /// The number belongs to another socket afterwards, as after `closefrom`.
    #[test]
    fn a_socket_that_is_another_is_not_used() {
        let mut wake = CallWake::for_ring().unwrap();
        assert!(wake.arm());
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::NONBLOCK, None).unwrap();
        let Bed::Sockets { ringer, .. } = &mut wake.bed else { unreachable!() };
        let before = ringer.fd.replace(ours).unwrap();
        assert!(!wake.is_reachable() && !wake.ring() && !wake.is_whole());
        assert_eq!(recv(&theirs, &mut [0; 8], RecvFlags::DONTWAIT), Err(rustix::io::Errno::AGAIN));
        drop(wake);
        // It was not closed either: then this would be a connection that is refused.
        assert_eq!(recv(&theirs, &mut [0; 8], RecvFlags::DONTWAIT), Err(rustix::io::Errno::AGAIN));
        drop(before);
    }
}
