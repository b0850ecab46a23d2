//! A disk as a page: values, seek curve, zones.

use super::Shown;
use platter_bench::report::HtmlReport;
use platter_bench::report::svg::{Axis, LineChart, Style};

/// Points of the seek curve that are drawn.
const POINTS: usize = 600;

/// The page.
pub(super) fn html(shown: &Shown) -> String {
    let mut page = HtmlReport::new(&format!("Simulated disk {}", shown.name));
    page.facts(shown.facts());
    let derived = &shown.derived;
    if !derived.zones.is_empty() {
        let step = derived.seek_ms.len().div_ceil(POINTS).max(1);
        // Short seeks are drawn all.
        let drawn = |(distance, _): &(usize, &f64)| *distance < 100 || distance.is_multiple_of(step);
        let points = derived.seek_ms.iter().enumerate().filter(drawn).map(|(d, &ms)| (d as f64, ms));
        let seeks =
            LineChart::new("Seek time by distance", Axis::new("cylinders"), Axis::new("ms").from_zero())
                .series("read", Style::Line, points);
        page.chart(&seeks, "Before a write, the settling time is added.");
        let rates = |rate: fn(&super::derived::ZoneRates) -> f64| {
            let ends = move |zone: &super::derived::ZoneRates| {
                [(f64::from(zone.first), rate(zone)), (f64::from(zone.last), rate(zone))]
            };
            derived.zones.iter().flat_map(ends).collect::<Vec<_>>()
        };
        let zones = LineChart::new("Zones", Axis::new("cylinder"), Axis::new("MB/s").from_zero())
            .series("media", Style::Line, rates(|zone| zone.media))
            .series("sustained", Style::Line, rates(|zone| zone.sustained));
        page.chart(&zones, "Sustained: over whole cylinders, with the changes of head and cylinder.");
        page.heading("Zones").table(&derived.zone_table());
    }
    page.heading("Parameters");
    for (name, source, table) in shown.groups() {
        page.subheading(name).paragraph(&format!("Source: {source}.")).table(&table);
    }
    page.finish()
}
