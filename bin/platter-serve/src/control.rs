//! The control socket: JSON-RPC 2.0 over a Unix socket, one object per line.
//!
//! The socket has mode 0600, and only the user of the server and root may use it (the credentials of the peer are
//! checked). [`METHODS`] is the table of methods; docs/control.md describes them. What a connection may cost is bounded:
//! [`MAX_CONNECTIONS`] connections, lines of up to [`MAX_LINE_BYTES`] bytes, and [`WRITE_TIMEOUT`] until a result must
//! have been read.

mod error;
mod listener;
mod methods;
mod params;
mod rpc;

pub use listener::{Control, Hears, MAX_CONNECTIONS, MAX_LINE_BYTES, WRITE_TIMEOUT};
pub use methods::{METHODS, Method, PROTOCOL};
pub use params::ParamDoc;
pub use platter_remote::control::{Call, CallError};
pub use rpc::{Heard, answer};
