//! Options of an I/O.

use platter_block::bio::{Flags, IoPrio};
use platter_block::time::Span;

/// Options of an I/O. The future of a read of cached data ends at once, and uses none of them but flags.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct IoOptions {
    /// Flags, such as [`Flags::FUA`] or [`Flags::HARD_BARRIER`].
    pub flags: Flags,
    /// Priority.
    pub ioprio: IoPrio,
    /// The context on whose behalf it runs, for fair elevators.
    pub context: platter_block::bio::Context,
    /// The longest time from submission to the end of the I/O, in the time of the device's clock; afterwards it fails
    /// with [`Kind::TimedOut`](platter_block::fault::Kind::TimedOut). A write that fails so may still be carried out. `None`: only the device's own timeout
    /// applies, if it has one.
    pub timeout: Option<Span>,
}

platter_block::setters! {
    const IoOptions {
        flags, with_flags: Flags;
        ioprio, with_ioprio: IoPrio;
        context, with_context: platter_block::bio::Context;
        timeout, with_timeout: Option<Span>;
    }
}

impl IoOptions {
    /// Options with only these flags.
    pub fn flags(flags: Flags) -> IoOptions {
        IoOptions { flags, ..IoOptions::default() }
    }

    /// Options with only this timeout.
    ///
    /// ```
    /// # use platter_disk::sync_io::IoOptions;
    /// let options = IoOptions::timeout(std::time::Duration::from_millis(500));
    /// assert_eq!(options.timeout.map(|span| span.as_millis()), Some(500));
    /// ```
    pub fn timeout(timeout: impl Into<Span>) -> IoOptions {
        IoOptions { timeout: Some(timeout.into()), ..IoOptions::default() }
    }
}
