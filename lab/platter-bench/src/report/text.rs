//! Text from outside (file names, error messages, device specs) made safe to show.

use platter_block::text::is_unsafe;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Replaces characters that must not be shown.
const REPLACEMENT: char = '\u{fffd}';

/// Escapes `text` for HTML and SVG, as content or as an attribute value in quotes.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if is_unsafe(c) => out.push(REPLACEMENT),
            c => out.push(c),
        }
    }
    out
}

/// `text` as one line without anything that a terminal would obey: line breaks and tabs become spaces,
/// other control characters and changes of writing direction U+FFFD.
pub(super) fn one_line(text: &str) -> String {
    let safe = |c| match c {
        '\n' | '\r' | '\t' => ' ',
        c if is_unsafe(c) => REPLACEMENT,
        c => c,
    };
    text.chars().map(safe).collect()
}

/// How many terminal columns `text` takes.
pub(super) fn columns(text: &str) -> usize {
    text.width()
}

/// `text`, cut to at most `width` terminal columns with an ellipsis at the end.
pub(super) fn shorten(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut used = 1;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= width
    };
    let mut out: String = text.chars().take_while(fits).collect();
    if width > 0 {
        out.push('…');
    }
    out
}

/// Breaks `text` into lines of at most `width` columns, between words where it can and within a word that is wider than a
/// line. At least one line; never a line with spaces at its ends.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let wide = columns(word);
        if used > 0 && used + 1 + wide > width {
            lines.push(String::new());
            used = 0;
        }
        let Some(line) = lines.last_mut() else { continue };
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        if used + wide <= width {
            line.push_str(word);
            used += wide;
            continue;
        }
        for c in word.chars() {
            let of_c = c.width().unwrap_or(0);
            if used > 0 && used + of_c > width {
                lines.push(String::new());
                used = 0;
            }
            if let Some(line) = lines.last_mut() {
                line.push(c);
                used += of_c;
            }
        }
    }
    lines
}

/// Columns of the widest word.
pub(super) fn widest_word(text: &str) -> usize {
    text.split(' ').map(columns).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn markup_is_escaped() {
        assert_eq!(escape("<a href=\"x\">'&amp;'"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;amp;&#39;");
        assert_eq!(escape("a\u{0}b\u{1b}[2Jc\nd"), "a\u{fffd}b\u{fffd}[2Jc\nd");
    }

    #[test]
    fn terminals_are_not_given_orders() {
        assert_eq!(one_line("a\u{1b}[31mb\r\nc\td\u{202e}e"), "a\u{fffd}[31mb  c d\u{fffd}e");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(columns("磁盘"), 4);
        assert_eq!(shorten("磁盘磁盘", 6), "磁盘…");
        assert_eq!(shorten("abcdef", 6), "abcdef");
        assert_eq!(shorten("abcdefg", 6), "abcde…");
        assert_eq!(shorten("abc", 0), "");
    }

    proptest! {
        #[test]
        fn escaped_text_has_no_markup(text: String) {
            let out = escape(&text);
            prop_assert!(!out.contains(['<', '>', '"', '\'']));
            let unescaped = out.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"")
                .replace("&#39;", "'").replace("&amp;", "&");
            let expected: String = text.chars()
                .map(|c| if is_unsafe(c) && c != '\n' && c != '\t' { REPLACEMENT } else { c }).collect();
            prop_assert_eq!(unescaped, expected);
        }

        #[test]
        fn wrapped_text_fits_and_keeps_everything(text in "[a-z磁盘é ]{0,60}", width in 2usize..20) {
            let lines = wrap(&text, width);
            prop_assert!(lines.iter().all(|line| columns(line) <= width), "{lines:?}");
            prop_assert!(lines.iter().all(|line| line.trim() == line));
            let plain = |text: &str| text.replace(' ', "");
            prop_assert_eq!(plain(&lines.concat()), plain(&text));
            if widest_word(&text) <= width {
                let words: Vec<&str> = text.split_whitespace().collect();
                prop_assert_eq!(lines.join(" "), words.join(" "));
            }
        }

        #[test]
        fn shortened_text_fits(text in "[a-z磁盘é ]{0,30}", width in 0usize..20) {
            prop_assert!(columns(&shorten(&text, width)) <= width);
        }
    }
}
