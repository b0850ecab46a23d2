//! The comparison as a page.

use platter_bench::report::HtmlReport;
use platter_bench::report::svg::{Axis, Format, LineChart, Style};
use platter_sim::validate::Validation;

/// Points of each distribution that are drawn.
const POINTS: usize = 1000;

/// The page.
pub(super) fn html(disk: &str, trace: &str, result: &Validation) -> String {
    let mut page = HtmlReport::new(&format!("{disk} against a real disk"));
    page.facts([("disk", disk), ("trace", trace)]);
    page.facts(super::facts(result));
    page.table(&super::table(result));
    let axis = Axis::new("requests completed within this time").format(Format::Percent).from_zero();
    let chart = LineChart::new("Service times", Axis::new("ms").from_zero(), axis)
        .series("real disk", Style::Line, distribution(&result.real))
        .series("simulated", Style::Line, distribution(&result.sim));
    page.chart(
        &chart,
        "The demerit figure is the root mean square of the horizontal distance between the two lines, as a share of \
         the real mean. Errors of reads and of writes can hide each other in it: look at both.",
    );
    page.finish()
}

/// Milliseconds and the percent of requests up to them, from sorted nanoseconds.
fn distribution(sorted: &[u64]) -> Vec<(f64, f64)> {
    let step = (sorted.len() / POINTS).max(1);
    let all = sorted.len() as f64;
    let point = |at: usize| sorted.get(at).map(|&nanos| (nanos as f64 / 1e6, (at + 1) as f64 * 100.0 / all));
    let mut points: Vec<(f64, f64)> = (0..sorted.len()).step_by(step).filter_map(point).collect();
    points.extend(sorted.len().checked_sub(1).and_then(point));
    points
}
