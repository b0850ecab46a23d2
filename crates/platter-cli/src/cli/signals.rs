//! SIGINT and SIGTERM ask the running verb to stop; a second one ends the process.

#![allow(unsafe_code)]

use super::Exit;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static SIGNAL: AtomicI32 = AtomicI32::new(0);

extern "C" fn on_signal(signal: libc::c_int) {
    SIGNAL.store(signal, Ordering::Relaxed);
    INTERRUPTED.store(true, Ordering::Relaxed);
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
