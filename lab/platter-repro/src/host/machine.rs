//! A machine: its processors, adapters and disks. Disks stream ahead of the adapters.

use platter_block::time::Span;
use platter_sim::host::{Contention, Grant};

/// A machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    pub(crate) processors: usize,
    pub(crate) adapters: usize,
    /// Disks, on the adapters in turn.
    pub(crate) disks: usize,
    /// Time of a command on an adapter.
    pub(crate) command: Span,
    /// Time of a KiB on an adapter.
    pub(crate) kib: Span,
    pub(crate) contention: Contention,
}

/// Of Pentium III of 700 MHz: McKenney, Exploiting Deferred Destruction, 2004, from notes that repeat its table. A compare-and-exchange with
/// transfer and invalidation of the cache line takes 360.9 ns there: one for the release of a contended lock and one for its acquisition. An
/// atomic increment with the transfer takes 113.2 ns: one for each other spinner, which reads the line again.
pub(crate) const PENTIUM_III: Contention =
    Contention { grant: Grant::Random, hand_over: Span(722), per_spinner: Span(113) };
