//! The paper's figures as a page.

use super::{Personality, Plan, Point, Report};
use crate::report::HtmlReport;
use crate::report::svg::{Axis, Format, LineChart, Scale, Style};
use crate::report::units;

/// Which figure of the paper shows a personality over requests, and which over stripes.
fn numbers(personality: Personality) -> (Option<u32>, Option<u32>) {
    match personality {
        Personality::Jbod => (Some(1), None),
        Personality::Windows => (Some(2), None),
        Personality::Kernel24 => (Some(3), Some(4)),
        Personality::CsraidSync => (Some(5), None),
        Personality::CsraidPosix => (Some(6), Some(7)),
        Personality::CsraidAsync | Personality::CsraidAio => (None, None),
    }
}

fn title(figure: Option<u32>, what: &str) -> String {
    match figure {
        Some(number) => format!("Figure {number}: {what}"),
        None => what.to_owned(),
    }
}

fn rates() -> Axis {
    Axis::new("MiB/s of all disks").from_zero()
}

fn sizes(what: &str) -> Axis {
    Axis::new(what).scale(Scale::Log2).format(Format::Bytes)
}

/// Adds points as a line with their intervals, at the positions that `x` returns.
fn add<'a>(
    chart: LineChart,
    name: String,
    points: impl Iterator<Item = &'a Point> + Clone,
    x: fn(&Point) -> f64,
) -> LineChart {
    let chart = chart.series(name, Style::Line, points.clone().map(|point| (x(point), point.median())));
    chart.intervals(points.map(|point| (x(point), point.quartiles[0], point.quartiles[2])))
}

fn by_size(point: &Point) -> f64 {
    point.cell.request as f64
}

fn by_stripe_size(point: &Point) -> f64 {
    point.cell.stripe as f64
}

/// Bandwidth over the size of requests, with a line for each number of disks; `None` where there is nothing to draw.
fn by_request(points: &[Point], plan: &Plan, personality: Personality) -> Option<LineChart> {
    let what = format!("{} over the size of requests", personality.name());
    let mut chart = LineChart::new(title(numbers(personality).0, &what), sizes("request"), rates());
    let mut any = false;
    for &disks in &plan.disks {
        let of_line = points.iter().filter(move |point| {
            point.cell == plan.cell(personality, disks, point.cell.request)
                && plan.requests.contains(&point.cell.request)
        });
        any |= of_line.clone().next().is_some();
        let name = if disks == 1 { "1 disk".to_owned() } else { format!("{disks} disks") };
        chart = add(chart, name, of_line, by_size);
    }
    any.then_some(chart)
}

/// Bandwidth over the size of stripes on the most disks, with a line for each size of requests; `None` where there is
/// nothing to draw.
fn by_stripe(points: &[Point], plan: &Plan, personality: Personality) -> Option<LineChart> {
    if !personality.has_stripe() {
        return None;
    }
    let most = plan.disks.iter().max().copied()?;
    let what = format!("{} over the size of stripes, {most} disks", personality.name());
    let mut chart = LineChart::new(title(numbers(personality).1, &what), sizes("stripe"), rates());
    let mut any = false;
    for &request in &plan.stripe_requests {
        let mut of_line: Vec<&Point> = points
            .iter()
            .filter(|point| {
                let stripe = point.cell.stripe;
                let cell = super::Cell { stripe, ..plan.cell(personality, most, request) };
                point.cell == cell && plan.stripes.contains(&stripe)
            })
            .collect();
        of_line.sort_by_key(|point| point.cell.stripe);
        any |= !of_line.is_empty();
        let name = format!("requests of {}", units::bytes(request));
        chart = add(chart, name, of_line.into_iter(), by_stripe_size);
    }
    any.then_some(chart)
}

/// All personalities on the most disks.
fn comparison(points: &[Point], plan: &Plan) -> Option<LineChart> {
    let most = plan.disks.iter().max().copied()?;
    let name = format!("Figure 8: all on {most} disks, over the size of requests");
    let mut chart = LineChart::new(name, sizes("request"), rates());
    for &personality in &plan.personalities {
        let of_line = points.iter().filter(move |point| {
            point.cell == plan.cell(personality, most, point.cell.request)
                && plan.requests.contains(&point.cell.request)
        });
        chart = add(chart, personality.name().to_owned(), of_line, by_size);
    }
    (plan.personalities.len() > 1).then_some(chart)
}

/// The figures of the paper that there are points of.
pub fn figures(points: &[Point], plan: &Plan) -> Vec<LineChart> {
    let over_requests = plan.personalities.iter().filter_map(|&p| by_request(points, plan, p));
    let over_stripes = plan.personalities.iter().filter_map(|&p| by_stripe(points, plan, p));
    over_requests.chain(over_stripes).chain(comparison(points, plan)).collect()
}

impl Report {
    /// The report as a page that needs nothing else: figures with quartiles, and the table.
    pub fn to_html(&self, plan: &Plan) -> String {
        let mut page = HtmlReport::new("Chunks at random places");
        page.facts([
            ("disks", self.on.join(", ")),
            ("requests", if plan.write { "writes" } else { "reads" }.to_owned()),
            ("requests at once, asynchronous", plan.depth.to_string()),
            ("stripe", units::bytes(plan.stripe)),
        ]);
        page.paragraph(&self.method());
        page.paragraph("Figures are numbered as in C. Staelin, Disk I/O in Linux, HPL-2002-352.");
        for chart in figures(&self.points, plan) {
            page.chart(&chart, "");
        }
        page.heading("Points").table(&self.table());
        page.paragraph(&format!("Errors of the disks: {}.", self.errors_line()));
        page.finish()
    }
}
