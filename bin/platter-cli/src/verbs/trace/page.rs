//! The sum of a trace as a page with charts.

use super::tables;
use platter_bench::report::HtmlReport;
use platter_bench::report::svg::{Axis, Bar, BarChart, Format, HeatChart, LineChart, Scale, Style};
use platter_bench::report::units::{bytes_short, duration, thousands};
use platter_traces::{Heat, Span, Summary};

/// The page.
pub(super) fn page(summary: &Summary, inputs: &[String], whole: bool) -> String {
    let mut page = HtmlReport::new("platter trace report");
    if !whole {
        page.paragraph("Partial: the run was interrupted.");
    }
    page.paragraph(&tables::headline(summary)).facts([("inputs", inputs.join(" "))]);
    if let Some(stages) = tables::stages(summary) {
        page.heading("Stages").table(&stages);
        page.paragraph("As in btt; p50 and p99 are exact to 1/64.");
    }
    if let Some(kinds) = tables::kinds(summary) {
        page.heading("Kinds").table(&kinds);
    }
    over_time(summary, &mut page);
    page.heading("Time and place");
    for heat in &summary.heat {
        page.chart(
            &heat_chart(heat),
            "The darker, the more bytes were read or written; shades are logarithmic.",
        );
    }
    if summary.heat_outside > 0 {
        page.paragraph(&format!("{} I/Os are on further devices.", thousands(summary.heat_outside)));
    }
    if let Some(sizes) = tables::sizes(summary) {
        page.heading("Sizes").chart(&size_chart(summary), "").table(&sizes);
    }
    if let Some(spreads) = tables::spreads(summary) {
        page.table(&spreads);
    }
    if let Some(misses) = tables::misses(summary) {
        let note = "Estimated from a sample of blocks of 4 KiB: SHARDS (Waldspurger, Park, Garthwaite, Ahmad, FAST '15).";
        page.heading("Reuse").chart(&miss_chart(summary), note).table(&misses);
    }
    page.heading("Further facts").facts(tables::facts(summary));
    page.finish()
}

fn time_axis() -> Axis {
    Axis::new("time since the first event").format(Format::Nanoseconds)
}

/// A value of each part of the time, at its middle.
fn points<'s>(
    summary: &'s Summary,
    value: impl Fn(&Span) -> f64 + 's,
) -> impl Iterator<Item = (f64, f64)> + 's {
    let middle = |at: usize| (at as f64 + 0.5) * summary.span_ns as f64;
    summary.spans.iter().enumerate().map(move |(at, span)| (middle(at), value(span)))
}

fn over_time(summary: &Summary, page: &mut HtmlReport) {
    let seconds = summary.span_ns as f64 / 1e9;
    let note = format!("In parts of {}.", duration(summary.span_ns));
    let mut rates = LineChart::new("I/Os over time", time_axis(), Axis::new("I/Os per second").from_zero());
    let mut flows = LineChart::new("Throughput over time", time_axis(), Axis::new("MiB/s").from_zero());
    for (kind, name) in ["reads", "writes", "discards", "flushes"].into_iter().enumerate() {
        if summary.kinds[kind].ios > 0 {
            rates = rates.series(name, Style::Line, points(summary, |span| span.ios[kind] as f64 / seconds));
        }
        if summary.kinds[kind].bytes > 0 {
            let rate = points(summary, |span| span.bytes[kind] as f64 / f64::from(1 << 20) / seconds);
            flows = flows.series(name, Style::Line, rate);
        }
    }
    let axis = Axis::new("bytes").format(Format::Bytes).from_zero();
    let working = LineChart::new("Working set over time", time_axis(), axis)
        .series("in the part", Style::Line, points(summary, |span| span.working_set_bytes as f64))
        .series("since the start", Style::Line, points(summary, |span| span.since_start_bytes as f64));
    page.heading("Over time").chart(&rates, &note).chart(&flows, &note);
    let estimate = "Different blocks of 4 KiB that were read or written, estimated with HyperLogLog: standard error 2.3 %.";
    page.chart(&working, &format!("{note} {estimate}"));
}

fn heat_chart(heat: &Heat) -> HeatChart {
    let columns =
        heat.columns.iter().map(|column| column.iter().map(|bytes| *bytes as f64).collect()).collect();
    let place = Axis::new("place on the device").format(Format::Bytes);
    let steps = (heat.column_ns as f64, heat.row_bytes as f64);
    HeatChart::new(format!("Device {}", heat.device), (time_axis(), place), steps, columns)
}

fn size_chart(summary: &Summary) -> BarChart {
    let names = summary.sizes.iter().map(|row| bytes_short(row.from_bytes));
    let mut chart = BarChart::new("Sizes of I/Os, from", Axis::new("I/Os"), names);
    for (kind, name) in ["reads", "writes", "discards"].into_iter().enumerate() {
        if summary.kinds[kind].ios > 0 {
            chart = chart.series(name, summary.sizes.iter().map(|row| Bar::new(row.ios[kind] as f64)));
        }
    }
    chart
}

fn miss_chart(summary: &Summary) -> LineChart {
    let size = Axis::new("size of an LRU cache").scale(Scale::Log2).format(Format::Bytes);
    let share = Axis::new("misses").format(Format::Percent).from_zero();
    let points = summary.reuse.misses.iter().map(|(size, pct)| (*size as f64, *pct));
    LineChart::new("Misses by size of cache", size, share).series("misses", Style::Steps, points)
}
