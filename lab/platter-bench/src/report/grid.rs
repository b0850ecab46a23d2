//! Cells of text in columns, made to fit a terminal.

use super::Terminal;
use super::text::{columns, widest_word, wrap};

/// A column of text is not made narrower than this to make room for others.
const NARROW: usize = 24;
/// Spaces between two columns.
const GAP: usize = 2;

/// The alignment of a cell in its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// Rows of cells without line breaks, each as long as there are columns.
pub(super) struct Grid {
    pub(super) aligned: Vec<Align>,
    /// Lines above the first rule.
    pub(super) heading: Vec<Vec<String>>,
    /// `None` is a line across.
    pub(super) rows: Vec<Option<Vec<String>>>,
}

/// The widths that a column may have.
#[derive(Clone, Copy)]
struct Range {
    /// The width that none of its cells exceeds.
    natural: usize,
    /// The least. Numbers are not broken, nor are words of headings.
    least: usize,
}

/// A column as it is printed.
#[derive(Clone, Copy)]
struct Shown {
    column: usize,
    width: usize,
}

impl Grid {
    pub(super) fn to_text(&self, terminal: Terminal) -> String {
        let blocks: Vec<String> =
            self.blocks(terminal).iter().map(|shown| self.block(shown, terminal.color)).collect();
        blocks.join("\n")
    }

    /// Whether each row is one line.
    pub(super) fn fits(&self, terminal: Terminal) -> bool {
        let natural = |column: usize| Shown { column, width: self.range(column).natural };
        terminal.fits(width_of(&(0..self.aligned.len()).map(natural).collect::<Vec<_>>()))
    }

    /// Heading lines and rows that are not rules.
    fn lines(&self) -> impl Iterator<Item = &Vec<String>> {
        self.heading.iter().chain(self.rows.iter().flatten())
    }

    /// The widths of a column.
    fn range(&self, column: usize) -> Range {
        let natural = self.lines().map(|cells| columns(&cells[column])).max().unwrap_or(0);
        if self.aligned[column] == Align::Right {
            return Range { natural, least: natural };
        }
        let heading = self.heading.iter().map(|cells| widest_word(&cells[column])).max().unwrap_or(0);
        Range { natural, least: NARROW.max(heading).min(natural) }
    }

    /// The columns of each block, and their widths. The first column is in every block.
    fn blocks(&self, terminal: Terminal) -> Vec<Vec<Shown>> {
        let ranges: Vec<Range> = (0..self.aligned.len()).map(|column| self.range(column)).collect();
        let natural = |column: usize| Shown { column, width: ranges[column].natural };
        if self.fits(terminal) {
            return vec![(0..ranges.len()).map(natural).collect()];
        }
        let least = |column: usize| Shown { column, width: ranges[column].least };
        let mut blocks: Vec<Vec<Shown>> = Vec::new();
        for column in 1..ranges.len() {
            let fits = |block: &[Shown]| terminal.fits(width_of(&[block, &[least(column)]].concat()));
            match blocks.last_mut() {
                Some(block) if fits(block) => block.push(least(column)),
                _ => blocks.push(vec![least(0), least(column)]),
            }
        }
        if blocks.is_empty() {
            blocks.push(vec![least(0)]);
        }
        for block in &mut blocks {
            let free = terminal.width.unwrap_or(0).saturating_sub(width_of(block));
            widen(block, &ranges, free);
        }
        blocks
    }

    fn block(&self, shown: &[Shown], color: bool) -> String {
        let mut out = String::new();
        let says = |cells: &&Vec<String>| shown.iter().any(|shown| !cells[shown.column].is_empty());
        // A line of units is left out if no column in the block has one.
        for cells in self
            .heading
            .iter()
            .enumerate()
            .filter(|(i, cells)| *i == 0 || says(cells))
            .map(|(_, cells)| cells)
        {
            for line in self.broken(cells, shown) {
                match color {
                    true => out += &format!("\x1b[1m{line}\x1b[0m\n"),
                    false => out += &(line + "\n"),
                }
            }
        }
        let rule: Vec<String> = (0..self.aligned.len())
            .map(|column| {
                let width = shown.iter().find(|shown| shown.column == column).map_or(0, |shown| shown.width);
                "-".repeat(width)
            })
            .collect();
        for row in core::iter::once(&None).chain(&self.rows) {
            for line in self.broken(row.as_ref().unwrap_or(&rule), shown) {
                out += &(line + "\n");
            }
        }
        out
    }

