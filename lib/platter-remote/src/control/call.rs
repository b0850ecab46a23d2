//! Calls of a server's control socket.

use serde_json::{Value, json};
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Largest result, in bytes.
const MAX_RESULT_BYTES: u64 = 64 << 20;

/// A connection to a server.
pub struct Call {
    stream: BufReader<UnixStream>,
    path: String,
    next: u64,
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// The server cannot be reached, or does not speak the protocol.
    Connection(String),
    /// The server has answered with an error.
    Refused {
        /// Its number; docs/control.md lists them.
        code: i64,
        /// Its message.
        message: String,
    },
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Connection(message) | CallError::Refused { message, .. } => f.write_str(message),
        }
    }
}

impl std::error::Error for CallError {}

fn is_socket(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

impl Call {
    /// Connects to the control socket at a path. `timeout` is the longest that a call may take.
    ///
    /// # Errors
    /// There is no server, or its user is another one.
    pub fn connect(path: &Path, timeout: Duration) -> Result<Call, CallError> {
        let shown = path.display().to_string();
        let cannot = |error: std::io::Error| {
            let advice = match error.kind() {
                std::io::ErrorKind::NotFound => "; start a server with this control socket",
                std::io::ErrorKind::ConnectionRefused if !is_socket(path) => "; this is not a socket",
                std::io::ErrorKind::ConnectionRefused => "; the server that made the socket is gone",
                std::io::ErrorKind::PermissionDenied => "; only the server's user and root may use it",
                _ => "",
            };
            CallError::Connection(format!("cannot connect to the control socket {shown}: {error}{advice}"))
        };
        let stream = UnixStream::connect(path).map_err(cannot)?;
        stream.set_read_timeout(Some(timeout)).map_err(cannot)?;
        stream.set_write_timeout(Some(timeout)).map_err(cannot)?;
        Ok(Call { stream: BufReader::new(stream), path: shown, next: 1 })
    }

    /// Calls a method.
    ///
    /// # Errors
    /// The connection has ended, the server takes too long, or it answers with an error.
    pub fn call(&mut self, method: &str, params: Value) -> Result<Value, CallError> {
        let id = self.next;
        self.next += 1;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let path = self.path.clone();
        let lost = move |why: String| {
            CallError::Connection(format!("the server at {path} has not answered {method}: {why}"))
        };
        let sent = self.stream.get_mut().write_all(format!("{request}\n").as_bytes());
        // A server that refuses a connection says why before it closes it.
        let is_closed = sent.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe);
        if !is_closed {
            sent.as_ref().map_err(|error| lost(error.to_string()))?;
        }
        let mut line = Vec::new();
        let read = (&mut self.stream).take(MAX_RESULT_BYTES).read_until(b'\n', &mut line);
        if line.is_empty() {
            sent.and(read.map(drop)).map_err(|error| lost(error.to_string()))?;
        } else {
            read.map_err(|error| lost(error.to_string()))?;
        }
        if !line.ends_with(b"\n") {
            return Err(lost("the connection has ended".to_owned()));
        }
        let mut response: Value = serde_json::from_slice(&line).map_err(|error| lost(error.to_string()))?;
        if let Some(error) = response.get("error") {
            let code = error.get("code").and_then(Value::as_i64).unwrap_or(0);
            let message = error.get("message").and_then(Value::as_str).unwrap_or("no message").to_owned();
            return Err(CallError::Refused { code, message });
        }
        if response.get("id").and_then(Value::as_u64) != Some(id) {
            return Err(lost("the answer belongs to another call".to_owned()));
        }
        Ok(response["result"].take())
    }
}
