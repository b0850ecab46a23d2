//! A report as a page with plots.

use super::{Call, Cell, Medium, Report, tables};
use crate::ladder::TABLE;
use crate::report::HtmlReport;
use crate::report::svg::{Axis, Bar, BarChart, Format};
use crate::stats::Sample;

/// The report as one HTML page that needs nothing else.
pub fn html(report: &Report) -> String {
    let mut page = HtmlReport::new("DM, up the ladder of the 2002 paper");
    page.facts(report.machine.iter().map(|(name, fact)| (*name, fact.as_str())));
    page.paragraph(&tables::method(report));
    if let Some(partial) = tables::partial(report) {
        page.paragraph(&partial);
    }
    for medium in report.media.iter().filter(|medium| !medium.cells.is_empty()) {
        page.heading(&format!("On {}", medium.on)).paragraph(&tables::about(medium));
        let cpu = Axis::new("CPU for a read of 64 KiB").format(Format::Nanoseconds);
        let cpu = chart("Processor time of a read", cpu, medium, Cell::cpu_ns_per_read);
        page.chart(&cpu, "Medians; the whiskers end at the lowest and the highest round.");
        let rate = chart("Throughput", Axis::new("MiB/s"), medium, Cell::mib_per_s);
        page.chart(&rate, "");
        page.subheading("Table 3, here and in the paper");
        for call in Call::ALL {
            page.table(&tables::table_3(medium, call));
        }
        page.subheading("What each rung saved");
        for call in Call::ALL {
            page.table(&tables::savings(medium, call));
        }
        page.paragraph(&format!("Errors of the disks: {}.", medium.errors_line()));
    }
    page.heading("The rungs").table(&tables::rungs());
    page.subheading("Memory").table(&tables::memory());
    page.heading("How to read it").paragraph(&tables::reading(report));
    page.finish()
}

/// Bars for each rung, one for each call.
fn chart(title: &str, axis: Axis, medium: &Medium, of: fn(&Cell) -> Sample) -> BarChart {
    let mut chart = BarChart::new(title, axis, TABLE.iter().map(|row| row.name));
    for call in Call::ALL {
        let bars = TABLE.iter().map(|row| {
            let sample = of(medium.cell(call, row.name)?);
            Some(Bar::with_whisker(sample.median(), sample.min(), sample.max()))
        });
        chart = chart.series(call.name(), bars.collect::<Vec<_>>());
    }
    chart
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dm::example::example;

    #[test]
    fn the_page_is_whole_and_escaped() {
        let page = html(&example());
        assert!(page.contains("Linux &lt;6&gt;") && page.contains("PARTIAL"));
        // Two plots, each for two widths of screen.
        assert_eq!(page.matches("<svg ").count(), 4);
        assert!(
            ["src=", "href=", "url(", "<script", "@import"].iter().all(|outside| !page.contains(outside))
        );
    }
}
