//! Frames that are held, and frames whose memory a device has.

use super::{FILLING, Frames, WRITING};
use std::sync::Arc;

/// A frame that the store holds: it is neither evicted nor changed until it is released. A leaked hold costs
/// the frame.
#[derive(Debug)]
pub(crate) struct Held(pub(super) u32);

impl Held {
    pub(crate) fn frame(&self) -> u32 {
        self.0
    }
}

/// The share that the bios of one I/O have in the frames. When no bio has a share any more, the driver has
/// returned all memory, whatever it reported before.
pub(crate) struct Lent {
    _frames: Arc<Frames>,
}

impl Lent {
    /// A share for a new I/O.
    pub(crate) fn of(frames: &Arc<Frames>) -> Arc<Lent> {
        Arc::new(Lent { _frames: Arc::clone(frames) })
    }
}

/// The use of lent frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loan {
    /// The device writes to them.
    Fill,
    /// The device reads from them.
    WriteBack,
}

impl Loan {
    pub(super) fn bit(self) -> u32 {
        match self {
            Loan::Fill => FILLING,
            Loan::WriteBack => WRITING,
        }
    }
}
