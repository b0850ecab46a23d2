//! Lines and points over two axes.

use super::Chart;
use std::collections::BTreeSet;

use super::axis::{Axis, Fitted};
use super::canvas::{Anchor, Canvas, Frame, LINE, fit_text, stroke, text_width};

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// A line through the points in their order, with a mark on each if there are few.
    #[default]
    Line,
    /// Marks only.
    Points,
    /// A line that keeps each value until the next point (distributions, counters).
    Steps,
}

/// A plot of y over x.
#[derive(Debug, Clone)]
pub struct LineChart {
    title: String,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
}

#[derive(Debug, Clone)]
struct Series {
    name: String,
    style: Style,
    points: Vec<(f64, f64)>,
    /// Place, lower and upper end.
    intervals: Vec<(f64, f64, f64)>,
}

/// Lines with more points than this have no marks.
const MARKED: usize = 40;
/// More points than this (in all series) have no tooltips.
const TIPS: usize = 400;
/// More marks than this in one series are a crowd.
const CROWD: usize = 2000;

impl LineChart {
    /// A plot without series.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, series: Vec::new() }
    }

    /// Adds a series of points `(x, y)`.
    pub fn series(
        mut self,
        name: impl Into<String>,
        style: Style,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        let points = points.into_iter().collect();
        self.series.push(Series { name: name.into(), style, points, intervals: Vec::new() });
        self
    }

    /// Gives the last series intervals `(x, low, high)`: upright lines at its points.
    pub fn intervals(mut self, intervals: impl IntoIterator<Item = (f64, f64, f64)>) -> Self {
        if let Some(series) = self.series.last_mut() {
            series.intervals.extend(intervals);
        }
        self
    }

    /// The ends of all intervals that can be drawn.
    fn ends(&self) -> impl Iterator<Item = [(f64, f64); 2]> + '_ {
        let all = self.series.iter().flat_map(|s| s.intervals.iter());
        all.map(|&(x, low, high)| [(x, low), (x, high)])
            .filter(|ends| ends.iter().all(|&end| self.takes(end)))
    }

    fn points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.series.iter().flat_map(|s| s.points.iter().copied())
    }

    fn takes(&self, (x, y): (f64, f64)) -> bool {
        self.x.takes(x) && self.y.takes(y)
    }

    fn draw(&self, canvas: &mut Canvas, frame: &Frame, (x, y): (&Fitted, &Fitted), tips: bool) {
        let place = |p: (f64, f64)| (frame.x(x, p.0), frame.y(y, p.1));
        for [low, high] in self.ends() {
            canvas.line("w", place(low), place(high));
        }
        for (i, series) in self.series.iter().enumerate() {
            if series.style != Style::Points {
                // A point without a place interrupts the line.
                for run in series.points.split(|&p| !self.takes(p)).filter(|run| !run.is_empty()) {
                    let pixels: Vec<(f64, f64)> = run.iter().map(|&p| place(p)).collect();
                    let pixels = if series.style == Style::Steps { steps(&pixels) } else { pixels };
                    canvas.polyline(&stroke(i), &thin_line(pixels));
                }
            }
            if series.style == Style::Points || series.points.len() <= MARKED {
                let mut points: Vec<(f64, f64)> =
                    series.points.iter().copied().filter(|&p| self.takes(p)).collect();
                thin_points(&mut points, place);
                for p in points {
                    if tips {
                        canvas.marker(i, place(p), &self.tip(&series.name, p));
                    } else {
                        canvas.faint_marker(i, place(p));
                    }
                }
            }
        }
    }

    fn tip(&self, name: &str, (x, y): (f64, f64)) -> String {
        format!("{name}: {} at {}", self.y.show(y), self.x.show(x))
    }
}

impl Chart for LineChart {
    fn title(&self) -> &str {
        &self.title
    }

