//! The results of an experiment, for people and for programs.

use super::Kind;
use super::claim::{Claim, number};
use super::tally::Tally;
use platter_bench::report::svg::LineChart;
use platter_bench::report::{Column, HtmlReport, Shade, Table, Terminal};
use serde_json::{Value, json};

/// The results of an experiment.
pub struct Report {
    /// Its name.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The method, in paragraphs.
    pub method: Vec<String>,
    /// Tables with their titles.
    pub tables: Vec<(String, Table)>,
    /// Figures of its page.
    pub charts: Vec<LineChart>,
    /// The claims.
    pub claims: Vec<Claim>,
    /// Divisor of published sizes and times.
    pub scale: u64,
}

impl Report {
    /// The report as text.
    pub fn to_text(&self, terminal: impl Into<Terminal>) -> String {
        let terminal = terminal.into();
        let mut out = format!("{}\n{}", terminal.heading(self.name), terminal.paragraph(self.summary, 0));
        for paragraph in &self.method {
            out += &terminal.paragraph(paragraph, 0);
        }
        for (title, table) in &self.tables {
            out += &format!("\n{}\n{}", terminal.heading(title), table.to_text(terminal));
        }
        out += &format!("\n{}\n{}", terminal.heading("Claims"), self.claims_table().to_text(terminal));
        for claim in self.claims.iter().filter(|claim| claim.holds() != Some(true)) {
            out += &terminal.fact(claim.id, claim.reason.as_deref().unwrap_or("-"));
        }
        out + &format!("\n{}\n", self.verdict())
    }

    /// The report as a page that needs nothing else.
    pub fn to_html(&self) -> String {
        let mut page = HtmlReport::new(&format!("platter repro {}", self.name));
        page.paragraph(self.summary).paragraph(SHADES);
        self.write_to(&mut page);
        page.finish()
    }

    /// Everything but the title and the summary.
    pub(super) fn write_to(&self, page: &mut HtmlReport) {
        for paragraph in &self.method {
            page.paragraph(paragraph);
        }
        for line in self.verdict().lines() {
            page.paragraph(line);
        }
        page.subheading("Claims").table(&self.claims_table());
        for claim in &self.claims {
            if let Some(reason) = &claim.reason {
                page.paragraph(&format!("{}: {reason}", claim.id));
            }
        }
        for (title, table) in &self.tables {
            page.subheading(title).table(table);
        }
        for chart in &self.charts {
            page.chart(chart, "");
        }
    }

    /// The report as one JSON object. Its keys are listed in `docs/command.md`.
    pub fn to_json(&self) -> Value {
        json!({
            "experiment": self.name,
            "scale": self.scale,
            "notes": self.method,
            "totals": Tally::of(&self.claims),
            "claims": self.claims.iter().map(Claim::to_json).collect::<Vec<_>>(),
        })
    }

    fn verdict(&self) -> String {
        let totals: Vec<String> = Tally::of(&self.claims).iter().map(Tally::text).collect();
        match totals.is_empty() {
            true => "No claim is a prediction: no total".to_owned(),
            false => totals.join("\n"),
        }
    }

    pub(super) fn claims_table(&self) -> Table {
        let mut table = Table::new([
            Column::text("claim"),
            Column::text("kind"),
            Column::number("published", ""),
            Column::number("ours", ""),
            Column::number("of seeds", ""),
            Column::number("here", ""),
            Column::text("unit"),
            Column::text("holds if"),
            Column::text("holds"),
            Column::text("statement"),
        ]);
        let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
        for claim in &self.claims {
            let holds = match (claim.holds(), claim.depends_on_seed()) {
                (Some(true), false) => "yes",
                (Some(true), true) => "yes, not with every seed",
                (Some(false), false) => "NO",
                (Some(false), true) => "NO, but with another seed",
                (None, _) => "-",
            };
            table.row([
                claim.id.to_owned(),
                claim.kind.name().to_owned(),
                figure(claim.published),
                figure(claim.ours),
                claim
                    .interval
                    .map_or_else(String::new, |[low, high]| format!("{}..{}", number(low), number(high))),
                figure(claim.here),
                claim.unit.to_owned(),
                claim.rule.text(),
                holds.to_owned(),
                claim.says.to_owned(),
            ]);
            table.shade(shade(claim));
        }
        table
    }
}

/// What the backgrounds of rows mean.
pub(super) const SHADES: &str = "Inputs and what follows from them are grey. Of the other claims the background shows how far \
    our figure is from the published one: green within 15 %, yellow within 30 %, orange within a factor of 2, red beyond. A claim \
    without a published figure is green if it holds and red if it does not.";

fn shade(claim: &Claim) -> Shade {
    let holds = match claim.holds() {
        Some(true) => Shade::Good,
        Some(false) => Shade::Bad,
        None => Shade::None,
    };
    match (claim.kind, claim.factor()) {
        (Kind::Input | Kind::Derived, _) => Shade::Dim,
        (_, Some(factor)) if factor <= 1.15 => Shade::Good,
        (_, Some(factor)) if factor <= 1.3 => Shade::Fair,
        (_, Some(factor)) if factor <= 2.0 => Shade::Poor,
        (_, Some(_)) => Shade::Bad,
        (_, None) => holds,
    }
}
