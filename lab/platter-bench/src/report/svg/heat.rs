//! A grid whose cells are the darker the more there is in them.

use super::Chart;
use super::axis::Axis;
use super::canvas::{Anchor, Canvas, Frame, LINE, fit_text, text_width};

/// Steps of shade; the style sheet of the page has a class for each.
const SHADES: f64 = 8.0;

/// A heat map: values over two axes, of which each column has one for each row, from the bottom.
#[derive(Debug, Clone)]
pub struct HeatChart {
    title: String,
    x: Axis,
    y: Axis,
    steps: (f64, f64),
    columns: Vec<Vec<f64>>,
}

impl HeatChart {
    /// A chart of cells that are `steps` wide and high, from 0 on. Shades are logarithmic; cells with 0 stay empty.
    pub fn new(
        title: impl Into<String>,
        (x, y): (Axis, Axis),
        steps: (f64, f64),
        columns: Vec<Vec<f64>>,
    ) -> Self {
        Self { title: title.into(), x, y, steps, columns }
    }

    /// The height of the highest row that holds something.
    fn top(&self) -> f64 {
        let rows = self.columns.iter().filter_map(|column| column.iter().rposition(|value| *value > 0.0));
        rows.max().map_or(1.0, |row| (row + 1) as f64) * self.steps.1
    }

    /// The shade of a value: 1 for the least, one more for each part of the ratio to the largest.
    fn shade(value: f64, (least, most): (f64, f64)) -> u32 {
        let share = if most > least { (value / least).ln() / (most / least).ln() } else { 1.0 };
        1 + (share * (SHADES - 1.0)).round() as u32
    }

    /// Draws the cells; equal shades above each other are one shape.
    fn draw(&self, canvas: &mut Canvas, place: impl Fn(f64, f64) -> (f64, f64)) {
        let values = || self.columns.iter().flatten().copied().filter(|value| *value > 0.0);
        let ends = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        for (column, cells) in self.columns.iter().enumerate() {
            let shade = |value: &f64| if *value > 0.0 { Self::shade(*value, ends) } else { 0 };
            let mut row = 0;
            for run in cells.chunk_by(|a, b| shade(a) == shade(b)) {
                if let Some(shade) = run.first().map(shade).filter(|shade| *shade > 0) {
                    let corner = |x: usize, y: usize| place(x as f64 * self.steps.0, y as f64 * self.steps.1);
                    canvas.rect(
                        &format!("f0 h{shade}"),
                        corner(column, row),
                        corner(column + 1, row + run.len()),
                        "",
                    );
                }
                row += run.len();
            }
        }
    }
}

impl Chart for HeatChart {
    fn title(&self) -> &str {
        &self.title
    }

    fn svg(&self, width: u32) -> String {
        let mut canvas = Canvas::new(width);
        canvas.text("t", Anchor::Start, (0.0, 12.0), &fit_text(&self.y.label, f64::from(width)));
        let y = self.y.fit([0.0, self.top()].into_iter(), 5.0);
        let widest = y.ticks.iter().map(|t| text_width(&t.1)).fold(0.0, f64::max);
        let top = LINE + 8.0;
        let frame = Frame { left: widest + 6.0, right: canvas.width - 8.0, top, bottom: top + 240.0 };
        let end = self.columns.len().max(1) as f64 * self.steps.0;
        let x = self.x.fit([0.0, end].into_iter(), (frame.right - frame.left) / 72.0);
        canvas.y_grid(&frame, &y);
        canvas.x_grid(&frame, &x);
        self.draw(&mut canvas, |at, height| (frame.x(&x, at), frame.y(&y, height)));
        let middle = (frame.left + frame.right) / 2.0;
        let label = fit_text(&self.x.label, canvas.width);
        canvas.text("t", Anchor::Middle, (middle, frame.bottom + 14.0 + LINE), &label);
        canvas.finish(frame.bottom + 20.0 + LINE, &self.title)
    }
}
