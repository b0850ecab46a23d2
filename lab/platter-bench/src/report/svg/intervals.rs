//! Intervals side by side, such as the confidence intervals of ratios.

use super::Chart;
use super::axis::Axis;
use super::canvas::{Anchor, Canvas, Frame, LINE, fit_text, stroke, text_width};
use crate::stats::Interval;

/// One horizontal interval per row, with its estimate marked, all over one axis.
#[derive(Debug, Clone)]
pub struct IntervalChart {
    title: String,
    axis: Axis,
    rows: Vec<(String, Interval)>,
    reference: Option<f64>,
}

/// Height of a row with its label, in pixels.
const ROW: f64 = 24.0;

impl IntervalChart {
    /// A chart without rows.
    pub fn new(title: impl Into<String>, axis: Axis) -> Self {
        Self { title: title.into(), axis, rows: Vec::new(), reference: None }
    }

    /// Adds a row.
    pub fn row(mut self, label: impl Into<String>, interval: Interval) -> Self {
        self.rows.push((label.into(), interval));
        self
    }

    /// Draws a line at this value (1 for ratios), which is then always in view.
    pub fn reference(mut self, value: f64) -> Self {
        self.reference = Some(value);
        self
    }

    fn takes(&self, row: &Interval) -> bool {
        [row.low, row.estimate, row.high].iter().all(|&v| self.axis.takes(v))
    }
}

impl Chart for IntervalChart {
    fn title(&self) -> &str {
        &self.title
    }

    fn svg(&self, width: u32) -> String {
        let mut canvas = Canvas::new(width);
        let longest = self.rows.iter().map(|(label, _)| text_width(label)).fold(0.0, f64::max);
        // Long labels stand above their intervals.
        let above = longest > canvas.width * 0.35;
        let row_height = if above { ROW + LINE - 2.0 } else { ROW };
        let reference = self.reference.filter(|&v| self.axis.takes(v));
        let drawn = self.rows.iter().map(|(_, i)| i).filter(|i| self.takes(i));
        let ends = drawn.flat_map(|i| [i.low, i.high]).chain(reference);
        let left = if above { 8.0 } else { longest + 14.0 };
        let right = canvas.width - 8.0;
        let axis = self.axis.fit(ends, (right - left) / 72.0);
        let bottom = 4.0 + row_height * self.rows.len().max(1) as f64;
        let frame = Frame { left, right, top: 0.0, bottom };
        canvas.x_grid(&frame, &axis);
        if let Some(value) = reference {
            let x = frame.x(&axis, value);
            canvas.line("r", (x, 0.0), (x, bottom));
        }
        for (n, (label, interval)) in self.rows.iter().enumerate() {
            let top = row_height * n as f64;
            let y = top + row_height - ROW / 2.0 + 2.0;
            let text = fit_text(label, canvas.width);
            if above {
                canvas.text("t", Anchor::Start, (0.0, top + 14.0), &text);
            } else {
                canvas.text("t", Anchor::End, (left - 10.0, y + 4.0), &text);
            }
            if !self.takes(interval) {
                continue;
            }
            let [low, middle, high] =
                [interval.low, interval.estimate, interval.high].map(|v| frame.x(&axis, v));
            let [from, at, to] = [interval.low, interval.estimate, interval.high].map(|v| self.axis.show(v));
            canvas.line(&stroke(0), (low, y), (high, y));
            for end in [low, high] {
                canvas.line(&stroke(0), (end, y - 5.0), (end, y + 5.0));
            }
            canvas.marker(0, (middle, y), &format!("{label}: {at} ({from} to {to})"));
        }
        let label = fit_text(&self.axis.label, canvas.width);
        let centre = (left + right) / 2.0;
        canvas.text("t", Anchor::Middle, (centre, bottom + 14.0 + LINE), &label);
        let missing = self.rows.iter().filter(|(_, i)| !self.takes(i)).count();
        let bottom = canvas.note_missing(bottom + 20.0 + LINE, missing);
        canvas.finish(bottom, &self.title)
    }
}
