//! Why a remote disk cannot be opened.

use crate::nbd::handshake::HandshakeError;
use std::fmt;
use std::io;

/// Why a remote disk cannot be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum NbdError {
    /// No connection to the server.
    Connect(io::Error),
    /// The negotiation failed.
    Handshake(HandshakeError),
    /// A certificate is not accepted, or TLS failed in another way: a sentence that says what to do.
    Tls(String),
    /// The server did not answer in time.
    Silent,
    /// The options do not fit the server.
    Unfit(String),
}

impl fmt::Display for NbdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NbdError::Connect(error) => write!(f, "no connection to the server: {error}"),
            NbdError::Handshake(error) => error.fmt(f),
            NbdError::Silent => {
                f.write_str("the server does not answer; is it an NBD server, and has it a free connection?")
            }
            NbdError::Tls(why) | NbdError::Unfit(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for NbdError {}

impl From<HandshakeError> for NbdError {
    fn from(error: HandshakeError) -> NbdError {
        NbdError::Handshake(error)
    }
}

impl From<io::Error> for NbdError {
    fn from(error: io::Error) -> NbdError {
        match error.kind() {
            // Only the encryption finds data wrong.
            io::ErrorKind::InvalidData => NbdError::Tls(error.to_string()),
            _ => NbdError::Connect(error),
        }
    }
}
