//! All experiments in one report: a chapter for each document.

use crate::published::{self, Shown, Statement};
use crate::report::SHADES;
use crate::{Claim, Experiment, Hooks, Kind, Options, Progress, Report, ReproError, TABLE, Tally};
use platter_bench::report::{Column, HtmlReport, Table, Terminal};
use serde_json::{Value, json};
use std::sync::atomic::AtomicBool;

/// The reports of all experiments.
pub struct Reports {
    reports: Vec<Report>,
    scale: u64,
}

/// Runs every experiment, in the order of [`TABLE`]. `progress` is called after each simulation of each.
///
/// # Errors
/// Of the first experiment that fails, or is cancelled.
pub fn all(
    options: &Options,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(&Experiment, Progress),
) -> Result<Reports, ReproError> {
    run(TABLE, options, cancel, progress)
}

fn run(
    table: &'static [Experiment],
    options: &Options,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(&Experiment, Progress),
) -> Result<Reports, ReproError> {
    options.elevators.check(&table.iter().collect::<Vec<_>>())?;
    let run = |experiment: &'static Experiment| {
        let mut progress = |state| progress(experiment, state);
        let options = Options { elevators: options.elevators.for_experiment(experiment), ..options.clone() };
        experiment.run(&options, Hooks { cancel, progress: &mut progress })
    };
    let reports = table.iter().map(run).collect::<Result<Vec<Report>, ReproError>>()?;
    Ok(Reports { reports, scale: options.scale })
}

/// How many statements in words have a claim, and why each of the others has none, as sentences.
fn missing_statements() -> Vec<String> {
    let not = |statement: &Statement| match statement.shown {
        Shown::Not(why) => Some(format!(
            "Not tested: {}, {}: {}: {why}.",
            statement.document, statement.place, statement.says
        )),
        _ => None,
    };
    let missing: Vec<String> = published::statements().filter_map(not).collect();
    let all = published::statements().count();
    let first =
        format!("{} of {all} published statements in words are in these claims.", all - missing.len());
    [first].into_iter().chain(missing).collect()
}

/// The document that an experiment reproduces: that of its first claim.
fn document(report: &Report) -> &'static str {
    report.claims.first().map_or("", |claim| claim.document)
}

impl Reports {
    /// The reports, in the order of [`TABLE`].
    pub fn reports(&self) -> &[Report] {
        &self.reports
    }

    fn claims(&self) -> Vec<Claim> {
        self.reports.iter().flat_map(|report| report.claims.iter().cloned()).collect()
    }

