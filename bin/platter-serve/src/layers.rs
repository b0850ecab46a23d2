//! The status of the layers of a device as JSON, in one form for `platter info`, the control socket and programs.

use platter_block::params::{Param, Unit};
use platter_block::status::{Item, LayerStatus, Value as Status};
use serde_json::{Value, json};

/// A list with an object for each layer: `device`, `status` and `params`. docs/control.md describes them.
pub fn to_json(layers: &[LayerStatus]) -> Value {
    layers.iter().map(layer).collect()
}

fn layer(layer: &LayerStatus) -> Value {
    json!({
        "device": *layer.device,
        "status": layer.items.iter().map(item).collect::<Vec<_>>(),
        "params": layer.params.iter().map(param).collect::<Vec<_>>(),
    })
}

fn item(item: &Item) -> Value {
    let (value, unit) = match &item.value {
        Status::Number(number) => (json!(number), Some(item.unit.to_string())),
        Status::Switch(on) => (json!(on), None),
        other => (json!(other.to_string()), None),
    };
    json!({ "name": item.key(), "value": value, "unit": unit, "help": item.help })
}

/// A value: one of words as its word.
pub(crate) fn shown(param: &Param, value: i64) -> Value {
    let word = usize::try_from(value).ok().and_then(|place| param.words.get(place));
    word.map_or_else(|| json!(value), |word| json!(word))
}

fn param((param, value): &(Param, i64)) -> Value {
    let unit = (!matches!(param.unit, Unit::Switch | Unit::Word)).then(|| param.unit.to_string());
    json!({
        "name": param.name,
        "value": shown(param, *value),
        "unit": unit,
        "min": param.min,
        "max": param.max,
        "help": param.help,
    })
}
