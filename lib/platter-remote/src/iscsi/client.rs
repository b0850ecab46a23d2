//! An initiator: a disk at an iSCSI target.
//!
//! The library libiscsi speaks the protocol. It is loaded when the first disk is opened. A channel is a session with one
//! connection, and there is no thread: the thread that runs a channel gives the library commands and lets it send and receive,
//! out of the memory of the bios and into it. What is done when a connection is lost is decided here and not by the library
//! (record `2026-11-25-iscsi-initiator`).
//!
//! - `library`, `session`, `buffers`: the library, and a session of it as a safe type;
//! - `channel`: the driver: commands to the session, answers from it, and what happens when it ends;
//! - `verdict`: what answers mean; `platter_scsi::host` makes the commands and reads the answers;
//! - `attempt`: connecting, logging in, and asking the logical unit;
//! - `watch`: which sessions have ended, for the flushes of others;
//! - `disk`, `discover`: the disk; targets and logical units.

mod attempt;
mod channel;
mod discover;
mod disk;
mod error;
mod library;
mod options;
mod session;
mod shared;
mod terms;
mod url;
mod verdict;
mod watch;

pub use discover::{Unit, luns, targets, unit};
pub use disk::IscsiDisk;
pub use error::IscsiError;
pub use options::IscsiOptions;
pub use session::Target;
pub use terms::Digest;
pub use url::{Account, BadUrl, Portal, Url};
