//! Errors of calls, by the numbers of JSON-RPC.

use crate::error::ServeError;

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RpcError {
    pub(super) code: i32,
    pub(super) message: String,
}

impl RpcError {
    /// The parameters are wrong.
    pub(super) fn params(message: impl Into<String>) -> RpcError {
        RpcError { code: -32602, message: message.into() }
    }
}

impl From<ServeError> for RpcError {
    /// -32000: the request is wrong; -32001: the system or a device does not allow it.
    fn from(error: ServeError) -> RpcError {
        RpcError { code: if error.is_usage() { -32000 } else { -32001 }, message: error.to_string() }
    }
}
