//! The parameters of a call, checked against the table of the method.

use super::error::RpcError;
use crate::qos::{ClientLimits, DeviceLimits};
use platter::spec::closest;
use platter_block::text::excerpt;
use platter_block::time::Span;
use serde_json::{Map, Value};

/// A parameter of a method.
pub struct ParamDoc {
    /// Its name.
    pub name: &'static str,
    /// What it is: `text`, `integer`, `quantity` (an integer, or a text such as `10s` with a unit) or `switch`.
    pub kind: &'static str,
    /// Whether the call needs it.
    pub required: bool,
    /// One line.
    pub help: &'static str,
}

/// The parameters of one call.
pub(super) struct Params(Map<String, Value>);

/// Longest piece of a value in a message, in characters.
const MOST_SHOWN: usize = 60;

impl Params {
    /// As they were given.
    pub(super) fn into_given(self) -> Map<String, Value> {
        self.0
    }

    /// Checks names and kinds.
    pub(super) fn new(given: Map<String, Value>, known: &'static [ParamDoc]) -> Result<Params, RpcError> {
        for (name, value) in &given {
            let names = known.iter().map(|param| param.name);
            let Some(param) = known.iter().find(|param| param.name == name) else {
                let shown = excerpt(name, MOST_SHOWN);
                let advice = match closest(name, names.clone()) {
                    Some(near) => format!("did you mean {near}?"),
                    None if known.is_empty() => "the method has none".to_owned(),
                    None => format!("there are {}", names.collect::<Vec<_>>().join(", ")),
                };
                return Err(RpcError::params(format!("there is no parameter {shown}; {advice}")));
            };
            let fits = match param.kind {
                "integer" => is_integer(value),
                "quantity" => is_integer(value) || is_text(value),
                "switch" => value.is_boolean(),
                _ => is_text(value),
            };
            if !fits {
                let value = excerpt(&value.to_string(), MOST_SHOWN);
                return Err(RpcError::params(format!(
                    "{name} is {value}; expected {}",
                    expected(param.kind)
                )));
            }
        }
        match known.iter().find(|param| param.required && !given.contains_key(param.name)) {
            Some(missing) => Err(RpcError::params(format!("{} is missing: {}", missing.name, missing.help))),
            None => Ok(Params(given)),
        }
    }

    pub(super) fn optional_text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// A text that the table requires.
    pub(super) fn text(&self, name: &str) -> &str {
        self.optional_text(name).unwrap_or_default()
    }

    pub(super) fn switch(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(super) fn integer(&self, name: &str) -> Option<i64> {
        self.0.get(name).and_then(Value::as_i64)
    }

    /// An integer from 0.
    pub(super) fn count(&self, name: &str) -> Result<Option<u64>, RpcError> {
        let wrong = |value: &Value| RpcError::params(format!("{name} is {value}; expected 0 or more"));
        self.0.get(name).map(|value| value.as_u64().ok_or_else(|| wrong(value))).transpose()
    }

    fn count32(&self, name: &str) -> Result<Option<u32>, RpcError> {
        let count = self.count(name)?;
        let wrong =
            |count: u64| RpcError::params(format!("{name} is {count}; expected at most {}", u32::MAX));
        count.map(|count| u32::try_from(count).map_err(|_| wrong(count))).transpose()
    }

    fn burst(&self) -> Result<Option<Span>, RpcError> {
        Ok(self.count("burst_us")?.map(Span::from_micros))
    }

    /// The limits of a device, with those that are given.
    pub(super) fn device_limits(&self, now: DeviceLimits) -> Result<DeviceLimits, RpcError> {
        Ok(DeviceLimits {
            iops: self.count("iops")?.unwrap_or(now.iops),
            bandwidth: self.count("bandwidth_bytes_per_second")?.unwrap_or(now.bandwidth),
            burst: self.burst()?.unwrap_or(now.burst),
            depth: self.count32("depth")?.unwrap_or(now.depth),
        })
    }

    /// The limits of a client, with those that are given.
    pub(super) fn client_limits(&self, now: ClientLimits) -> Result<ClientLimits, RpcError> {
        Ok(ClientLimits {
            iops: self.count("iops")?.unwrap_or(now.iops),
            bandwidth: self.count("bandwidth_bytes_per_second")?.unwrap_or(now.bandwidth),
            burst: self.burst()?.unwrap_or(now.burst),
            weight: self.count32("weight")?.unwrap_or(now.weight),
        })
    }
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64()
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.chars().any(char::is_control))
}

fn expected(kind: &str) -> &'static str {
    match kind {
        "integer" => "an integer",
        "quantity" => "an integer, or a number with a unit as text",
        "switch" => "true or false",
        _ => "text without control characters",
    }
}
