//! SIGINT and SIGTERM ask the running verb to stop; a second one ends the process.

#![allow(unsafe_code)]

use super::Exit;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

/// How often to look for a signal if there is no descriptor to sleep on.
const POLL: Duration = Duration::from_millis(100);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// The eventfd that the handler signals, once there is one. It is never closed.
static WAKE: AtomicI32 = AtomicI32::new(-1);

extern "C" fn on_signal(signal: libc::c_int) {
    SIGNAL.store(signal, Ordering::Relaxed);
    INTERRUPTED.store(true, Ordering::SeqCst);
    let wake = WAKE.load(Ordering::SeqCst);
    if wake >= 0 {
        let one = 1u64;
        // SAFETY: write(2) is safe in a signal handler, the descriptor is never closed, and the eight bytes are on this
        // stack. The handler must not change the errno of the thread that it interrupted.
        unsafe {
            let errno = *libc::__errno_location();
            libc::write(wake, (&raw const one).cast(), size_of::<u64>());
            *libc::__errno_location() = errno;
        }
    }
}

/// Sleeps until the first signal.
pub(super) fn wait() {
    let eventfd = eventfd(0, EventfdFlags::CLOEXEC);
    if let Ok(fd) = &eventfd {
        WAKE.store(fd.as_raw_fd(), Ordering::SeqCst);
    }
    while !INTERRUPTED.load(Ordering::SeqCst) {
        match &eventfd {
            // Read errors are an interruption by another signal.
            Ok(fd) => drop(rustix::io::read(fd, &mut [0u8; 8])),
            // Without a free descriptor the flag is looked at from time to time.
            Err(_) => std::thread::sleep(POLL),
        }
    }
    // The handler may still use the number.
    std::mem::forget(eventfd);
}

/// Installs the handler; the flag it returns is set by the first signal.
pub(super) fn install() -> &'static AtomicBool {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: an all-zero sigaction is a valid value.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // RESETHAND: after the first one the default action is back, which ends the process.
        action.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
        // SAFETY: the handler only stores to atomics, which is safe at any time; the old action is not
        // requested. This fails only for signals that cannot be caught.
        unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    }
    &INTERRUPTED
}

/// The exit status that the signal means.
pub(super) fn exit() -> Exit {
    if SIGNAL.load(Ordering::Relaxed) == libc::SIGTERM { Exit::Terminated } else { Exit::Interrupted }
}
