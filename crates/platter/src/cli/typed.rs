//! Values together with the words in which they were typed, so that a message can repeat those.

use platter::spec::{parse_size, parse_time};
use std::time::Duration;

/// A value and how it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Typed<T> {
    /// What it means.
    pub(crate) value: T,
    /// How it was typed.
    pub(crate) text: String,
}

impl<T> Typed<T> {
    fn new(text: &str, value: T) -> Typed<T> {
        Typed { value, text: text.to_owned() }
    }
}

/// A size: `4096`, `4k`, `1m`.
pub(crate) fn size(text: &str) -> Result<Typed<u64>, String> {
    parse_size(text).map(|size| Typed::new(text, size)).map_err(|error| error.to_string())
}

/// A time, with `unit` where only a number is given: as fio has it, each option has a unit of its own.
pub(crate) fn time(text: &str, unit: &str) -> Result<Typed<Duration>, String> {
    let bare = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let given = if bare { format!("{text}{unit}") } else { text.to_owned() };
    let wrong = |error: platter::spec::ValueError| error.to_string().replace(&given, text);
    parse_time(&given).map(|time| Typed::new(text, time)).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_is_kept() {
        let typed = size("2048m").unwrap();
        assert_eq!((typed.value, typed.text.as_str()), (2 << 30, "2048m"));
        let typed = time("90", "s").unwrap();
        assert_eq!((typed.value, typed.text.as_str()), (Duration::from_secs(90), "90"));
        let error = time("200000000000", "s").unwrap_err();
        assert!(error.contains("`200000000000`"), "{error}");
    }
}
