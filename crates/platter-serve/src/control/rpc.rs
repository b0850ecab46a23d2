//! Requests and responses of JSON-RPC 2.0 (<https://www.jsonrpc.org/specification>).

use super::error::RpcError;
use super::methods::METHODS;
use super::params::Params;
use crate::daemon::Daemon;
use platter::spec::closest;
use platter_block::planted::{self, Planted};
use platter_block::text::excerpt;
use serde_json::{Map, Value, json};

/// Answers one line. `None`: it was a notification, which has no answer.
pub fn answer(daemon: &Daemon, line: &[u8]) -> Option<Value> {
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
    let result = call(daemon, &method, params);
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

fn call(daemon: &Daemon, name: &str, params: Map<String, Value>) -> Result<Value, RpcError> {
    let Some(method) = METHODS.iter().find(|method| method.name == name) else {
        let advice = match closest(name, METHODS.iter().map(|method| method.name)) {
            Some(near) => format!("did you mean {near}?"),
            None => "the method server.methods lists them".to_owned(),
        };
        let shown = if planted::is_on(Planted::ControlName) { name.to_owned() } else { excerpt(name, 60) };
        let message = format!("there is no method {shown}; {advice}");
        return Err(RpcError { code: -32601, message });
    };
    (method.run)(daemon, &Params::new(params, method.params)?)
}
