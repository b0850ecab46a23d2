//! The report as a page with charts.

use super::depths::Depths;
use super::report::ReplayReport;
use crate::report::HtmlReport;
use crate::report::svg::{Axis, Format, LineChart, Style};
use crate::report::units::duration;

impl ReplayReport {
    /// The report as a page that needs nothing else.
    pub fn to_html(&self, inputs: &[String]) -> String {
        let mut page = HtmlReport::new("platter trace replay");
        if self.partial {
            page.paragraph("Partial: the run was interrupted.");
        }
        page.paragraph(&self.headline()).facts([("inputs", inputs.join(" "))]);
        page.heading("Kinds").table(&self.fates());
        page.heading("Times").table(&self.times()).facts(self.facts());
        page.heading("In flight");
        page.chart(&chart("In the replay", &self.depths), &note(&self.depths));
        if self.trace_depths.max() > 0 {
            page.chart(&chart("In the trace", &self.trace_depths), &note(&self.trace_depths));
        }
        page.finish()
    }
}

fn note(depths: &Depths) -> String {
    format!("In parts of {}.", duration(depths.span_ns))
}

fn chart(title: &str, depths: &Depths) -> LineChart {
    let time = Axis::new("time since the start").format(Format::Nanoseconds);
    let middle = |at: usize| (at as f64 + 0.5) * depths.span_ns as f64;
    let mean = depths.mean.iter().enumerate().map(|(at, mean)| (middle(at), *mean));
    let most = depths.most.iter().enumerate().map(|(at, most)| (middle(at), f64::from(*most)));
    LineChart::new(title, time, Axis::new("I/Os in flight").from_zero())
        .series("mean", Style::Line, mean)
        .series("most", Style::Line, most)
}
