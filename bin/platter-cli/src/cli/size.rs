//! Sizes as arguments of the command.

use platter::spec::parse_size;
use std::fmt;
use std::str::FromStr;

/// A size, with the text that the user wrote: messages repeat it as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) bytes: u64,
    text: String,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let bytes = parse_size(text).map_err(|error| error.to_string())?;
        Ok(Size { bytes, text: text.to_owned() })
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_shown_as_it_was_typed() {
        let size: Size = "1.5M".parse().unwrap();
        assert_eq!((size.bytes, size.to_string()), (1536 << 10, "1.5M".to_owned()));
        assert!("many".parse::<Size>().unwrap_err().contains("expected a size"));
    }
}
