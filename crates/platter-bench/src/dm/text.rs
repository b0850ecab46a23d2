//! A report for the terminal.

use super::{Call, Report, tables};
use platter_disk::ladder::TABLE;

/// Columns of running text.
const WIDTH: usize = 110;

/// The report as text; `color` makes headings bold.
pub fn text(report: &Report, color: bool) -> String {
    let bold = |text: &str| if color { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() };
    let mut out = bold("DM, up the ladder of the 2002 paper (docs/ladder.md)") + "\n";
    for (name, fact) in &report.machine {
        out += &format!("{name}: {fact}\n");
    }
    out += &(wrap(&tables::method(report)) + "\n");
    if let Some(partial) = tables::partial(report) {
        out += &(bold(&partial) + "\n");
    }
    for medium in report.media.iter().filter(|medium| !medium.cells.is_empty()) {
        out += &format!("\n{}\n", bold(&wrap(&format!("On {}", tables::about(medium)))));
        for call in Call::ALL.into_iter().filter(|&call| medium.cells_with(call).next().is_some()) {
            out += &("\n".to_owned() + &tables::table_3(medium, call).to_text(color));
        }
        out += &format!("\n{}\n", bold("What each rung saved"));
        for call in Call::ALL.into_iter().filter(|&call| medium.cells_with(call).next().is_some()) {
            out += &("\n".to_owned() + &tables::savings(medium, call).to_text(color));
        }
    }
    out += &format!("\n{}\n", bold("The rungs"));
    for row in TABLE {
        out += &format!("  {:9} {}\n", row.name, row.adds);
    }
    out += &format!("\n{}\n", tables::memory().to_text(color));
    out + &wrap(&tables::reading(report)) + "\n"
}

/// Breaks running text into lines.
fn wrap(text: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let len = word.chars().count();
        if column > 0 && column + 1 + len > WIDTH {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out += word;
        column += len;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dm::example::example;

    #[test]
    fn the_tables_stand_beside_the_papers() {
        let text = text(&example(), false);
        assert!(text.contains("PARTIAL"), "{text}");
        let baseline: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("Baseline "))
            .flat_map(str::split_whitespace)
            .collect();
        // 100 reads in 1 s and in 2 s: 6.25 and 3.1 MiB/s.
        assert_eq!(baseline[..7], ["Baseline", "5", "33", "50", "54", "64", "Baseline"]);
        assert_eq!(baseline[7..14], ["60,000", "17", "128", "1", "64", "0", "0.0"]);
        assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
    }

    #[test]
    fn an_empty_kind_of_disks_is_left_out() {
        let mut report = example();
        report.media[0].cells.clear();
        assert!(report.is_empty());
        assert!(!text(&report, false).contains("What each rung saved"));
    }
}
