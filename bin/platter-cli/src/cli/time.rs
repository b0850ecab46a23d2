//! Times as arguments of the command.

use platter::spec::{ValueError, parse_time};
use std::fmt;
use std::time::Duration;

/// A time, with the text that the user wrote: messages repeat it as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Time {
    pub(crate) value: Duration,
    text: String,
}

impl Time {
    /// Parses a time; a plain number is in `unit`, because each option has its own unit in fio.
    pub(crate) fn parse(text: &str, unit: &str) -> Result<Time, String> {
        let bare = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let given = if bare { format!("{text}{unit}") } else { text.to_owned() };
        let wrong = |error: ValueError| error.to_string().replace(&given, text);
        Ok(Time { value: parse_time(&given).map_err(wrong)?, text: text.to_owned() })
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_as_it_was_typed() {
        let time = Time::parse("90", "s").unwrap();
        assert_eq!((time.value, time.to_string()), (Duration::from_secs(90), "90".to_owned()));
        let error = Time::parse("200000000000", "s").unwrap_err();
        assert!(error.contains("`200000000000`"), "{error}");
    }
}
