//! The output device of a report.

use super::text::{one_line, wrap};

/// Running text is not made wider than this, however wide the terminal is.
const READABLE: usize = 110;

/// The output device of a report: whether it supports colours, and its width.
///
/// A report is never truncated: content that is wider than the terminal is wrapped. Output to a file or
/// another program has no width, so each row of a table is one line there.
///
/// `bool` converts into one without a width, with colours if it is true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terminal {
    /// ANSI escapes may be used: headings are bold.
    pub color: bool,
    /// Columns of a line; `None` for any number.
    pub width: Option<usize>,
}

impl From<bool> for Terminal {
    fn from(color: bool) -> Terminal {
        Terminal { color, width: None }
    }
}

impl Terminal {
    /// The same with `by` columns less, for output that is indented by as many spaces.
    pub fn indented(self, by: usize) -> Terminal {
        Terminal { width: self.width.map(|width| width.saturating_sub(by).max(1)), ..self }
    }

    /// A heading: bold where colours are used.
    pub fn heading(self, text: &str) -> String {
        if self.color { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// A paragraph, broken between words, ended by a line feed. Lines after the first begin with `indent` spaces. Without a
    /// width it stays one line.
    pub fn paragraph(self, text: &str, indent: usize) -> String {
        let text = one_line(text);
        let Some(width) = self.width else { return text + "\n" };
        let width = width.min(READABLE);
        let mut out = String::new();
        let mut rest = wrap(&text, width).into_iter();
        if let Some(first) = rest.next() {
            out = first + "\n";
        }
        // The first line may be wider than those behind the indent, so these are broken again.
        let behind: Vec<String> = rest.collect();
        if !behind.is_empty() {
            for line in wrap(&behind.join(" "), width.saturating_sub(indent).max(1)) {
                out += &format!("{:indent$}{line}\n", "");
            }
        }
        out
    }

    /// A name and a fact as a paragraph: `name: fact`. Further lines are indented by two.
    pub fn fact(self, name: &str, fact: &str) -> String {
        self.paragraph(&format!("{name}: {fact}"), 2)
    }

    /// Whether a line fits.
    pub(super) fn fits(self, line_columns: usize) -> bool {
        self.width.is_none_or(|width| line_columns <= width)
    }
}

/// The widest line of a text, in columns.
#[cfg(test)]
pub(super) fn widest(text: &str) -> usize {
    text.lines().map(super::text::columns).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_broken_between_words_and_keep_all_of_them() {
        let narrow = Terminal { color: false, width: Some(20) };
        let text = "interface: at most 4.88 MB/s, less than the medium";
        assert_eq!(narrow.paragraph(text, 2), "interface: at most\n  4.88 MB/s, less\n  than the medium\n");
        assert_eq!(Terminal::default().paragraph(text, 2), format!("{text}\n"));
        assert_eq!(narrow.fact("a", "b"), "a: b\n");
        let wide = Terminal { color: false, width: Some(500) };
        assert!(widest(&wide.paragraph(&"word ".repeat(100), 0)) <= READABLE);
    }

    #[test]
    fn an_indent_never_leaves_nothing() {
        let narrow = Terminal { color: false, width: Some(3) };
        assert_eq!(narrow.indented(10).width, Some(1));
        assert_eq!(narrow.indented(10).paragraph("ab c", 4), "a\nb\nc\n".replace("\nb\nc", "\n    b\n    c"));
    }
}
