//! Parts that the JSON of several reports has in common: what `serde(serialize_with)` names, and objects put together.

use core::time::Duration;
use platter_block::time::Span;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// Facts or counters as one object: the name of each is its key.
pub(crate) fn object<K: AsRef<str>, V: Into<Value>>(pairs: impl IntoIterator<Item = (K, V)>) -> Value {
    pairs.into_iter().map(|(key, value)| (key.as_ref().to_owned(), value.into())).collect()
}

/// The same of a field.
///
/// # Errors
/// Those of the serializer.
pub fn pairs<V: Serialize, S: Serializer>(pairs: &[(&str, V)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}

/// An object with the keys of others; those of a name in it are replaced.
pub fn joined(mut object: Value, more: &impl Serialize) -> Value {
    if let (Some(object), Ok(Value::Object(more))) = (object.as_object_mut(), serde_json::to_value(more)) {
        object.extend(more);
    }
    object
}

/// A time as nanoseconds.
pub(crate) fn ns<S: Serializer>(
    time: &(impl Copy + Into<Option<Duration>>),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    (*time).into().map(ns).serialize(serializer)
}

/// A time as seconds.
pub(crate) fn seconds<S: Serializer>(
    time: &(impl Copy + Into<Option<Duration>>),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    (*time).into().map(|time| time.as_secs_f64()).serialize(serializer)
}

/// A time of a clock as seconds.
pub(crate) fn span_seconds<S: Serializer>(Span(ns): &Span, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(*ns as f64 / 1e9)
}

/// A time of a clock as nanoseconds.
pub(crate) fn span_ns<S: Serializer>(Span(ns): &Span, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(*ns)
}

/// Types whose values are their names.
macro_rules! by_name {
    ($($type:ty),*) => {$(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    )*};
}
pub(crate) use by_name;

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
