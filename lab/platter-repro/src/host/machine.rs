//! A machine: its processors, adapters and disks. Disks stream ahead of the adapters.

use platter_block::time::Span;

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
}
