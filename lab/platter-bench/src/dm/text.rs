//! A report for the terminal.

use super::{Call, Report, tables};
use crate::ladder::TABLE;
use crate::report::Terminal;

/// The report as text.
pub fn text(report: &Report, terminal: impl Into<Terminal>) -> String {
    let terminal = terminal.into();
    let mut out = terminal.heading("DM, up the ladder of the 2002 paper (docs/ladder.md)") + "\n";
    for (name, fact) in &report.machine {
        out += &terminal.fact(name, fact);
    }
    out += &terminal.paragraph(&tables::method(report), 0);
    if let Some(partial) = tables::partial(report) {
        out += &terminal.paragraph(&partial, 0);
    }
    for medium in report.media.iter().filter(|medium| !medium.cells.is_empty()) {
        out += &format!("\n{}\n", terminal.heading(&format!("On {}", medium.about)));
        for (name, fact) in &medium.facts {
            out += &terminal.fact(name, fact);
        }
        for call in Call::ALL.into_iter().filter(|&call| medium.cells_with(call).next().is_some()) {
            out += &("\n".to_owned() + &tables::table_3(medium, call).to_text(terminal));
        }
        out += &format!("\n{}\n", terminal.heading("What each rung saved"));
        for call in Call::ALL.into_iter().filter(|&call| medium.cells_with(call).next().is_some()) {
            out += &("\n".to_owned() + &tables::savings(medium, call).to_text(terminal));
        }
        out += &terminal.fact("errors of the disks", &medium.errors_line());
    }
    out += &format!("\n{}\n", terminal.heading("The rungs"));
    for row in TABLE {
        let text = terminal.indented(2).paragraph(&format!("{:9} {}", row.name, row.adds), 10);
        text.lines().for_each(|line| out += &format!("  {line}\n"));
    }
    out += &format!("\n{}\n", tables::memory().to_text(terminal));
    out + &terminal.paragraph(&tables::reading(report), 0)
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
    }

    #[test]
    fn it_fits_a_terminal_of_80_columns() {
        let terminal = Terminal { color: false, width: Some(80) };
        let text = text(&example(), terminal);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        // The paper's columns are in a second table below, again with the rungs.
        assert!(text.contains("2002: rate") && text.matches("Baseline ").count() > 2, "{text}");
    }

    #[test]
    fn an_empty_kind_of_disks_is_left_out() {
        let mut report = example();
        report.media[0].cells.clear();
        assert!(report.is_empty());
        assert!(!text(&report, false).contains("What each rung saved"));
    }
}
