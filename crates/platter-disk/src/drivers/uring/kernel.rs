//! The system calls of a ring, in one place, so that tests can answer some of them instead of the kernel.

use io_uring::{Builder, IoUring};
use std::io;

/// What a ring is set up with, beyond its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Setup {
    /// A bad entry does not keep those behind it from being submitted (Linux 5.18).
    pub(super) submit_all: bool,
    /// Completions do not interrupt the thread that submitted (5.19).
    pub(super) cooperative: bool,
    /// Completions are posted when the one thread that uses the ring enters the kernel for them (6.1).
    pub(super) deferred: bool,
    /// Entries are submitted in the order of the ring, without an array of indices (6.6).
    pub(super) no_array: bool,
    pub(super) iopoll: bool,
    pub(super) sqpoll: bool,
}

/// Milliseconds until the kernel's submission thread goes to sleep.
const SQPOLL_IDLE_MS: u32 = 50;

impl Setup {
    fn apply(self, builder: &mut Builder) {
        if self.submit_all {
            builder.setup_submit_all();
        }
        if self.cooperative {
            builder.setup_coop_taskrun();
        }
        if self.deferred {
            // Disabled at first: the thread that enables the ring is the one that it belongs to.
            builder.setup_single_issuer().setup_defer_taskrun().setup_r_disabled();
        }
        if self.cooperative || self.deferred {
            // Saves entries when there is nothing to post.
            builder.setup_taskrun_flag();
        }
        if self.no_array {
            builder.setup_no_sqarray();
        }
        if self.iopoll {
            builder.setup_iopoll();
        }
        if self.sqpoll {
            builder.setup_sqpoll(SQPOLL_IDLE_MS);
        }
    }
}

/// The kernel.
#[derive(Clone, Default)]
pub(super) struct Kernel {
    #[cfg(test)]
    pub(super) script: std::sync::Arc<std::sync::Mutex<Script>>,
}

/// What tests have the kernel answer.
#[cfg(test)]
#[derive(Default)]
pub(super) struct Script {
    /// Errors of the next entries into the kernel, `0` for one that is made. Afterwards all are.
    pub(super) entries: std::collections::VecDeque<i32>,
    /// Entries that were answered from the script.
    pub(super) answered: usize,
    /// Set-ups that are refused with `EINVAL`.
    pub(super) refuses: Option<fn(&Setup) -> bool>,
}

impl Kernel {
    /// Sets a ring up.
    pub(super) fn set_up(&self, entries: u32, setup: Setup) -> io::Result<IoUring> {
        #[cfg(test)]
        if self.script.lock().unwrap().refuses.is_some_and(|refuses| refuses(&setup)) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let mut builder = IoUring::builder();
        setup.apply(&mut builder);
        builder.build(entries)
    }

    /// Makes an entry into the kernel.
    #[inline]
    pub(super) fn enter(&self, enter: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        #[cfg(test)]
        {
            let mut script = self.script.lock().unwrap();
            if let Some(errno) = script.entries.pop_front() {
                script.answered += 1;
                if errno != 0 {
                    return Err(io::Error::from_raw_os_error(errno));
                }
            }
        }
        enter()
    }
}
