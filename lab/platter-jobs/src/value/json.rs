//! Values that are words or objects in JSON.

use super::{Access, Amount, DIRECTIONS, Distribution, Steady, Three};
use crate::engine::Engine;
use serde::{Serialize, Serializer};
use serde_json::json;

/// An object with the values of the directions.
pub(crate) fn three<T: Serialize, S: Serializer>(all: &Three<T>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(DIRECTIONS.iter().zip(all))
}

impl Serialize for Amount {
    /// Bytes as a number, others as text: `"50%"`, `"2z"`.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bytes(bytes) => to.serialize_u64(*bytes),
            Self::Percent(percent) => to.collect_str(&format_args!("{percent}%")),
            Self::Zones(zones) => to.collect_str(&format_args!("{zones}z")),
        }
    }
}

impl Serialize for Access {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.modifier {
            Some(modifier) => to.collect_str(&format_args!("{}:{modifier}", self.word)),
            None => to.serialize_str(self.word),
        }
    }
}

impl Serialize for Engine {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name)
    }
}

impl Serialize for Steady {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let unit = if self.percent { "%" } else { "" };
        to.collect_str(&format_args!("{}:{}{unit}", self.word, self.limit))
    }
}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let shape = |name: &str, key: &str, value: f64, centre: Option<f64>| json!({"shape": name, key: value, "centre": centre});
        let object = match self {
            Self::Uniform => json!({"shape": "random"}),
            Self::Zipf(theta, centre) => shape("zipf", "theta", *theta, *centre),
            Self::Pareto(power, centre) => shape("pareto", "power", *power, *centre),
            Self::Normal(deviation, centre) => shape("normal", "deviation_pct", *deviation, *centre),
            Self::Zoned(zones) => json!({"shape": "zoned", "zones": zones}),
            Self::ZonedBytes(zones) => json!({"shape": "zoned_abs", "zones": zones}),
        };
        object.serialize(to)
    }
}
