//! Values as JSON, and as text for people.

use super::{Amount, DIRECTIONS, Distribution, Three, Value};
use crate::engine::Engine;
use serde_json::{Map, Value as Json, json};

impl Value {
    /// The value as JSON: sizes in bytes, times in nanoseconds, percentages as text such as `"50%"`, and an object with `read`,
    /// `write` and `trim` where these may differ.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Switch(on) => json!(on),
            Self::Integer(n) => json!(n),
            Self::Integers(all) => three(all, |n| json!(n)),
            Self::Size(bytes) => json!(bytes),
            Self::Amount(amount) => amount.to_json(),
            Self::SizeRange([low, high]) | Self::TimeRange([low, high]) => json!([low, high]),
            Self::Blocks(all) => three(all, |[low, high]| json!([low, high])),
            Self::Split(all) => three(all, |parts| json!(parts)),
            Self::Time(ns) => json!(ns),
            Self::Word(word) => json!(word),
            Self::Text(text) => json!(text),
            Self::Floats(all) => json!(all),
            Self::Files(all) => json!(all),
            Self::Access(access) => match access.modifier {
                Some(modifier) => json!(format!("{}:{modifier}", access.word)),
                None => json!(access.word),
            },
            Self::Distribution(all) => three(all, Distribution::to_json),
            Self::Engine(Engine { name, .. }) => json!(name),
            Self::Steady(steady) => {
                let unit = if steady.percent { "%" } else { "" };
                json!(format!("{}:{}{unit}", steady.word, steady.limit))
            }
        }
    }
}

impl Amount {
    /// Bytes as a number, others as text: `"50%"`, `"2z"`.
    pub fn to_json(self) -> Json {
        match self {
            Self::Bytes(bytes) => json!(bytes),
            Self::Percent(percent) => json!(format!("{percent}%")),
            Self::Zones(zones) => json!(format!("{zones}z")),
        }
    }
}

impl Distribution {
    fn to_json(&self) -> Json {
        let shape = |name: &str, key: &str, value: f64, centre: Option<f64>| json!({"shape": name, key: value, "centre": centre});
        match self {
            Self::Uniform => json!({"shape": "random"}),
            Self::Zipf(theta, centre) => shape("zipf", "theta", *theta, *centre),
            Self::Pareto(power, centre) => shape("pareto", "power", *power, *centre),
            Self::Normal(deviation, centre) => shape("normal", "deviation_pct", *deviation, *centre),
            Self::Zoned(zones) => json!({"shape": "zoned", "zones": zones}),
            Self::ZonedBytes(zones) => json!({"shape": "zoned_abs", "zones": zones}),
        }
    }
}

fn three<T>(all: &Three<T>, one: impl Fn(&T) -> Json) -> Json {
    let pairs = DIRECTIONS.iter().zip(all).map(|(name, value)| ((*name).to_owned(), one(value)));
    Json::Object(pairs.collect::<Map<String, Json>>())
}
