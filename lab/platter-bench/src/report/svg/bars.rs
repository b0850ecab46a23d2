//! Grouped bars with error whiskers.

use super::Chart;
use super::axis::{Axis, Fitted};
use super::canvas::{Anchor, Canvas, Frame, LINE, color, fit_text, text_width, wrap};
use crate::stats::Interval;

/// A bar: its value, and the ends of its whisker.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    value: f64,
    whisker: Option<(f64, f64)>,
}

impl Bar {
    /// A bar without a whisker.
    pub fn new(value: f64) -> Self {
        Self { value, whisker: None }
    }

    /// A bar with a whisker from `low` to `high`.
    pub fn with_whisker(value: f64, low: f64, high: f64) -> Self {
        Self { value, whisker: Some((low, high)) }
    }
}

impl From<Interval> for Bar {
    fn from(interval: Interval) -> Self {
        Self::with_whisker(interval.estimate, interval.low, interval.high)
    }
}

/// A bar chart: for each category, one bar of each series. The axis is linear and always includes 0, because
/// the lengths of bars are compared.
#[derive(Debug, Clone)]
pub struct BarChart {
    title: String,
    axis: Axis,
    categories: Vec<String>,
    series: Vec<(String, Vec<Option<Bar>>)>,
}

impl BarChart {
    /// A chart without bars. The scale of `axis` is not used.
    pub fn new(
        title: impl Into<String>,
        axis: Axis,
        categories: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            title: title.into(),
            axis: axis.scale(super::Scale::Linear).from_zero(),
            categories: categories.into_iter().map(Into::into).collect(),
            series: Vec::new(),
        }
    }

    /// Adds a series: the bar of each category in order, `None` where there is none. More bars than categories
    /// add categories without a name.
    pub fn series(
        mut self,
        name: impl Into<String>,
        bars: impl IntoIterator<Item = impl Into<Option<Bar>>>,
    ) -> Self {
        let bars: Vec<Option<Bar>> = bars.into_iter().map(Into::into).collect();
        if self.categories.len() < bars.len() {
            self.categories.resize(bars.len(), String::new());
        }
        self.series.push((name.into(), bars));
        self
    }

    fn bars(&self) -> impl Iterator<Item = Bar> + '_ {
        self.series.iter().flat_map(|(_, bars)| bars.iter().flatten().copied())
    }

    fn fit(&self) -> Fitted {
        let ends = |b: Bar| [Some(b.value), b.whisker.map(|w| w.0), b.whisker.map(|w| w.1)];
        self.axis.fit(self.bars().flat_map(ends).flatten(), 5.0)
    }

    /// The width of a bar when each category has `group` pixels.
    fn bar_width(&self, group: f64) -> f64 {
        group * 0.8 / self.series.len().max(1) as f64
    }

    /// Whether the value of every bar can be written at its end.
    fn labels_fit(&self, group: f64) -> bool {
        let room = self.bar_width(group) + 2.0;
        self.bars().all(|b| text_width(&self.axis.show(b.value)) < room)
    }

    fn draw_group(&self, canvas: &mut Canvas, frame: &Frame, axis: &Fitted, category: usize, group: f64) {
        let bar = self.bar_width(group);
        let labels = self.labels_fit(group);
        let from = frame.left + group * (category as f64 + 0.1);
        let zero = frame.y(axis, 0.0);
        for (i, (name, bars)) in self.series.iter().enumerate() {
            let Some(b) = bars.get(category).copied().flatten().filter(|b| self.axis.takes(b.value)) else {
                continue;
            };
            let x = from + bar * i as f64;
            let y = frame.y(axis, b.value);
            let gap = (bar * 0.06).min(1.5);
            let class = format!("f{}", color(i));
            canvas.rect(&class, (x + gap, y), (x + bar - gap, zero), &self.tip(category, name, b));
            let middle = x + bar / 2.0;
            let (mut above, mut below) = (y.min(zero), y.max(zero));
            if let Some((low, high)) = b.whisker.filter(|w| self.axis.takes(w.0) && self.axis.takes(w.1)) {
                let (low, high) = (frame.y(axis, low), frame.y(axis, high));
                let half = (bar * 0.25).clamp(1.0, 6.0);
                canvas.line("w", (middle, low), (middle, high));
                canvas.line("w", (middle - half, low), (middle + half, low));
                canvas.line("w", (middle - half, high), (middle + half, high));
                (above, below) = (above.min(high).min(low), below.max(high).max(low));
            }
            if labels {
                let shown = self.axis.show(b.value);
                let y = if b.value < 0.0 { below + 12.0 } else { above - 4.0 };
                canvas.text("v", Anchor::Middle, (middle, y), &shown);
            }
        }
    }

    fn tip(&self, category: usize, name: &str, bar: Bar) -> String {
        let whisker = bar.whisker.map_or(String::new(), |(low, high)| {
            format!(" ({} to {})", self.axis.show(low), self.axis.show(high))
        });
        format!("{}, {name}: {}{whisker}", self.categories[category], self.axis.show(bar.value))
    }

    /// Writes the categories under the frame, broken into lines or, if a word is too long for that, slanted;
    /// gives where they end.
    fn draw_categories(&self, canvas: &mut Canvas, frame: &Frame, group: f64) -> f64 {
        let wrapped: Option<Vec<Vec<String>>> =
            self.categories.iter().map(|category| wrap(category, group - 4.0)).collect();
        let centre = |i: usize| frame.left + group * (i as f64 + 0.5);
        if let Some(categories) = wrapped {
            for (i, lines) in categories.iter().enumerate() {
                for (n, line) in lines.iter().enumerate() {
                    let at = (centre(i), frame.bottom + 14.0 + n as f64 * (LINE - 3.0));
                    canvas.text("k", Anchor::Middle, at, line);
                }
            }
            let lines = categories.iter().map(Vec::len).max().unwrap_or(0);
            return frame.bottom + 5.0 + (LINE - 3.0) * lines.max(1) as f64;
        }
        let mut longest: f64 = 0.0;
        for (i, category) in self.categories.iter().enumerate() {
            // A text slanted to the left has more room the further to the right it ends.
            let text = fit_text(category, (centre(i) / 0.77).min(150.0));
            longest = longest.max(text_width(&text));
            canvas.rotated_text("k", Anchor::End, (centre(i) + 4.0, frame.bottom + 12.0), -40, &text);
        }
        // The sine of 40 degrees is 0.64.
        frame.bottom + 16.0 + longest * 0.64
    }
}

impl Chart for BarChart {
    fn title(&self) -> &str {
        &self.title
    }

    fn svg(&self, width: u32) -> String {
        let mut canvas = Canvas::new(width);
        let names: Vec<&str> = self.series.iter().map(|(name, _)| name.as_str()).collect();
        let top = canvas.legend(0.0, &names, false);
        let label = fit_text(&self.axis.label, canvas.width);
        canvas.text("t", Anchor::Start, (0.0, top + 12.0), &label);
        let axis = self.fit();
        let widest = axis.ticks.iter().map(|t| text_width(&t.1)).fold(0.0, f64::max);
        let top = top + LINE + 14.0;
        let frame = Frame { left: widest + 6.0, right: canvas.width - 1.0, top, bottom: top + 190.0 };
        canvas.y_grid(&frame, &axis);
        let group = (frame.right - frame.left) / self.categories.len().max(1) as f64;
        for category in 0..self.categories.len() {
            self.draw_group(&mut canvas, &frame, &axis, category, group);
        }
        let bottom = self.draw_categories(&mut canvas, &frame, group);
        let missing = self.bars().filter(|b| !self.axis.takes(b.value)).count();
        let bottom = canvas.note_missing(bottom, missing);
        canvas.finish(bottom, &self.title)
    }
}
