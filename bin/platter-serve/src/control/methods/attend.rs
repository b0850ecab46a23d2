//! Methods that trace a device, and bring it to rest.

use super::{failed, served, wrong};
use crate::control::error::RpcError;
use crate::control::params::Params;
use crate::daemon::{Daemon, quiet, report};
use crate::device_trace::MOST_BYTES;
use platter_disk::trace_output::Format;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// The formats, by their names.
const FORMATS: [(&str, Format); 2] = [("text", Format::Text), ("blktrace", Format::Blktrace)];

pub(super) fn trace(daemon: &Daemon, params: &Params) -> Result<Value, RpcError> {
    let served = served(daemon, params)?;
    let name = params.optional_text("format").unwrap_or("text");
    let Some((_, format)) = FORMATS.iter().find(|(known, _)| *known == name) else {
        return Err(wrong(format!("format is {name:?}; expected text or blktrace")));
    };
    let most = params.count("limit_bytes")?.unwrap_or(MOST_BYTES);
    if most == 0 {
        return Err(wrong("limit_bytes is 0; expected 1 or more"));
    }
    let state = served.start_trace(Path::new(params.text("file")), *format, most)?;
    Ok(report::trace(&state))
}

pub(super) fn trace_stop(daemon: &Daemon, params: &Params) -> Result<Value, RpcError> {
    let served = served(daemon, params)?;
    let none = || failed(format!("the device {:?} is not traced; device.trace begins it", served.name()));
    let state = served.stop_trace().ok_or_else(none)?;
    Ok(report::trace(&state))
}

pub(super) fn drain(daemon: &Daemon, params: &Params) -> Result<Value, RpcError> {
    let limit = params.count("timeout_ms")?.map(Duration::from_millis);
    let limit = limit.unwrap_or_else(|| daemon.stop_timeout());
    let held = quiet::drain(daemon.clients(), &served(daemon, params)?, limit)?;
    Ok(json!({ "done": true, "held_us": u64::try_from(held.as_micros()).unwrap_or(u64::MAX) }))
}
