//! What is to be done on a device for a command.
//!
//! A command becomes a list of steps, which its caller carries out in order up to the first that fails, moving bulk data
//! between the device and the memory of the initiator without a copy here.

use platter_block::fault::Kind;

/// What is to be done with a range of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read into the data-in, from this offset on.
    Read {
        /// Offset in the data-in.
        at: u64,
    },
    /// Read and forget the data.
    Verify,
    /// Read and compare with the data-out; the first byte that differs goes to [`StepError::Miscompare`].
    Compare {
        /// Offset in the data-out.
        at: u64,
    },
    /// Write from the data-out.
    Write {
        /// Offset in the data-out.
        at: u64,
        /// The data must be durable on completion.
        fua: bool,
    },
    /// Write the first `block` bytes of the data-out again and again.
    Fill {
        /// Length of the pattern in bytes.
        block: u64,
    },
    /// Let the range read as zeroes.
    WriteZeroes,
    /// The contents are no longer needed.
    Discard,
    /// Make all that was written durable. The range is the one that the initiator named.
    Flush,
}

/// A step of a command on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is to be done.
    pub action: Action,
    /// Offset on the device in bytes.
    pub pos: u64,
    /// Length in bytes.
    pub len: u64,
}

/// Why a step did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepError {
    /// The device reported a fault of this kind, at this offset on the device.
    Device {
        /// The kind.
        kind: Kind,
        /// Offset on the device in bytes, of the first byte that was not transferred if that is known.
        pos: u64,
    },
    /// The data differs.
    Miscompare {
        /// Offset of the first byte that differs in the data-out.
        at: u64,
    },
}