    fn svg(&self, width: u32) -> String {
        let mut canvas = Canvas::new(width);
        let names: Vec<&str> = self.series.iter().map(|s| s.name.as_str()).collect();
        let top = canvas.legend(0.0, &names, true);
        let label = fit_text(&self.y.label, canvas.width);
        canvas.text("t", Anchor::Start, (0.0, top + 12.0), &label);
        let drawn = || self.points().filter(|&p| self.takes(p));
        let y = self.y.fit(drawn().chain(self.ends().flatten()).map(|p| p.1), 5.0);
        let widest = y.ticks.iter().map(|t| text_width(&t.1)).fold(0.0, f64::max);
        let top = top + LINE + 8.0;
        let frame = Frame { left: widest + 6.0, right: canvas.width - 8.0, top, bottom: top + 200.0 };
        let x = self.x.fit(drawn().map(|p| p.0), (frame.right - frame.left) / 72.0);
        canvas.y_grid(&frame, &y);
        canvas.x_grid(&frame, &x);
        self.draw(&mut canvas, &frame, (&x, &y), self.points().count() <= TIPS);
        let middle = (frame.left + frame.right) / 2.0;
        let label = fit_text(&self.x.label, canvas.width);
        canvas.text("t", Anchor::Middle, (middle, frame.bottom + 14.0 + LINE), &label);
        let missing = self.points().filter(|&p| !self.takes(p)).count();
        let bottom = canvas.note_missing(frame.bottom + 20.0 + LINE, missing);
        canvas.finish(bottom, &self.title)
    }
}

/// A line that runs horizontally to the next point and then vertically to it.
fn steps(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let corners = points.windows(2).flat_map(|w| [w[0], (w[1].0, w[0].1)]);
    corners.chain(points.last().copied()).collect()
}

/// Leaves out points that change no pixel: of each run within one column, the first, the lowest, the highest and
/// the last are kept (M4: Jugel et al., "M4: A Visualization-Oriented Time Series Data Aggregation", 2014).
fn thin_line(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let mut out = Vec::with_capacity(points.len().min(4096));
    for run in points.chunk_by(|a, b| a.0.round() == b.0.round()) {
        let by_height = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let index = |p: Option<&(f64, f64)>| p.map_or(0, |p| run.iter().position(|q| q == p).unwrap_or(0));
        let mut keep =
            [0, index(run.iter().min_by(by_height)), index(run.iter().max_by(by_height)), run.len() - 1];
        keep.sort_unstable();
        let mut last = None;
        for i in keep {
            if last != Some(i) {
                out.push(run[i]);
            }
            last = Some(i);
        }
    }
    out
}

/// Keeps one of all points that fall on the same pixel, or, of a crowd, on the same 3 × 3 pixels.
fn thin_points(points: &mut Vec<(f64, f64)>, place: impl Fn((f64, f64)) -> (f64, f64)) {
    let cell = if points.len() > CROWD { 3.0 } else { 1.0 };
    let mut seen = BTreeSet::new();
    points.retain(|&p| {
        let (x, y) = place(p);
        seen.insert(((x / cell).round() as i64, (y / cell).round() as i64))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_outline() {
        let noisy: Vec<(f64, f64)> =
            (0..100_000).map(|i| (f64::from(i) / 1000.0, f64::from(i * 7919 % 1000))).collect();
        let thin = thin_line(noisy.clone());
        assert!(thin.len() <= 4 * 102, "{}", thin.len());
        assert_eq!((thin[0], thin[thin.len() - 1]), (noisy[0], noisy[99_999]));
        for column in 0..100 {
            let range = |points: &[(f64, f64)]| {
                let inside = points.iter().filter(|p| p.0.round() as i32 == column).map(|p| p.1);
                inside.fold((f64::MAX, f64::MIN), |(low, high), v| (v.min(low), v.max(high)))
            };
            assert_eq!(range(&thin), range(&noisy));
        }
        let few = vec![(0.0, 1.0), (5.0, 2.0), (5.0, 0.0), (9.0, 1.0)];
        assert_eq!(thin_line(few.clone()), few);
    }

    #[test]
    fn crowds_of_points_are_thinned() {
        let mut few: Vec<(f64, f64)> = (0..100).map(|i| (f64::from(i % 10), 0.2)).collect();
        thin_points(&mut few, |p| p);
        assert_eq!(few.len(), 10);
        let mut many: Vec<(f64, f64)> =
            (0..90_000).map(|i| (f64::from(i % 300), f64::from(i / 300))).collect();
        thin_points(&mut many, |p| p);
        assert_eq!(many.len(), 101 * 101);
    }

    #[test]
    fn steps_keep_the_value() {
        assert_eq!(steps(&[(0.0, 1.0), (2.0, 5.0)]), [(0.0, 1.0), (2.0, 1.0), (2.0, 5.0)]);
        assert_eq!(steps(&[(0.0, 1.0)]), [(0.0, 1.0)]);
    }
}
