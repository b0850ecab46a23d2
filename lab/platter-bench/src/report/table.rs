//! Tables: one description, shown on a terminal or in a page.

use super::Terminal;
use super::grid::{Align, Grid};
use super::text::{escape, one_line};
use super::units::group;

/// A cell of more characters is running text, for which a page sets a minimum width.
const LONG: usize = 30;

/// A column of a [`Table`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    title: String,
    unit: String,
    align: Align,
}

impl Column {
    /// A column of text, aligned to the left.
    pub fn text(title: impl Into<String>) -> Self {
        Self { title: title.into(), unit: String::new(), align: Align::Left }
    }

    /// A column of numbers, aligned to the right, with their common unit (empty for none).
    pub fn number(title: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { title: title.into(), unit: unit.into(), align: Align::Right }
    }
}

/// A table with headings.
///
/// ```
/// use platter_bench::report::{Column, Table};
/// let mut table = Table::new([Column::text("rung"), Column::number("rate", "MiB/s")]);
/// table.row(["Baseline", "1234.5"]);
/// table.row(["bio", "98765.4"]);
/// assert_eq!(
///     table.group_thousands().to_text(false),
///     "\
/// rung          rate
///              MiB/s
/// --------  --------
/// Baseline   1,234.5
/// bio       98,765.4
/// "
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<TableRow>,
    grouped: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TableRow {
    Cells(Vec<String>, Shade),
    Rule,
}

/// The background of a row in a page. A terminal does not show it, so the cells have to say the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shade {
    /// None.
    #[default]
    None,
    /// Of less weight than the other rows.
    Dim,
    /// As it should be.
    Good,
    /// Not far from that.
    Fair,
    /// Far from that.
    Poor,
    /// Wrong.
    Bad,
}

impl Shade {
    /// The class of the style sheet; empty for none.
    fn class(self) -> &'static str {
        match self {
            Shade::None => "",
            Shade::Dim => "dim",
            Shade::Good => "good",
            Shade::Fair => "fair",
            Shade::Poor => "poor",
            Shade::Bad => "bad",
        }
    }
}

