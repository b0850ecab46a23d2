//! Shows a spec with the position of an error marked, in bounded space whatever the spec's length.

use std::fmt::Write as _;

use super::source::Span;
use platter_block::text::is_unsafe;

/// Lines shown before and after the marked one.
const CONTEXT: usize = 4;
/// Columns shown of a line.
const WIDTH: usize = 100;
/// Columns shown before the mark when a line has to be cut.
const LEAD: usize = 40;

/// The lines around `span` with carets under it, each preceded by a line break; nothing for an empty text.
pub(super) fn picture(text: &str, span: &Span) -> String {
    let mut out = String::new();
    if text.trim().is_empty() {
        return out;
    }
    let marked = line_of(text, span.start);
    let first = marked.saturating_sub(CONTEXT);
    let one_line = !text.contains('\n');
    let mut start = 0;
    for (number, line) in text.split('\n').enumerate() {
        let here = start;
        start += line.len() + 1;
        if number < first {
            continue;
        }
        let only_blanks_follow = || text[here..].trim().is_empty();
        if number > marked + CONTEXT || (number > marked && only_blanks_follow()) {
            break;
        }
        let gutter = if one_line { "    ".to_owned() } else { format!("{:4} | ", number + 1) };
        if number != marked {
            let _ = write!(out, "\n{}", format!("{gutter}{}", window(line, 0)).trim_end());
            continue;
        }
        let column = columns(line, span.start.saturating_sub(here));
        let end = columns(line, span.end.saturating_sub(here));
        let skip = if line.chars().count() > WIDTH { column.saturating_sub(LEAD) } else { 0 };
        // At least one caret, and none beyond the part of the line that is shown.
        let carets = end.min(skip + WIDTH).saturating_sub(column).max(1);
        // A cut line starts with an ellipsis, which takes a column.
        let indent = gutter.chars().count() + column - skip + usize::from(skip > 0);
        let _ = write!(out, "\n{gutter}{}\n{}{}", window(line, skip), " ".repeat(indent), "^".repeat(carets));
    }
    out
}

/// The line number, from 0, of byte `at`.
fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|&b| b == b'\n').count()
}

/// The column, from 0, of byte `at` of a line; the line's end for a byte beyond it.
fn columns(line: &str, at: usize) -> usize {
    line.char_indices().take_while(|&(i, _)| i < at).count()
}

/// At most [`WIDTH`] characters of a line from character `skip` on, safe to print.
fn window(line: &str, skip: usize) -> String {
    let mut out = String::new();
    if skip > 0 {
        out.push('…');
    }
    let mut rest = line.chars().skip(skip);
    out.extend(rest.by_ref().take(WIDTH).map(|c| match c {
        '\t' => ' ',
        c if is_unsafe(c) => '\u{fffd}',
        c => c,
    }));
    if rest.next().is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_a_span_of_a_single_line() {
        assert_eq!(picture("ram(2X)", &(4..6)), "\n    ram(2X)\n        ^^");
    }

    #[test]
    fn an_empty_span_gets_one_caret_even_at_the_end() {
        assert_eq!(picture("ram(", &(4..4)), "\n    ram(\n        ^");
    }

    #[test]
    fn counts_characters_and_hides_control_characters() {
        assert_eq!(picture("é\u{1b}\tx", &(4..5)), "\n    é\u{fffd} x\n       ^");
    }

    #[test]
    fn numbers_lines_and_shows_only_the_neighbours() {
        let text: String = (1..=20).map(|i| format!("line{i}\n")).collect();
        let at = text.find("line10").unwrap();
        let expected = "\n   6 | line6\n   7 | line7\n   8 | line8\n   9 | line9\n  10 | line10\n       ^^^^^^\
                        \n  11 | line11\n  12 | line12\n  13 | line13\n  14 | line14";
        assert_eq!(picture(&text, &(at..at + 6)), expected);
    }

    #[test]
    fn a_span_over_several_lines_is_marked_on_its_first() {
        assert_eq!(picture("ab(\nc)", &(0..6)), "\n   1 | ab(\n       ^^^\n   2 | c)");
    }

    #[test]
    fn cuts_a_long_line_around_the_mark() {
        let text = format!("{}HERE{}", "a".repeat(500), "b".repeat(500));
        let shown = picture(&text, &(500..504));
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[1], format!("    …{}HERE{}…", "a".repeat(40), "b".repeat(56)));
        assert_eq!(lines[2], format!("{}^^^^", " ".repeat(45)));
        let all = picture(&text, &(0..text.len()));
        assert_eq!(all.lines().nth(2), Some(format!("    {}", "^".repeat(100)).as_str()));
    }
}
