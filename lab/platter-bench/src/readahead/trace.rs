//! Traces of reads: `thread handle offset length`, one a line.

use super::Read;
use crate::report::units::bytes_short;
use platter_block::text::excerpt;

/// Most reads of a trace.
pub const MOST: usize = 10_000_000;
/// Most threads and handles.
pub const MOST_NUMBERS: u32 = 4096;
/// The fields of a line, in their order.
const FIELDS: [&str; 4] = ["thread", "handle", "offset", "length"];
/// The last byte that a read may touch, and the largest read.
const MOST_POS: u64 = 1 << 56;
const MOST_LEN: u64 = 1 << 32;

/// A line that is not a read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct TraceError {
    /// The line, from 1 on.
    pub line: usize,
    /// The error: field, value, and allowed values.
    pub message: String,
}

/// Parses a trace. Text after a `#` is a comment; empty lines are skipped. `size` parses an offset or a
/// length, or returns an error message.
///
/// # Errors
/// The first invalid line.
pub fn parse(text: &str, size: impl Fn(&str) -> Result<u64, String>) -> Result<Vec<Read>, TraceError> {
    parse_within(text, size, u64::MAX)
}

/// [`parse`] for a device of `end` bytes. A read that begins on the device may extend past its end, where it
/// stops.
///
/// # Errors
/// The first line that is invalid or begins past the end.
pub fn parse_within(
    text: &str,
    size: impl Fn(&str) -> Result<u64, String>,
    end: u64,
) -> Result<Vec<Read>, TraceError> {
    let mut reads = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let fields: Vec<&str> = line.split_whitespace().collect();
        if fields.is_empty() {
            continue;
        }
        let at = |message: String| TraceError { line: index + 1, message: excerpt(&message, 500) };
        let read = parse_line(&fields, &size).map_err(at)?;
        if read.pos >= end {
            let end = bytes_short(end);
            let message = format!("offset `{}` is past the end of the device, which has {end}", fields[2]);
            return Err(at(format!("{message}; give a larger --size")));
        }
        if reads.len() == MOST {
            let message = format!("a trace has at most {MOST} reads; cut it into several");
            return Err(at(message));
        }
        reads.push(read);
    }
    Ok(reads)
}

fn parse_line(fields: &[&str], size: &impl Fn(&str) -> Result<u64, String>) -> Result<Read, String> {
    let [thread, handle, pos, len] = fields else {
        return Err(format!("{} fields; a line has {}: {}", fields.len(), FIELDS.len(), FIELDS.join(" ")));
    };
    let number = |field: &str, value: &str| match value.parse() {
        Ok(number) if number < MOST_NUMBERS => Ok(number),
        _ => Err(format!("{field} `{value}` is not a number from 0 to {}", MOST_NUMBERS - 1)),
    };
    let bytes = |field: &str, value: &str, (least, most): (u64, u64)| {
        let number = size(value).map_err(|error| format!("{field} `{value}`: {error}"))?;
        if number < least || number > most {
            return Err(format!("{field} `{value}` is not from {least} to {most} bytes"));
        }
        Ok(number)
    };
    let (thread, handle) = (number(FIELDS[0], thread)?, number(FIELDS[1], handle)?);
    let pos = bytes(FIELDS[2], pos, (0, MOST_POS))?;
    Ok(Read { thread, handle, pos, len: bytes(FIELDS[3], len, (1, MOST_LEN))? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Result<u64, String> {
        text.parse().map_err(|_| "not a size".to_owned())
    }

    #[test]
    fn lines_are_reads_and_comments_are_not() {
        let text = "# thread handle offset length\n0 0 4096 16384\n\n  7\t1 0 1 # the first byte\n";
        let reads = parse(text, plain).unwrap();
        assert_eq!(reads[0], Read { thread: 0, handle: 0, pos: 4096, len: 16384 });
        assert_eq!(reads[1..], [Read { thread: 7, handle: 1, pos: 0, len: 1 }]);
        assert_eq!(parse("", plain), Ok(Vec::new()));
    }

    #[test]
    fn errors_name_line_field_value_and_what_is_allowed() {
        for (text, words) in [
            ("0 0 0 1\n0 0 0", &["line 2", "3 fields", "thread handle offset length"] as &[&str]),
            ("4096 0 0 1", &["line 1", "thread `4096`", "0 to 4095"]),
            ("0 -1 0 1", &["handle `-1`", "0 to 4095"]),
            ("#\n\n0 0 x 1", &["line 3", "offset `x`", "not a size"]),
            ("0 \u{1b}[2J 0 1", &["handle `\u{fffd}[2J`"]),
            ("0 0 0 0", &["length `0`", "from 1 to"]),
            ("0 0 99999999999999999 1", &["offset `99999999999999999`", "from 0 to"]),
        ] {
            let error = parse(text, plain).unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }
}
