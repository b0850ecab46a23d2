//! Text from files, disks and command lines, made safe to show on a terminal; sizes in messages.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};

/// Whether a terminal may interpret `c` instead of showing it: control characters, and characters that change the
/// direction of the text around them.
pub fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}')
}

/// `text` with each [unsafe](is_unsafe) character, including line breaks and tabs, replaced with U+FFFD. Messages
/// that quote untrusted text need this: an escape sequence in the name of an array could otherwise rewrite an
/// operator's terminal.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.contains(is_unsafe) { text.replace(is_unsafe, "\u{fffd}").into() } else { text.into() }
}

/// The first `most` characters of `text`, [printable], with an ellipsis if more follow.
pub fn excerpt(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", printable(&text[..end])),
        None => printable(text).into_owned(),
    }
}

/// Units of sizes, the largest first, as powers of two.
const SIZE_UNITS: [(char, u32); 5] = [('P', 50), ('T', 40), ('G', 30), ('M', 20), ('K', 10)];

/// A number of bytes as a device spec has it, with the largest unit that divides it: `64K`, `1T`, `513`.
pub fn short_size(bytes: u64) -> String {
    match SIZE_UNITS.iter().find(|(_, shift)| bytes != 0 && bytes.trailing_zeros() >= *shift) {
        Some((unit, shift)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unsafe_characters_are_replaced() {
        assert!(matches!(printable("größe 5 µs"), Cow::Borrowed("größe 5 µs")));
        assert_eq!(printable("a\u{1b}[2Jb\n\t\u{202e}\0"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}\u{fffd}\u{fffd}");
    }

    #[test]
    fn only_long_texts_are_cut() {
        assert_eq!(excerpt("µs\0", 3), "µs\u{fffd}");
        assert_eq!(excerpt("µµµs", 3), "µµµ…");
    }
}
