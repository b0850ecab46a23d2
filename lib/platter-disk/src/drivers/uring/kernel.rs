//! The system calls of a ring, in one place so that tests can answer some of them instead of the kernel.

use io_uring::{Builder, IoUring};
use std::io;

/// Features that a ring is set up with, besides its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Setup {
    /// A bad entry does not prevent the submission of those behind it (Linux 5.18).
    pub(super) submit_all: bool,
    /// Completions do not interrupt the submitting thread (5.19).
    pub(super) cooperative: bool,
    /// Completions are posted when the only thread that uses the ring enters the kernel for them (6.1).
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
            // Disabled at first: the ring belongs to the thread that enables it.
            builder.setup_single_issuer().setup_defer_taskrun().setup_r_disabled();
        }
        if self.cooperative || self.deferred {
            // Avoids entries into the kernel when there is nothing to post.
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

/// The kernel's answers in tests.
#[cfg(test)]
#[derive(Default)]
pub(super) struct Script {
    /// Errors of the next entries into the kernel, `0` for a real entry. After the list all entries are real.
    pub(super) entries: std::collections::VecDeque<i32>,
    /// Number of entries answered from the script.
    pub(super) answered: usize,
    /// Setups that are refused with `EINVAL`.
    pub(super) refuses: Option<fn(&Setup) -> bool>,
}

impl Kernel {
    /// Sets up a ring.
    pub(super) fn set_up(&self, entries: u32, setup: Setup) -> io::Result<IoUring> {
        #[cfg(test)]
        if self.script.lock().unwrap().refuses.is_some_and(|refuses| refuses(&setup)) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let mut builder = IoUring::builder();
        setup.apply(&mut builder);
        builder.build(entries)
    }

    /// Enters the kernel.
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
