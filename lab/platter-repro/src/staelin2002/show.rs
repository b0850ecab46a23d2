//! Tables and figures of the report.

use super::WATCHED_REQUEST;
use super::found::Found;
use super::machine::DISKS;
use super::row::{LARGEST, MIB};
use platter_bench::chunked::{self, Cell, Personality, Plan, Point};
use platter_bench::report::svg::{Axis, Chart, Format, LineChart, Style};
use platter_bench::report::units::{bytes, fixed};
use platter_bench::report::{Column, Table};

/// The method, in paragraphs.
pub(super) fn method(samples: usize) -> Vec<String> {
    vec![
        format!(
            "Three Fujitsu MAN3367MP on one Ultra160 string on a PCI bus of 32 bits and 33 MHz, all of them models; \
             medians of {samples} samples of each process, as lmbench takes them, in virtual time."
        ),
        "\"roughly\" and \"nearly\" are a tenth, \"generally\" three \
         quarters of the sizes of requests, \"far more\" twice, \"substantial\" a tenth. csraid is csraid-posix: \
         each disk gets one part at a time, as with the aio of the paper. Arrays have one request at once, as one \
         process that issues its requests serially has; what four at once would be is shown beside it."
            .to_owned(),
        "Only the order of the systems' requests is modelled; processor time, page cache, copies and file locks \
         take no time."
            .to_owned(),
    ]
}

/// The kernel's array with less readahead, by name.
pub(super) fn variants(plan: &Plan, request: u64) -> impl Iterator<Item = (&'static str, Cell)> {
    let kernel = plan.cell(Personality::Kernel24, DISKS, request);
    let clipped = ("without overrun", Cell { overrun: false, ..kernel });
    [clipped, ("nothing ahead", Cell { readahead: Some(0), overrun: false, ..kernel })].into_iter()
}

/// Medians on all disks, and the activity of the disks.
pub(super) fn tables(found: &Found<'_>, watched: &[Point]) -> Vec<(String, Table)> {
    let names = found.plan.personalities.iter().map(|each| each.name());
    let names = names.chain(variants(found.plan, 0).map(|(name, _)| name));
    let names = names.chain(["four csraid-posix"]).map(|name| Column::number(name, "MiB/s"));
    let mut rates = Table::new(std::iter::once(Column::text("request")).chain(names));
    for &request in &found.plan.requests {
        let cells = found.plan.personalities.iter().map(|&each| found.plan.cell(each, DISKS, request));
        let cells = cells.chain(variants(found.plan, request).map(|(_, cell)| cell));
        let rate = |cell| found.point(&cell).map_or_else(|| "-".to_owned(), |point| fixed(point.median(), 2));
        let several = found.several(request, found.plan.stripe);
        let several = several.map_or_else(|| "-".to_owned(), |rate| fixed(rate, 2));
        rates.row(std::iter::once(bytes(request)).chain(cells.map(rate)).chain([several]));
    }
    let disks = (0..DISKS).map(|disk| Column::number(format!("disk {disk}"), "% busy"));
    let mut columns = vec![Column::text("personality")];
    columns.extend(disks);
    columns.push(Column::number("at work", "disks"));
    let mut busy = Table::new(columns);
    for point in watched {
        let Some(seen) = &point.busy else { continue };
        let all = seen.mean_pct.iter().sum::<f64>() / 100.0;
        let mut row = vec![point.cell.personality.name().to_owned()];
        row.extend(seen.mean_pct.iter().map(|&pct| fixed(pct, 1)));
        row.push(fixed(all, 2));
        busy.row(row);
    }
    vec![
        (format!("Bandwidth on {DISKS} disks"), rates),
        (format!("Disks at work while requests are of {}", bytes(WATCHED_REQUEST)), busy),
    ]
}

/// The paper's figures, and the activity of each disk over time.
pub(super) fn charts(plan: &Plan, points: &[Point], watched: &[Point]) -> Vec<LineChart> {
    let mut charts: Vec<LineChart> = chunked::figures(points, plan).into_iter().map(with_stated).collect();
    charts.extend(watched.iter().filter_map(utilisation));
    charts
}

/// A point of a figure that the text states: the start of the title of the figure, what the text says, the size of requests and the rate in MB/s.
/// Peaks are drawn at the largest size, because the text does not say where they are.
const STATED: [(&str, &str, u64, f64); 3] = [
    ("Figure 1:", "paper: a disk, 40 MB/s from 4 MB on", 4 * MIB, 40.0),
    ("Figure 1:", "paper: three disks, nearly 120 MB/s", LARGEST, 120.0),
    ("Figure 3:", "paper: three disks, 3/4 of the peak of Figure 1", LARGEST, 90.0),
];

/// The figure with the points that the text states of it. There are no other published ones: the curves were not published as numbers.
fn with_stated(chart: LineChart) -> LineChart {
    let title = chart.title().to_owned();
    let of_figure = STATED.iter().filter(|(figure, ..)| title.starts_with(figure));
    of_figure.fold(chart, |chart, &(_, says, request, rate)| {
        chart.series(says, Style::Points, [(request as f64, rate * 1e6 / MIB as f64)])
    })
}

/// How busy each disk was, a line for each: the question that the paper leaves open.
fn utilisation(point: &Point) -> Option<LineChart> {
    let busy = point.busy.as_ref()?;
    let title = format!(
        "Disks over time: {}, requests of {}",
        point.cell.personality.name(),
        bytes(point.cell.request)
    );
    let percent = Axis::new("busy").format(Format::Percent).from_zero();
    let mut chart = LineChart::new(title, Axis::new("seconds").from_zero(), percent);
    for (disk, timeline) in busy.timeline_pct.iter().enumerate() {
        let place = |part: usize| part as f64 * busy.bucket_s;
        let line = timeline.iter().enumerate().map(|(part, &pct)| (place(part), pct));
        chart = chart.series(format!("disk {disk}"), Style::Steps, line);
    }
    Some(chart)
}
