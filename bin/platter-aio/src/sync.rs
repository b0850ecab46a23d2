//! Atomics and a futex, in one place so that a model checker can replace them.

use platter_block::time::Time;
pub(crate) use std::sync::atomic::{AtomicU32, Ordering};

/// How a wait on a futex ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The number had changed, a wake-up arrived, or there was no reason.
    Perhaps,
    /// The deadline has passed.
    TimedOut,
    /// A handler of a signal has run.
    Interrupted,
}

/// A number that threads can wait on. Waiting takes no lock, so it can be done in a handler of a signal.
pub(crate) struct Futex(AtomicU32);

impl Futex {
    pub(crate) const fn new(value: u32) -> Futex {
        Futex(AtomicU32::new(value))
    }

    pub(crate) fn load(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Sleeps until woken if the number is still `seen`.
    pub(crate) fn wait(&self, seen: u32, deadline: Option<Time>) -> Woken {
        let time = deadline.map(|at| libc::timespec {
            tv_sec: (at.0 / 1_000_000_000) as libc::time_t,
            tv_nsec: (at.0 % 1_000_000_000) as libc::c_long,
        });
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // With this operation the time is a point of the monotonic clock.
        let operation = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
        let none = std::ptr::null::<u32>();
        // SAFETY: the number lives as long as `self`, and the time, if any, is on this stack.
        let result = unsafe {
            let number = self.0.as_ptr();
            libc::syscall(libc::SYS_futex, number, operation, seen, time, none, libc::FUTEX_BITSET_MATCH_ANY)
        };
        match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::ETIMEDOUT) if result != 0 => Woken::TimedOut,
            Some(libc::EINTR) if result != 0 => Woken::Interrupted,
            _ => Woken::Perhaps,
        }
    }

    /// Wakes all threads that wait.
    pub(crate) fn wake_all(&self) {
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the number lives as long as `self`.
        unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), operation, i32::MAX) };
    }
}
