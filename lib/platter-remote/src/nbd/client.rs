//! A client of the Network Block Device protocol, as a disk.
//!
//! A channel is a connection. There is no thread: the thread that runs a channel sends the requests of a batch with one
//! call, out of the memory of the bios, and receives replies straight into it.
//!
//! - `channel`: the driver: requests to the socket, replies from it, and what happens when the connection is lost.
//! - `slots`, `memory`, `ranges`: requests that have not been answered.
//! - `attempt`, `socket`: connecting and negotiating; `secure`: encryption.
//! - `disk`: the disk, its limits, and questions that go over a connection of their own.

mod attempt;
mod channel;
mod disk;
mod error;
mod memory;
mod options;
mod ranges;
#[cfg(feature = "tls")]
mod secure;
mod shared;
mod slots;
mod socket;
mod status;

pub use disk::{NbdDisk, list};
pub use error::NbdError;
pub use options::NbdOptions;
