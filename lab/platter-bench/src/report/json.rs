//! Parts that the JSON of several reports has in common.

use serde::Serialize;
use serde_json::{Map, Value};

/// Facts or counters as one object: the name of each is its key.
pub(crate) fn object<K: AsRef<str>, V: Into<Value>>(pairs: impl IntoIterator<Item = (K, V)>) -> Value {
    pairs.into_iter().map(|(key, value)| (key.as_ref().to_owned(), value.into())).collect()
}

/// Puts a summary of latencies into an object, with `lat_` before the names of its fields; null where there is
/// none.
pub(crate) fn put_latency<L: Serialize + Default>(object: &mut Map<String, Value>, latency: Option<&L>) {
    put_summary(object, "lat", latency);
}

/// Puts a summary into an object, with a word before the names of its fields; null where there is none.
pub(crate) fn put_summary<L: Serialize + Default>(
    object: &mut Map<String, Value>,
    word: &str,
    summary: Option<&L>,
) {
    let keys = serde_json::to_value(L::default()).unwrap_or_default();
    let mut values = serde_json::to_value(summary).unwrap_or_default();
    for (key, _) in keys.as_object().into_iter().flatten() {
        let value = values.get_mut(key).map(Value::take);
        object.insert(format!("{word}_{key}"), value.unwrap_or_default());
    }
}
