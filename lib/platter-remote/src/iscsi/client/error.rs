//! Why a disk at a target cannot be opened.

use std::fmt;
use std::io;

/// Why a disk at a target cannot be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum IscsiError {
    /// The library that speaks the protocol is missing: a sentence that says what to install.
    Library(String),
    /// The name of the host is not known.
    Resolve(io::Error),
    /// There is no connection: what the library says.
    Connect(String),
    /// The target refuses the login: what the library says.
    Login(String),
    /// The target did not answer in time.
    Silent,
    /// The logical unit is not ready, which may pass: what it says.
    NotReady(String),
    /// The logical unit is no disk that can be used, or the options do not fit it.
    Unfit(String),
}

impl fmt::Display for IscsiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IscsiError::Resolve(error) => write!(f, "the host is not known: {error}"),
            IscsiError::Connect(why) => {
                write!(f, "no connection to the target ({why}); is it running, and is the port right?")
            }
            IscsiError::Login(why) => {
                let hint = match why {
                    why if why.contains("uthenticat") || why.contains("513") => {
                        "give user and secret as iscsi://USER%SECRET@HOST, or LIBISCSI_CHAP_USERNAME and LIBISCSI_CHAP_PASSWORD"
                    }
                    why if why.contains("uthoriz") || why.contains("514") => {
                        "it allows certain initiators only; give the name of one as initiator=NAME"
                    }
                    _ => "`platter iscsi discover HOST` lists its targets",
                };
                write!(f, "the target refuses the login ({why}); {hint}")
            }
            IscsiError::Silent => f.write_str("the target does not answer; is it an iSCSI target?"),
            IscsiError::NotReady(why) => write!(f, "the logical unit is not ready: {why}"),
            IscsiError::Library(why) | IscsiError::Unfit(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for IscsiError {}