    /// The documents, in the order in which experiments name them.
    fn documents(&self) -> Vec<&'static str> {
        let mut documents = Vec::new();
        for name in self.reports.iter().map(document) {
            if !documents.contains(&name) {
                documents.push(name);
            }
        }
        documents
    }

    /// The experiments of a document.
    fn chapter(&self, name: &str) -> impl Iterator<Item = &Report> {
        self.reports.iter().filter(move |report| document(report) == name)
    }

    fn sizes(&self) -> String {
        match self.scale {
            1 => "All sizes and times are those published.".to_owned(),
            scale => format!(
                "Published sizes and times are divided by {scale}, which changes some figures: the verdicts are those of --full."
            ),
        }
    }

    /// Predictions by document and distance, with their sum.
    fn totals_table(&self) -> Table {
        let numbers =
            ["predictions", "hold", "do not", "with figures", "within 15 %", "within 30 %", "factor of 2"];
        let titles = numbers.map(|title| Column::number(title, ""));
        let mut table = Table::new([Column::text("document")].into_iter().chain(titles));
        let tallies = Tally::of(&self.claims());
        let figures = |tally: &Tally| {
            [
                tally.predictions,
                tally.hold,
                tally.fail,
                tally.figures,
                tally.within_15_percent,
                tally.within_30_percent,
                tally.within_factor_2,
            ]
        };
        let mut sum = [0; 7];
        for tally in &tallies {
            let figures = figures(tally);
            sum.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += figure);
            table
                .row([tally.document.to_owned()].into_iter().chain(figures.map(|figure| figure.to_string())));
        }
        table.rule().row(["all".to_owned()].into_iter().chain(sum.map(|figure| figure.to_string())));
        table
    }

    /// What the totals leave out, as a sentence.
    fn others(&self) -> String {
        let claims = self.claims();
        let of = |kind: Kind| claims.iter().filter(move |claim| claim.kind == kind);
        let exact = of(Kind::Mechanism).filter(|claim| claim.holds() == Some(true)).count();
        format!(
            "Not in these totals: {} inputs, {} figures that follow from others, {} exact counts, {exact} of which hold, and {} \
             claims that no document makes.",
            of(Kind::Input).count(),
            of(Kind::Derived).count(),
            of(Kind::Mechanism).count(),
            of(Kind::Ours).count()
        )
    }

    /// How many published numbers have a claim, and why the others have none, as sentences.
    fn missing(&self) -> Vec<String> {
        let mut reasons: Vec<(&str, &str, usize)> = Vec::new();
        let mut shown = 0;
        for figure in published::figures() {
            let Shown::Not(why) = figure.shown else {
                shown += 1;
                continue;
            };
            match reasons.iter_mut().find(|reason| (reason.0, reason.1) == (figure.document, why)) {
                Some(reason) => reason.2 += 1,
                None => reasons.push((figure.document, why, 1)),
            }
        }
        let all = published::figures().count();
        let first = format!("{shown} of {all} published numbers are in these claims.");
        let rest = reasons
            .iter()
            .map(|(document, why, count)| format!("Not reproduced: {count} of {document}: {why}."));
        [first].into_iter().chain(rest).chain(missing_statements()).collect()
    }

    /// All claims as text, a chapter for each document, and the totals.
    pub fn to_text(&self, terminal: impl Into<Terminal>) -> String {
        let terminal = terminal.into();
        let mut out = terminal.paragraph(&self.sizes(), 0) + "\n";
        for name in self.documents() {
            out += &format!("{}\n", terminal.heading(name));
            for report in self.chapter(name) {
                let title = format!("{}: {}", report.name, report.summary);
                out += &format!(
                    "\n{}{}",
                    terminal.paragraph(&title, 0),
                    report.claims_table().to_text(terminal)
                );
            }
            out.push('\n');
        }
        out += &format!("{}\n{}\n", terminal.heading("Predictions"), self.totals_table().to_text(terminal));
        out += &terminal.paragraph(&self.others(), 0);
        self.missing().iter().for_each(|line| out += &terminal.paragraph(line, 0));
        out
    }

    /// All reports as one page that needs nothing else.
    pub fn to_html(&self) -> String {
        let mut page = HtmlReport::new("platter repro all");
        page.paragraph("Published experiments on Linux's block I/O, each figure with ours beside it.");
        page.paragraph(&self.sizes());
        page.paragraph(SHADES);
        page.heading("Predictions").table(&self.totals_table()).paragraph(&self.others());
        self.missing().iter().for_each(|line| _ = page.paragraph(line));
        for name in self.documents() {
            page.heading(name);
            for report in self.chapter(name) {
                page.subheading(&format!("platter repro {}", report.name)).paragraph(report.summary);
                report.write_to(&mut page);
            }
        }
        page.finish()
    }

    /// All claims as one JSON object. Its keys are listed in `docs/command.md`.
    pub fn to_json(&self) -> Value {
        let claims = self.reports.iter().flat_map(|report| {
            report.claims.iter().map(|claim| {
                let mut value = claim.to_json();
                value["experiment"] = json!(report.name);
                value
            })
        });
        let notes: Vec<Value> = self
            .reports
            .iter()
            .map(|report| json!({ "experiment": report.name, "document": document(report), "notes": report.method }))
            .collect();
        let missing = published::figures().filter_map(|figure| match figure.shown {
            Shown::Not(why) => Some(json!({
                "document": figure.document,
                "place": figure.place,
                "what": figure.what,
                "published": figure.value,
                "reason": why,
            })),
            _ => None,
        });
        let untested = published::statements().filter_map(|statement| match statement.shown {
            Shown::Not(why) => Some(json!({
                "document": statement.document,
                "place": statement.place,
                "says": statement.says,
                "reason": why,
            })),
            _ => None,
        });
        json!({
            "scale": self.scale,
            "missing": missing.collect::<Vec<_>>(),
            "missing_statements": untested.collect::<Vec<_>>(),
            "experiments": notes,
            "totals": Tally::of(&self.claims()),
            "claims": claims.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rule;
    use std::sync::atomic::Ordering;

    fn report(name: &'static str, document: &'static str) -> Report {
        let claim = |id, kind, ours| Claim {
            published: Some(1.0),
            ours: Some(ours),
            ..Claim::new(id, kind, (document, "a place"), ("says", "s"), Rule::Between(0.9, 1.1))
        };
        Report {
            name,
            summary: "one line",
            method: vec!["how".to_owned()],
            tables: Vec::new(),
            charts: Vec::new(),
            claims: vec![
                claim("set", Kind::Input, 1.0),
                claim("close", Kind::Prediction, 1.05),
                claim("far", Kind::Prediction, 1.25),
            ],
            scale: 4,
        }
    }

    static OF_TESTS: [Experiment; 3] = [
        Experiment {
            name: "a",
            summary: "",
            elevators: crate::no_elevators,
            run: |_, _| Ok(report("a", "One")),
        },
        Experiment {
            name: "b",
            summary: "",
            elevators: crate::no_elevators,
            run: |_, _| Ok(report("b", "Two")),
        },
        Experiment {
            name: "c",
            summary: "",
            elevators: crate::no_elevators,
            run: |_, hooks| {
                (hooks.progress)(Progress { done: 1, total: 1 });
                match hooks.cancel.load(Ordering::Relaxed) {
                    true => Err(ReproError::Interrupted),
                    false => Ok(report("c", "One")),
                }
            },
        },
    ];

    fn of_tests() -> Reports {
        run(&OF_TESTS, &Options::default(), &AtomicBool::new(false), &mut |_, _| ()).unwrap()
    }

    #[test]
    fn chapters_are_documents_and_totals_count_each_claim_once() {
        let reports = of_tests();
        assert_eq!(reports.documents(), ["One", "Two"]);
        let names: Vec<&str> = reports.chapter("One").map(|report| report.name).collect();
        assert_eq!(names, ["a", "c"]);
        let text = reports.to_text(false);
        let sum = text.lines().find(|line| line.starts_with("all")).unwrap();
        assert_eq!(sum.split_whitespace().collect::<Vec<_>>(), ["all", "6", "3", "3", "6", "3", "6", "6"]);
        let html = reports.to_html();
        assert_eq!(html.matches("<tr class=\"good\">").count(), 3);
        assert_eq!(html.matches("<tr class=\"fair\">").count(), 3);
        assert_eq!(html.matches("<tr class=\"dim\">").count(), 3);
    }

    #[test]
    fn claims_name_their_experiment() {
        let json = of_tests().to_json();
        let claims = json["claims"].as_array().unwrap();
        let names: Vec<&str> = claims.iter().map(|claim| claim["experiment"].as_str().unwrap()).collect();
        assert_eq!(names, ["a", "a", "a", "b", "b", "b", "c", "c", "c"]);
        assert_eq!(json["totals"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn progress_names_the_experiment_and_cancelling_ends_all() {
        let mut seen = Vec::new();
        let mut note = |experiment: &Experiment, state: Progress| seen.push((experiment.name, state.done));
        let result = run(&OF_TESTS, &Options::default(), &AtomicBool::new(true), &mut note);
        assert!(matches!(result, Err(ReproError::Interrupted)));
        assert_eq!(seen, [("c", 1)]);
    }
}
