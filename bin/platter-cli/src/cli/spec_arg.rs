//! Device specs as arguments of the command.

use clap::builder::{OsStringValueParser, TypedValueParser};
use platter::spec::quote_path;
use std::ffi::OsStr;
use std::path::Path;

/// Reads a device spec. A path that is not UTF-8 may stand alone; in a longer spec its bytes are written `\xHH`.
pub(crate) fn spec_arg() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().try_map(|text| text_of(&text))
}

fn text_of(arg: &OsStr) -> Result<String, String> {
    if let Some(text) = arg.to_str() {
        return Ok(text.to_owned());
    }
    let shown = arg.to_string_lossy();
    match shown.contains(['(', ')', ',', '=', '"', '\\']) {
        false => Ok(quote_path(Path::new(arg)).into_owned()),
        true => {
            Err("a device spec is UTF-8; write each byte of a path that is not as \\xHH, and the path in \
                     quotes: 'file(\"caf\\xe9.img\", depth=64)'"
                .to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_path_that_is_not_utf_8_becomes_a_spec() {
        let of = |bytes: &[u8]| text_of(OsStr::from_bytes(bytes));
        assert_eq!(of(b"ram(1M)"), Ok("ram(1M)".to_owned()));
        assert_eq!(of(b"a b.img"), Ok("a b.img".to_owned()), "what is UTF-8 is left to the parser");
        assert_eq!(of(b"caf\xe9 1.img"), Ok(r#""caf\xe9 1.img""#.to_owned()));
        assert!(of(b"file(caf\xe9.img)").unwrap_err().contains(r"\xHH"));
    }
}
