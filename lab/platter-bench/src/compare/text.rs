//! A comparison for people.

use super::judge::{Comparison, Row, Verdict, median};
use super::run::Metric;
use crate::report::units::{count, duration, fixed};
use crate::report::{Column, Shade, Table, Terminal};

/// A value with its unit.
pub(super) fn value_text(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Iops => count(value),
        Metric::MibPerS => fixed(value, 1),
        _ => duration(value.round() as u64),
    }
}

impl Comparison {
    /// The figures as a table.
    pub fn table(&self) -> Table {
        let mut table = Table::new([
            Column::text("job"),
            Column::text("figure"),
            Column::number("base", ""),
            Column::number("new", ""),
            Column::text("verdict"),
        ]);
        for row in &self.rows {
            let shown = |values: &[f64]| value_text(row.metric, median(values));
            table.row([
                row.job.clone(),
                row.metric.name().to_owned(),
                shown(&row.base),
                shown(&row.new),
                row.words(),
            ]);
            if let Some(shade) = shade(row) {
                table.shade(shade);
            }
        }
        table
    }

    /// In one line: what was compared.
    pub fn headline(&self) -> String {
        let runs = |count: usize| if count == 1 { "1 run".to_owned() } else { format!("{count} runs") };
        let (base, new) = (&self.base, &self.new);
        format!("{} ({}) against {} ({})", new.name, runs(new.runs.len()), base.name, runs(base.runs.len()))
    }

    /// As text for a terminal.
    pub fn to_text(&self, terminal: impl Into<Terminal>) -> String {
        let terminal = terminal.into();
        let mut out = terminal.paragraph(&self.headline(), 2);
        out += &self.table().to_text(terminal);
        for note in &self.notes {
            out += &terminal.paragraph(&format!("note: {note}"), 2);
        }
        out
    }
}

fn shade(row: &Row) -> Option<Shade> {
    match row.verdict {
        Verdict::Better => Some(Shade::Good),
        Verdict::Worse => Some(Shade::Bad),
        Verdict::NoDifference => None,
        Verdict::Unknown(_) => Some(Shade::Dim),
    }
}