    /// The lines of a row.
    fn broken(&self, cells: &[String], shown: &[Shown]) -> Vec<String> {
        let parts: Vec<Vec<String>> = shown
            .iter()
            .map(|&Shown { column, width }| {
                let cell = &cells[column];
                if columns(cell) <= width { vec![cell.clone()] } else { wrap(cell, width) }
            })
            .collect();
        let height = parts.iter().map(Vec::len).max().unwrap_or(1);
        (0..height).map(|line| self.line(&parts, shown, line)).collect()
    }

    fn line(&self, parts: &[Vec<String>], shown: &[Shown], number: usize) -> String {
        let mut line = String::new();
        for (i, (part, &Shown { column, width })) in parts.iter().zip(shown).enumerate() {
            let text = part.get(number).map_or("", String::as_str);
            let padding = " ".repeat(width.saturating_sub(columns(text)));
            if i > 0 {
                line += &" ".repeat(GAP);
            }
            match self.aligned[column] {
                Align::Left => line += &(text.to_owned() + &padding),
                Align::Right => line += &(padding + text),
            }
        }
        line.truncate(line.trim_end_matches(' ').len());
        line
    }
}

/// Gives columns that are narrower than they would like to be `free` more, the narrowest first.
fn widen(block: &mut [Shown], ranges: &[Range], free: usize) {
    for _ in 0..free {
        let wanting = block.iter_mut().filter(|shown| shown.width < ranges[shown.column].natural);
        match wanting.min_by_key(|shown| shown.width) {
            Some(shown) => shown.width += 1,
            None => return,
        }
    }
}

fn width_of(shown: &[Shown]) -> usize {
    shown.iter().map(|shown| shown.width).sum::<usize>() + GAP * shown.len().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::super::terminal::widest;
    use super::super::{Column, Table, Terminal};
    use super::*;
    use proptest::prelude::*;

    fn at(width: usize) -> Terminal {
        Terminal { color: false, width: Some(width) }
    }

    fn wide() -> Table {
        let numbers =
            ["I/Os", "waits", "pages", "wasted", "shrunk", "asked"].map(|name| Column::number(name, ""));
        let columns = [Column::text("policy")].into_iter().chain(numbers).chain([Column::text("first I/Os")]);
        let mut table = Table::new(columns);
        let row = |name: &str, ios: &str| {
            [&[name][..], &["123456"; 6], &[ios]].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        table.row(row("linux-2.4", "3404148+6 3133584+6 420060+6 3129860+6")).rule().row(row("none", "1+1"));
        table
    }

    #[test]
    fn a_table_that_fits_is_left_alone() {
        let full = wide().to_text(false);
        assert_eq!(wide().to_text(at(widest(&full))), full);
        assert_eq!(full.lines().count(), 5, "{full}");
    }

    #[test]
    fn text_is_broken_before_the_table_is() {
        let text = wide().to_text(at(88));
        assert_eq!(
            text.lines().skip(2).take(3).collect::<Vec<_>>(),
            [
                "linux-2.4  123456  123456  123456  123456  123456  123456  3404148+6 3133584+6 420060+6",
                "                                                           3129860+6",
                "---------  ------  ------  ------  ------  ------  ------  -----------------------------"
            ],
            "{text}"
        );
    }

    #[test]
    fn what_does_not_fit_goes_on_below_behind_the_first_column() {
        let text = wide().to_text(at(40));
        let heads: Vec<&str> = text.lines().filter(|line| line.starts_with("policy")).collect();
        assert_eq!(
            heads,
            [
                "policy       I/Os   waits   pages",
                "policy     wasted  shrunk   asked",
                "policy     first I/Os"
            ]
        );
        assert!(widest(&text) <= 40, "{text}");
    }

    proptest! {
        /// At any width, every word is shown, and no line that could be wrapped is too long.
        #[test]
        fn nothing_is_lost_at_any_width(
            cells in prop::collection::vec("[a-z]{0,9}( [a-z]{1,9}){0,6}", 8),
            right in prop::collection::vec(any::<bool>(), 4),
            width in 1usize..120,
        ) {
            let columns = right.iter().map(|&right| {
                if right { Column::number("n", "u") } else { Column::text("t") }
            });
            let mut table = Table::new(columns);
            table.row(cells[..4].to_vec()).row(cells[4..].to_vec());
            let text = table.to_text(at(width));
            for word in cells.iter().flat_map(|cell| cell.split(' ')) {
                prop_assert!(text.contains(word), "{word:?} at {width}:\n{text}");
            }
            let least = |column: usize| {
                let cell = |at: usize| super::super::text::columns(&cells[at]);
                let natural = cell(column).max(cell(column + 4)).max(1);
                if right[column] { natural } else { natural.min(NARROW) }
            };
            let unbreakable = (1..4).map(|column| least(0) + GAP + least(column)).max().unwrap_or(0);
            prop_assert!(widest(&text) <= width.max(unbreakable), "{width}:\n{text}");
        }
    }
}
