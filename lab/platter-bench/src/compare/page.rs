//! Comparisons as a page with charts.

use super::judge::{Comparison, Evidence, Row};
use super::run::{Figures, Metric};
use super::side::Side;
use crate::report::HtmlReport;
use crate::report::svg::{Axis, Format, IntervalChart, LineChart, Scale, Style};
use crate::report::units::fixed;

/// Runs of a side of which the course is drawn; more would be a thicket.
const DRAWN: usize = 3;

/// The page.
pub fn page(comparisons: &[Comparison]) -> String {
    let mut page = HtmlReport::new("platter compare");
    for comparison in comparisons {
        let confidence = fixed(comparison.of_each * 100.0, 2);
        page.heading(&comparison.headline()).table(&comparison.table());
        page.paragraph(&format!(
            "Medians of the runs. Changes are ratios of geometric means, with intervals of {confidence} % each from permutation tests, \
             which hold together."
        ));
        for note in &comparison.notes {
            page.paragraph(&format!("Note: {note}."));
        }
        if let Some(chart) = ratios(comparison) {
            page.chart(&chart, "New over base, with intervals. 1: no change.");
        }
        let mut jobs: Vec<&str> = comparison.rows.iter().map(|row| row.job.as_str()).collect();
        jobs.dedup();
        for job in jobs {
            of_job(comparison, job, &mut page);
        }
    }
    page.finish()
}

fn ratios(comparison: &Comparison) -> Option<IntervalChart> {
    let rows: Vec<&Row> = comparison.rows.iter().filter(|row| row.evidence != Evidence::None).collect();
    let chart = IntervalChart::new("Change of each figure", Axis::new("new / base")).reference(1.0);
    let add = |chart: IntervalChart, row: &&Row| match row.ratio {
        Some(ratio) => chart.row(format!("{} {}", row.job, row.metric.name()), ratio),
        None => chart,
    };
    (!rows.is_empty()).then(|| rows.iter().fold(chart, add))
}

/// The figures of a job in each run of a side.
fn figures<'s>(side: &'s Side, job: &str) -> Vec<&'s Figures> {
    let keys = side.keys();
    // With one job on each side the names may differ.
    let direction = job.rsplit(' ').next().unwrap_or(job);
    let key = keys
        .iter()
        .find(|key| key.text() == job)
        .or_else(|| keys.iter().find(|key| key.direction == direction));
    let is_of = |figures: &&Figures| {
        key.is_some_and(|key| key.job == figures.job && key.direction == figures.direction)
    };
    side.runs.iter().filter_map(|run| run.figures.iter().find(is_of)).collect()
}

fn of_job(comparison: &Comparison, job: &str, page: &mut HtmlReport) {
    let sides = [("base", figures(&comparison.base, job)), ("new", figures(&comparison.new, job))];
    page.subheading(job);
    let axis = Axis::new("latency").scale(Scale::Log10).format(Format::Nanoseconds);
    let share = Axis::new("I/Os up to this latency").format(Format::Percent).from_zero();
    let mut chart = LineChart::new("Latencies", axis, share);
    let mut any = false;
    for (name, runs) in &sides {
        let points = distribution(runs);
        any |= !points.is_empty();
        chart = chart.series(*name, Style::Steps, points);
    }
    if any {
        page.chart(&chart, "All runs of a side together.");
    }
    if sides.iter().any(|(_, runs)| runs.iter().any(|one| one.series.contains_key(&Metric::Iops))) {
        let time = Axis::new("time since the start").format(Format::Nanoseconds);
        let mut chart = LineChart::new("I/Os over time", time, Axis::new("I/Os per second").from_zero());
        for (name, runs) in &sides {
            for (one, number) in runs.iter().zip(1u32..).take(DRAWN) {
                let Some(series) = one.series.get(&Metric::Iops) else { continue };
                let place = |at: usize| (at as f64 + 0.5) * one.interval_s * 1e9;
                let points: Vec<_> = series.iter().enumerate().map(|(at, &iops)| (place(at), iops)).collect();
                let label = if runs.len() > 1 { format!("{name} {number}") } else { (*name).to_owned() };
                chart = chart.series(label, Style::Line, points);
            }
        }
        page.chart(&chart, &format!("At most {DRAWN} runs of each side."));
    }
}

/// The share of I/Os, in percent, that a latency is not above.
fn distribution(runs: &[&Figures]) -> Vec<(f64, f64)> {
    let mut buckets: Vec<(f64, u64)> = runs.iter().flat_map(|run| run.buckets.iter().copied()).collect();
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: u64 = buckets.iter().map(|&(_, count)| count).sum();
    let mut seen = 0;
    let points = buckets.iter().map(|&(ns, count)| {
        seen += count;
        (ns.max(1.0), seen as f64 / total as f64 * 100.0)
    });
    points.collect()
}
