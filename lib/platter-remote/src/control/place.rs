//! Where a running server serves a device.

use super::{Call, CallError};
use crate::nbd::uri::Uri;
use platter_block::text::excerpt;
use serde_json::{Value, json};
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// Longest name in a message, in characters.
const MOST_SHOWN: usize = 60;

/// Why a device of a server cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlaceError {
    /// The control socket does not answer.
    Server(CallError),
    /// The server has no such device, or none was named and it has several.
    Device(String),
    /// The server has no NBD export at a Unix socket.
    Export(String),
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaceError::Server(error) => error.fmt(f),
            PlaceError::Device(message) | PlaceError::Export(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for PlaceError {}

/// Where the server with the control socket at `control` serves a device: its first NBD export at a Unix socket.
/// `None`: its only device. `timeout` is the longest that each of two calls may take.
///
/// # Errors
/// There is no such server, device or export.
pub fn place(control: &Path, device: Option<&str>, timeout: Duration) -> Result<Uri, PlaceError> {
    let mut server = Call::connect(control, timeout).map_err(PlaceError::Server)?;
    let shown = control.display().to_string();
    let devices = server.call("device.list", json!({})).map_err(PlaceError::Server)?;
    let name = choose(&shown, &texts(&devices, "name"), device)?;
    let exports = server.call("export.list", json!({})).map_err(PlaceError::Server)?;
    Ok(Uri::unix(socket(&shown, &exports)?, &name))
}

/// The device to take, of those that there are.
fn choose(server: &str, names: &[&str], device: Option<&str>) -> Result<String, PlaceError> {
    let list = || names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    match (device, names) {
        (Some(device), _) if names.contains(&device) => Ok(device.to_owned()),
        (None, [only]) => Ok((*only).to_owned()),
        (_, []) => Err(PlaceError::Device(format!("the server at {server} has no devices"))),
        (Some(device), _) => {
            let device = excerpt(device, MOST_SHOWN);
            let message = format!("the server at {server} has no device {device:?}; it has {}", list());
            Err(PlaceError::Device(message))
        }
        (None, _) => {
            let message = format!("the server at {server} has several devices: name one of {}", list());
            Err(PlaceError::Device(message))
        }
    }
}

/// The path of the first Unix socket at which NBD is served.
fn socket(server: &str, exports: &Value) -> Result<String, PlaceError> {
    let all = exports.as_array().map_or(&[][..], Vec::as_slice);
    let nbd = all.iter().filter(|export| export["kind"] == "nbd");
    let mut paths = nbd.filter_map(|export| export["address"].as_str()?.strip_prefix("unix:"));
    if let Some(path) = paths.next() {
        return Ok(path.to_owned());
    }
    let others: Vec<String> = all
        .iter()
        .filter_map(|export| Some(format!("{} {}", export["kind"].as_str()?, export["address"].as_str()?)))
        .collect();
    let others = if others.is_empty() { "none".to_owned() } else { others.join(", ") };
    Err(PlaceError::Export(format!(
        "the server at {server} has no NBD export at a Unix socket (its exports: {others}); add one with \
         `platter ctl {server} export.add export=NAME kind=nbd address=unix:PATH`"
    )))
}

/// The texts of a key of each object in a list.
fn texts<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
    list.as_array().into_iter().flatten().filter_map(|object| object[key].as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_chosen_by_name_or_because_it_is_the_only_one() {
        assert_eq!(choose("s", &["a", "b"], Some("b")).as_deref(), Ok("b"));
        assert_eq!(choose("s", &["a"], None).as_deref(), Ok("a"));
        assert_eq!(choose("s", &[""], None).as_deref(), Ok(""), "a server's only device needs no name");
        for (names, device, part) in [
            (&["a", "b"][..], None, "\"a\", \"b\""),
            (&["a"], Some("c"), "no device \"c\""),
            (&[], None, "no devices"),
        ] {
            let error = choose("s", names, device).unwrap_err();
            assert!(matches!(&error, PlaceError::Device(message) if message.contains(part)), "{error}");
        }
    }

    #[test]
    fn the_first_nbd_export_at_a_unix_socket_is_taken() {
        let fuse = json!({ "kind": "fuse", "address": "unix:/no" });
        let tcp = json!({ "kind": "nbd", "address": "127.0.0.1:10809" });
        let unix = json!({ "kind": "nbd", "address": "unix:/run/s" });
        assert_eq!(socket("s", &json!([fuse, tcp, unix])).as_deref(), Ok("/run/s"));
        let error = socket("s", &json!([fuse, tcp])).unwrap_err().to_string();
        assert!(error.contains("nbd 127.0.0.1:10809") && error.contains("export.add"), "{error}");
        for odd in [json!([]), json!({}), json!(null), json!([1, { "kind": "nbd", "address": 7 }])] {
            assert!(matches!(socket("s", &odd), Err(PlaceError::Export(_))), "{odd}");
        }
    }
}
