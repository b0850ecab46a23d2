//! Sets up rings with the best features that the kernel supports.

use super::kernel::{Kernel, Setup};
use super::place;
use super::ring::{BUFFERS, Ring};
use io_uring::{IoUring, opcode};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

/// Options of a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UringOptions {
    /// The channel stays with the thread that uses it first: completions then do not interrupt that thread (Linux
    /// 6.1; older kernels save less). Used from another thread the channel fails all its requests with `EEXIST`.
    /// Without this option any thread may use it, one at a time.
    pub exclusive: bool,
    /// Each thread that submits waits in the channel until its requests have completed: completions then do not
    /// interrupt it (Linux 5.19). Implied by `exclusive`.
    pub waits: bool,
    /// A kernel thread submits, at the cost of a core while there is I/O; submitting takes no system call.
    pub sqpoll: bool,
    /// Completions are found by polling instead of interrupts. The device must have poll queues, and the file must be
    /// open for direct I/O.
    pub iopoll: bool,
}

/// Sets up a ring. Each variant needs a newer kernel than the next.
pub(super) fn build(kernel: &Kernel, entries: u32, options: &UringOptions) -> io::Result<(IoUring, Setup)> {
    let base = Setup { iopoll: options.iopoll, sqpoll: options.sqpoll, ..Setup::default() };
    let modern = Setup { submit_all: true, ..base };
    let own = options.exclusive && !options.sqpoll;
    let waits = options.waits && !options.sqpoll;
    let ways = [
        own.then_some(Setup { deferred: true, no_array: true, ..modern }),
        own.then_some(Setup { deferred: true, ..modern }),
        waits.then_some(Setup { cooperative: true, no_array: true, ..modern }),
        (own || waits).then_some(Setup { cooperative: true, ..modern }),
        Some(Setup { no_array: true, ..modern }),
        Some(modern),
        Some(base),
    ];
    let mut refused = io::Error::from(io::ErrorKind::InvalidInput);
    for setup in ways.into_iter().flatten() {
        match kernel.set_up(entries, setup) {
            Ok(ring) => return Ok((ring, setup)),
            // A flag that the kernel does not know, or a size that it does not accept.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => refused = error,
            Err(error) => return Err(error),
        }
    }
    Err(refused)
}

/// What the kernel's io_uring can do for a ring that belongs to one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    setup: Setup,
    /// Whether memory can be registered one region at a time (Linux 5.19).
    buffers: bool,
    /// Whether registered memory serves vectored transfers too (6.15).
    vectored: bool,
}

/// Determines what the kernel supports, and whether that is enough: waits must accept a time limit (Linux
/// 5.11).
pub(super) fn probe(kernel: &Kernel) -> io::Result<Abilities> {
    let options = UringOptions { exclusive: true, ..UringOptions::default() };
    let (ring, setup) = build(kernel, 2, &options)?;
    if !ring.params().is_feature_ext_arg() {
        let why = "io_uring_enter takes no time limit (IORING_FEAT_EXT_ARG), which came with Linux 5.11";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    if setup.deferred {
        ring.submitter().register_enable_rings()?;
    }
    // A filter may allow setting up rings and forbid their use.
    while let Err(error) = kernel.enter(|| ring.submit()) {
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(error);
        }
    }
    let buffers = ring.submitter().register_buffers_sparse(BUFFERS).is_ok();
    Ok(Abilities { setup, buffers, vectored: takes_vectors(&ring) })
}

/// Whether vectored transfers can use registered memory.
pub(super) fn takes_vectors(ring: &IoUring) -> bool {
    let mut probe = io_uring::Probe::new();
    let known = ring.submitter().register_probe(&mut probe).is_ok();
    known && probe.is_supported(opcode::ReadvFixed::CODE)
}

impl fmt::Display for Abilities {
    /// Lists the available features, then the missing ones with the kernel that introduced them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = self.setup.deferred || self.setup.cooperative;
        let all = [
            (self.setup.submit_all, "batches past bad entries", "5.18"),
            (own, "completions without interrupts", "5.19"),
            (self.setup.deferred, "deferred completions", "6.1"),
            (self.setup.no_array, "no index array", "6.6"),
            (self.buffers, "registered memory", "5.19"),
            (self.vectored, "registered vectors", "6.15"),
        ];
        let there: Vec<_> = all.iter().filter(|(has, ..)| *has).map(|(_, name, _)| *name).collect();
        let missing: Vec<_> = all
            .iter()
            .filter(|(has, ..)| !has)
            .map(|(_, name, since)| format!("{name} (Linux {since})"))
            .collect();
        f.write_str(&there.join(", "))?;
        match (there.is_empty(), missing.is_empty()) {
            (_, true) => Ok(()),
            (false, false) => write!(f, "; without {}", missing.join(", ")),
            (true, false) => write!(f, "without {}", missing.join(", ")),
        }
    }
}

impl Ring {
    /// A ring for `entries` requests at a time on `files`, which are registered in this order from 0 on.
    pub(super) fn new(
        entries: u32,
        files: &[RawFd],
        options: &UringOptions,
        kernel: Kernel,
    ) -> io::Result<Ring> {
        let (ring, setup) = build(&kernel, entries, options)?;
        let submitter = ring.submitter();
        let mut all = files.to_vec();
        let gone = match setup.deferred {
            true => {
                let (gone, held) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
                all.push(held.as_raw_fd());
                submitter.register_files(&all)?;
                Some(gone)
            }
            false => {
                submitter.register_files(&all)?;
                None
            }
        };
        let buffers = submitter.register_buffers_sparse(BUFFERS).is_ok();
        Ok(Ring {
            vectored_fixed: buffers && takes_vectors(&ring),
            kernel,
            gone,
            place: None,
            disabled: setup.deferred,
            deferred: setup.deferred,
            polled: options.iopoll,
            sqpoll: options.sqpoll,
            buffers,
            ring,
        })
    }

    /// Lets an eventfd be signalled whenever something completes.
    pub(super) fn signal(&self, eventfd: RawFd) -> bool {
        self.ring.submitter().register_eventfd(eventfd).is_ok()
    }

    /// Descriptor that is readable when a completion is posted.
    pub(super) fn raw(&self) -> RawFd {
        self.ring.as_raw_fd()
    }

    /// The ring's description by the kernel.
    pub(super) fn described(&self) -> &IoUring {
        &self.ring
    }

    /// Closes the ring. The results of requests that it still has are lost; the kernel is done with them when the
    /// returned descriptor, if any, hangs up.
    pub(super) fn close(mut self) -> Option<OwnedFd> {
        if let Some(place) = self.place.take() {
            place::leave(self.as_fd(), place);
        }
        let Ring { ring, gone, .. } = self;
        drop(ring);
        gone
    }
}
