//! Why a measurement failed.

use platter_block::fault;
use platter_disk::pool::BadPool;
use platter_remote::nbd::client::NbdError;
use platter_serve::error::ServeError;

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NbdBenchError {
    /// An option is invalid; the message has the allowed values.
    #[error("{0}")]
    Option(String),
    /// An option does not fit the device.
    #[error("{0}")]
    Unfit(String),
    /// A request failed.
    #[error(transparent)]
    Device(#[from] fault::Error),
    /// A buffer could not be had.
    #[error("{0}; lower --block or --depth")]
    Buffer(#[from] BadPool),
    /// The server did not start.
    #[error("the server: {0}")]
    Server(#[from] ServeError),
    /// The server did not stop.
    #[error("the server does not stop: {0}")]
    Stuck(String),
    /// The client could not connect.
    #[error("the client: {0}")]
    Client(#[from] NbdError),
    /// The system gave no thread, no clock or no folder for the socket.
    #[error("the system refuses {what}: {error}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// Its error.
        error: std::io::Error,
    },
    /// It was interrupted before anything was measured.
    #[error("interrupted before anything was measured")]
    Interrupted,
}
