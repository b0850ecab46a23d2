//! Sets up rings with the best features that the kernel supports.

use super::UringOptions;
use super::kernel::{Kernel, Setup};
use io_uring::{IoUring, opcode};
use std::fmt;
use std::io;

/// Number of regions that can be registered with each ring.
pub(super) const BUFFERS: u32 = 64;

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