impl Table {
    /// A table of these columns, without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new(), grouped: false }
    }

    /// Adds a row. Cells that are missing stay empty; cells too many get a column of text without a title.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) -> &mut Self {
        let cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        while self.columns.len() < cells.len() {
            self.columns.push(Column::text(""));
        }
        self.rows.push(TableRow::Cells(cells, Shade::None));
        self
    }

    /// Sets the background of the last row.
    pub fn shade(&mut self, shade: Shade) -> &mut Self {
        if let Some(TableRow::Cells(_, last)) = self.rows.last_mut() {
            *last = shade;
        }
        self
    }

    /// Adds a line across the table.
    pub fn rule(&mut self) -> &mut Self {
        self.rows.push(TableRow::Rule);
        self
    }

    /// Puts commas between the thousands of plain numbers in the columns of numbers.
    pub fn group_thousands(mut self) -> Self {
        self.grouped = true;
        self
    }

    /// The contents of a cell, before escaping.
    fn cell(&self, cells: &[String], column: usize) -> String {
        let text = cells.get(column).map_or("", String::as_str);
        if self.grouped && self.columns[column].align == Align::Right { group(text) } else { text.to_owned() }
    }

    fn has_units(&self) -> bool {
        self.columns.iter().any(|c| !c.unit.is_empty())
    }

    /// The table for a terminal, each line ended by a line feed. Headings are bold where colours are used; the
    /// contents of cells never contain escapes.
    ///
    /// A table that is wider than the terminal is not truncated: columns of text are wrapped, down to 24 columns each,
    /// and columns that still do not fit follow below, with the first column repeated.
    ///
    /// ```
    /// use platter_bench::report::{Column, Table, Terminal};
    /// let mut table = Table::new([Column::text("rung"), Column::number("rate", "MiB/s"), Column::text("what it adds")]);
    /// table.row(["SBIRV", "1234.5", "one call for many segments, which saves entries into the kernel"]);
    /// let narrow = Terminal { color: false, width: Some(46) };
    /// assert_eq!(
    ///     table.to_text(narrow),
    ///     "\
    /// rung     rate  what it adds
    ///         MiB/s
    /// -----  ------  -------------------------------
    /// SBIRV  1234.5  one call for many segments,
    ///                which saves entries into the
    ///                kernel
    /// "
    /// );
    /// ```
    pub fn to_text(&self, terminal: impl Into<Terminal>) -> String {
        self.grid().to_text(terminal.into())
    }

    /// Whether each row is one line on this terminal.
    pub fn fits(&self, terminal: impl Into<Terminal>) -> bool {
        self.grid().fits(terminal.into())
    }

    fn grid(&self) -> Grid {
        let cells = |row: &TableRow| match row {
            TableRow::Rule => None,
            TableRow::Cells(cells, _) => {
                Some((0..self.columns.len()).map(|i| one_line(&self.cell(cells, i))).collect())
            }
        };
        let mut heading: Vec<Vec<String>> = vec![self.columns.iter().map(|c| one_line(&c.title)).collect()];
        if self.has_units() {
            heading.push(self.columns.iter().map(|c| one_line(&c.unit)).collect());
        }
        let aligned = self.columns.iter().map(|column| column.align).collect();
        let rows = self.rows.iter().map(cells).collect();
        Grid { aligned, heading, rows }
    }

    /// The table as an HTML `table` element; everything from outside is escaped.
    pub fn to_html(&self) -> String {
        let class = |column: &Column, text: &str| match column.align {
            Align::Right => " class=\"num\"",
            Align::Left if text.chars().count() > LONG => " class=\"long\"",
            Align::Left => "",
        };
        let mut out = String::from("<table>\n<thead><tr>");
        for column in &self.columns {
            out += &format!("<th scope=\"col\"{}>{}", class(column, ""), escape(&column.title));
            if !column.unit.is_empty() {
                out += &format!("<br><span class=\"unit\">{}</span>", escape(&column.unit));
            }
            out += "</th>";
        }
        out += "</tr></thead>\n<tbody>\n";
        let mut after_rule = false;
        for row in &self.rows {
            let TableRow::Cells(cells, shade) = row else {
                after_rule = true;
                continue;
            };
            let classes: Vec<&str> = [if after_rule { "rule" } else { "" }, shade.class()]
                .into_iter()
                .filter(|class| !class.is_empty())
                .collect();
            out += &match classes.is_empty() {
                true => "<tr>".to_owned(),
                false => format!("<tr class=\"{}\">", classes.join(" ")),
            };
            after_rule = false;
            for (i, column) in self.columns.iter().enumerate() {
                let text = self.cell(cells, i);
                out += &format!("<td{}>{}</td>", class(column, &text), escape(&text));
            }
            out += "</tr>\n";
        }
        out + "</tbody>\n</table>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::columns;
    use super::*;
    use proptest::prelude::*;

    fn example() -> Table {
        let mut table =
            Table::new([Column::text("disk"), Column::number("rate", "MiB/s"), Column::text("note")]);
        table.row(["磁盘", "12345.6", "fast"]).row(["b.img", "7", ""]).rule().row(["sum", "-12352.6"]);
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        assert_eq!(
            example().to_text(false),
            "\
disk       rate  note
          MiB/s
-----  --------  ----
磁盘    12345.6  fast
b.img         7
-----  --------  ----
sum    -12352.6
"
        );
    }

    #[test]
    fn color_is_bold_headings_and_nothing_else() {
        let text = example().to_text(true);
        assert!(text.starts_with("\x1b[1mdisk       rate  note\x1b[0m\n\x1b[1m"));
        assert_eq!(text.replace("\x1b[1m", "").replace("\x1b[0m", ""), example().to_text(false));
        assert_eq!(text.matches('\x1b').count(), 4);
    }

    #[test]
    fn thousands_are_grouped_in_number_columns_only() {
        let mut table = Table::new([Column::text("pid"), Column::number("bytes", "")]).group_thousands();
        table.row(["12345", "12345"]);
        assert!(table.to_text(false).ends_with("\n12345  12,345\n"));
        assert!(table.to_html().contains("<td>12345</td><td class=\"num\">12,345</td>"));
        assert!(!table.to_text(false).contains("MiB"), "no line of units without units");
    }

    #[test]
    fn rows_of_the_wrong_length_are_shown_whole() {
        let mut table = Table::new([Column::text("a")]);
        table.row(["1", "2", "3"]).row([""; 0]);
        assert_eq!(table.to_text(false), "a\n-  -  -\n1  2  3\n\n");
        assert_eq!(Table::new([]).to_text(false), "\n\n");
    }

    #[test]
    fn html_is_escaped_and_marked_up() {
        let mut table = Table::new([Column::text("<x>"), Column::number("n", "\"u\"")]);
        table.row(["a & b", "1"]).rule().row(["</td>", "2"]);
        let html = table.to_html();
        assert!(html.contains("<th scope=\"col\">&lt;x&gt;</th>"));
        assert!(
            html.contains(
                "<th scope=\"col\" class=\"num\">n<br><span class=\"unit\">&quot;u&quot;</span></th>"
            )
        );
        assert!(html.contains("<tr><td>a &amp; b</td><td class=\"num\">1</td></tr>"));
        assert!(html.contains("<tr class=\"rule\"><td>&lt;/td&gt;</td>"));
    }

    #[test]
    fn the_shade_of_a_row_is_in_the_page_only() {
        let mut table = Table::new([Column::text("a")]);
        table.row(["1"]).rule().row(["2"]).shade(Shade::Bad).row(["3"]).shade(Shade::Dim);
        let html = table.to_html();
        assert!(html.contains("<tr><td>1</td></tr>\n<tr class=\"rule bad\"><td>2"), "{html}");
        assert!(html.contains("<tr class=\"dim\"><td>3"));
        assert_eq!(table.to_text(true).matches('\x1b').count(), 2, "the heading only");
    }

    proptest! {
        #[test]
        fn lines_never_break_and_columns_line_up(cells in prop::collection::vec((any::<String>(), any::<String>()), 1..8)) {
            let mut table = Table::new([Column::number("a", ""), Column::number("b", "")]);
            for (a, b) in &cells {
                table.row([a.clone(), b.clone() + "|"]);
            }
            let text = table.to_text(false);
            let lines: Vec<&str> = text.lines().collect();
            prop_assert_eq!(lines.len(), cells.len() + 2);
            prop_assert!(!text.contains('\x1b'));
            let widths: Vec<usize> = lines.iter().map(|l| columns(l)).collect();
            prop_assert!(widths[1..].iter().all(|&w| w == widths[1]), "{:?}", widths);
        }
    }
}
