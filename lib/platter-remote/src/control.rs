//! The control socket of a `platter serve`: calls of its methods (docs/control.md), and where it serves a device.

mod call;
mod place;

pub use call::{Call, CallError};
pub use place::{PlaceError, place};
