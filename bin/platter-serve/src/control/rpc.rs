//! Requests and responses of JSON-RPC 2.0 (<https://www.jsonrpc.org/specification>).

use super::error::RpcError;
use super::methods::METHODS;
use super::params::Params;
use crate::daemon::Daemon;
use platter::spec::{closest, conceal};
use platter_block::text::excerpt;
use serde_json::{Map, Value, json};

/// What the control socket has heard, for the log.
#[non_exhaustive]
pub enum Heard<'a> {
    /// A connection was refused.
    Refused(&'a str),
    /// A call that may change something.
    Call {
        /// The user of the peer.
        uid: u32,
        /// Its process when it connected.
        pid: i32,
        /// The method.
        method: &'static str,
        /// The parameters, without those that may hold a secret.
        params: &'a Map<String, Value>,
        /// Why it was refused.
        error: Option<&'a str>,
    },
}

/// Methods that change nothing.
const READS: &[&str] = &[
    "server.info",
    "server.methods",
    "server.status",
    "server.health",
    "device.list",
    "device.stats",
    "device.params",
    "device.layers",
    "export.list",
    "client.list",
];

/// A parameter that the log does not show: a spec may hold the secret of a disk.
const UNSHOWN: &str = "spec";

/// Answers one line. `None`: it was a notification, which has no answer.
pub fn answer(daemon: &Daemon, line: &[u8]) -> Option<Value> {
    answer_to(daemon, line, &|_, _, _| {})
}

/// What is told of a call that may change something: its method, its parameters, and why it was refused.
pub(super) type Audit<'a> = dyn Fn(&'static str, &Map<String, Value>, Option<&str>) + 'a;

/// Answers one line of a peer.
pub(super) fn answer_to(daemon: &Daemon, line: &[u8], audit: &Audit<'_>) -> Option<Value> {
    let wrong = |id: Value, error: RpcError| json!({ "jsonrpc": "2.0", "id": id, "error": { "code": error.code, "message": error.message } });
    let request: Value = match serde_json::from_slice(line) {
        Ok(request) => request,
        Err(error) => {
            let message = format!("the line is not JSON: {error}");
            return Some(wrong(Value::Null, RpcError { code: -32700, message }));
        }
    };
    let (id, method, params) = match parts(request) {
        Ok(parts) => parts,
        Err((id, message)) => return Some(wrong(id, RpcError { code: -32600, message })),
    };
    let result = call(daemon, &method, params, audit);
    let id = id?;
    Some(match result {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(error) => wrong(id, error),
    })
}

/// The number, method and parameters of a request.
type Parts = (Option<Value>, String, Map<String, Value>);

fn parts(request: Value) -> Result<Parts, (Value, String)> {
    let Value::Object(mut object) = request else {
        return Err((Value::Null, "a request is an object; batches are not supported".to_owned()));
    };
    let id = object.remove("id");
    let told = match &id {
        None | Some(Value::Null | Value::Number(_) | Value::String(_)) => id.clone().unwrap_or(Value::Null),
        Some(_) => return Err((Value::Null, "id is neither a number nor text nor null".to_owned())),
    };
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err((told, "jsonrpc is not \"2.0\"".to_owned()));
    }
    let Some(Value::String(method)) = object.remove("method") else {
        return Err((told, "method is missing or no text".to_owned()));
    };
    match object.remove("params") {
        None => Ok((id, method, Map::new())),
        Some(Value::Object(params)) => Ok((id, method, params)),
        Some(_) => Err((told, "params is not an object; parameters have names".to_owned())),
    }
}

fn call(
    daemon: &Daemon,
    name: &str,
    params: Map<String, Value>,
    audit: &Audit<'_>,
) -> Result<Value, RpcError> {
    let Some(method) = METHODS.iter().find(|method| method.name == name) else {
        let advice = match closest(name, METHODS.iter().map(|method| method.name)) {
            Some(near) => format!("did you mean {near}?"),
            None => "the method server.methods lists them".to_owned(),
        };
        let message = format!("there is no method {}; {advice}", excerpt(name, 60));
        return Err(RpcError { code: -32601, message });
    };
    let params = Params::new(params, method.params)?;
    let result = (method.run)(daemon, &params);
    if !READS.contains(&method.name) {
        let mut shown = params.into_given();
        shown.remove(UNSHOWN);
        // Any text may have a URI with a secret in it.
        for value in shown.values_mut() {
            if let Value::String(text) = value {
                *text = conceal(text).into_owned();
            }
        }
        audit(method.name, &shown, result.as_ref().err().map(|error| error.message.as_str()));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_nothing_is_a_method() {
        for name in READS {
            assert!(METHODS.iter().any(|method| method.name == *name), "{name}");
        }
    }
}
