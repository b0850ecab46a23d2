//! Text of logins and text requests: `key=value` pairs, each ended by a zero byte (RFC 7143, section 6.1).

use platter_block::text::excerpt;
use std::fmt;

/// Longest key in bytes.
const MAX_KEY: usize = 63;

/// Longest value in bytes: what a base64 or hexadecimal number may have.
const MAX_VALUE: usize = 8191;

/// Most characters of a piece of text in a message.
const MOST_SHOWN: usize = 60;

/// Why bytes are no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The last pair has no zero byte at its end.
    Unended,
    /// A pair without `=`, or one with a key or value of a wrong length or with other bytes than text.
    Pair(String),
    /// A key that was there before.
    Twice(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unended => f.write_str("text that is not ended by a zero byte"),
            Error::Pair(pair) => write!(f, "{pair:?} is not a key and a value"),
            Error::Twice(key) => write!(f, "the key {key:?} is given twice"),
        }
    }
}

impl std::error::Error for Error {}

/// The pairs of a text, in their order.
///
/// # Errors
/// Bytes that are no such text. Zero bytes between pairs are skipped, as padding.
pub fn parse(bytes: &[u8]) -> Result<Vec<(String, String)>, Error> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    if bytes.last().is_some_and(|last| *last != 0) {
        return Err(Error::Unended);
    }
    for pair in bytes.split(|byte| *byte == 0).filter(|pair| !pair.is_empty()) {
        let wrong = || Error::Pair(excerpt(&String::from_utf8_lossy(pair), MOST_SHOWN));
        let text = std::str::from_utf8(pair).map_err(|_| wrong())?;
        let (key, value) = text.split_once('=').ok_or_else(wrong)?;
        let fits = (1..=MAX_KEY).contains(&key.len()) && value.len() <= MAX_VALUE;
        if !fits || text.chars().any(char::is_control) {
            return Err(wrong());
        }
        if pairs.iter().any(|(known, _)| known == key) {
            return Err(Error::Twice(key.to_owned()));
        }
        pairs.push((key.to_owned(), value.to_owned()));
    }
    Ok(pairs)
}

/// Adds a pair.
pub fn push(text: &mut Vec<u8>, key: &str, value: &str) {
    text.extend(key.as_bytes());
    text.push(b'=');
    text.extend(value.as_bytes());
    text.push(0);
}

/// Bytes as a hexadecimal constant, `0x…`.
pub fn to_hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold("0x".to_owned(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A number, decimal or hexadecimal after `0x` (RFC 7143, section 6.1).
pub fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let is_plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u64::from_str_radix(digits, radix).ok().filter(|_| is_plain)
}

/// The bytes of a binary value: hexadecimal after `0x`, or base64 after `0b`.
pub fn from_binary(text: &str) -> Option<Vec<u8>> {
    match text.get(..2)?.to_ascii_lowercase().as_str() {
        "0x" => from_hex(&text.as_bytes()[2..]),
        "0b" => from_base64(&text.as_bytes()[2..]),
        _ => None,
    }
}

fn from_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    // An odd number of digits has a zero before it.
    let first = digits.len() % 2;
    let mut bytes = Vec::with_capacity(digits.len().div_ceil(2));
    if first == 1 {
        bytes.push(digit(&digits[0])?);
    }
    for pair in digits[first..].chunks_exact(2) {
        bytes.push(digit(&pair[0])? << 4 | digit(&pair[1])?);
    }
    Some(bytes)
}

fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let ends = text.len() - text.iter().rev().take_while(|byte| **byte == b'=').count();
    if !text.len().is_multiple_of(4) || text.len() - ends > 2 {
        return None;
    }
    let mut bytes = Vec::new();
    for group in text[..ends].chunks(4) {
        let mut value = 0u32;
        for byte in group {
            value = value << 6 | ALPHABET.iter().position(|one| one == byte)? as u32;
        }
        let all = (value << (6 * (4 - group.len()))).to_be_bytes();
        bytes.extend(&all[1..group.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_out_as_they_went_in() {
        let mut text = Vec::new();
        push(&mut text, "InitiatorName", "iqn.2026-11.localhost:a");
        push(&mut text, "SendTargets", "");
        let pairs = parse(&[&text[..], &[0, 0]].concat()).unwrap();
        let expected = [("InitiatorName", "iqn.2026-11.localhost:a"), ("SendTargets", "")];
        assert_eq!(pairs, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
        assert_eq!(parse(&[]), Ok(vec![]));
    }

    #[test]
    fn what_is_no_text_is_refused() {
        assert_eq!(parse(b"a=b"), Err(Error::Unended));
        assert_eq!(parse(b"a\0"), Err(Error::Pair("a".to_owned())));
        assert_eq!(parse(b"=b\0"), Err(Error::Pair("=b".to_owned())));
        assert!(matches!(parse(b"a=\x1b[2J\0"), Err(Error::Pair(_))));
        assert!(matches!(parse(b"a=\xff\0"), Err(Error::Pair(_))));
        assert_eq!(parse(b"a=1\0a=2\0"), Err(Error::Twice("a".to_owned())));
        assert!(matches!(parse(&[&[b'k'; 64][..], b"=1\0"].concat()), Err(Error::Pair(_))));
    }

    #[test]
    fn binary_values_are_hexadecimal_or_base64() {
        assert_eq!(to_hex(&[0, 0xab]), "0x00ab");
        assert_eq!(from_binary("0x00Ab"), Some(vec![0, 0xab]));
        assert_eq!(from_binary("0xabc"), Some(vec![0xa, 0xbc]));
        assert_eq!(from_binary("0bAGFi"), Some(vec![0, b'a', b'b']));
        assert_eq!(from_binary("0BYQ=="), Some(vec![b'a']));
        for wrong in ["", "0", "12", "0xg0", "0b*AAA", "0bA", "0bA===", "é"] {
            assert_eq!(from_binary(wrong), None, "{wrong}");
        }
    }
}
