//! Opens and closes channels.

use super::kernel::Kernel;
use super::regions::Regions;
use super::ring::{Ring, files};
use super::{Abilities, Pending, Uring, UringOptions, setup};
use crate::drivers::file_target::Target;
use crate::drivers::pause::Pause;
use crate::drivers::side::Side;
use crate::drivers::threads::Workers;
use platter_block::driver::Driver;
use std::io;
use std::sync::{Arc, OnceLock};

/// Whether this process can set up a ring with the required features, and what else the kernel supports.
pub(in crate::drivers) fn probe() -> io::Result<Abilities> {
    setup::probe(&Kernel::default())
}

impl Uring {
    /// A channel to `target` that takes `depth` requests at a time.
    ///
    /// # Errors
    /// The kernel's error: `ENOSYS` if it has no io_uring, `EPERM` if that is forbidden, `ENOMEM` if the limit on
    /// locked memory is used up, `EINVAL` for a depth above 16384 or an unknown option.
    pub(in crate::drivers) fn new(
        target: Arc<Target>,
        depth: u32,
        options: UringOptions,
        workers: Arc<Workers>,
    ) -> io::Result<Uring> {
        Uring::on(Kernel::default(), target, depth, options, workers)
    }

    pub(super) fn on(
        kernel: Kernel,
        target: Arc<Target>,
        depth: u32,
        options: UringOptions,
        workers: Arc<Workers>,
    ) -> io::Result<Uring> {
        let depth = depth.max(1);
        // Room for the listener and a note.
        let ring = Ring::new(depth + 2, &files(&target), &options, kernel)?;
        Ok(Uring {
            side: Side::new(Arc::clone(&target), depth, workers),
            regions: Regions::new(ring.vectored_fixed),
            ring: Some(ring),
            dead: None,
            target,
            requests: (0..depth).map(|_| Pending::default()).collect(),
            taken: 0,
            depth,
            pushed: 0,
            seen: OnceLock::new(),
            ready: Vec::with_capacity(depth as usize),
            iopoll: options.iopoll,
            held: 0,
            owed: false,
            pause: Pause::default(),
            is_watched: false,
        })
    }
}

impl Drop for Uring {
    /// Waits until the kernel is done with all requests. It waits for their completions, not for the end of the ring,
    /// because a child process that was forked in the meantime keeps the ring for as long as it lives. Only if the
    /// completions are deferred to another thread is there nothing else to wait for.
    fn drop(&mut self) {
        let mut done = Vec::new();
        while self.taken > 0 {
            let now = crate::clock::now();
            self.wait(now, None);
            self.reap(now, &mut done);
        }
    }
}
