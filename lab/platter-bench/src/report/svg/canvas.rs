//! The shapes of plots, and their common parts: frame, grid, legend, notes.

use super::super::text::{columns, escape, one_line, shorten};
use super::axis::Fitted;

/// Colours of the series in light and in dark mode. They differ in lightness too, so that they can be
/// distinguished in print and by colour-blind readers.
pub(in super::super) const PALETTE: [(&str, &str); 8] = [
    ("#0068a8", "#5ab4f0"),
    ("#d45500", "#ff9d4d"),
    ("#00805c", "#35cfa0"),
    ("#b0488c", "#ef9fd0"),
    ("#6a4fb3", "#b8a5f5"),
    ("#8a6a00", "#e5c452"),
    ("#2aa0b8", "#8be0f0"),
    ("#666666", "#bdbdbd"),
];

/// Average width of a character, in pixels, of the 12-pixel text in plots.
const CHAR: f64 = 6.7;
/// Height of a line of text in pixels.
pub(super) const LINE: f64 = 17.0;

/// Width of `text` in a plot, in pixels, near enough for a layout.
pub(super) fn text_width(text: &str) -> f64 {
    columns(text) as f64 * CHAR
}

/// `text`, shortened so that it takes at most `pixels`.
pub(super) fn fit_text(text: &str, pixels: f64) -> String {
    shorten(&one_line(text), (pixels / CHAR).max(1.0) as usize)
}

/// Breaks `text` between words into lines of at most `pixels`; `None` if a word is wider or if that takes more
/// than three lines.
pub(super) fn wrap(text: &str, pixels: f64) -> Option<Vec<String>> {
    let mut lines: Vec<String> = Vec::new();
    for word in one_line(text).split_whitespace() {
        let longer = lines.last().map(|line| format!("{line} {word}"));
        match (longer.filter(|line| text_width(line) <= pixels), lines.last_mut()) {
            (Some(longer), Some(line)) => *line = longer,
            _ if text_width(word) > pixels => return None,
            _ => lines.push(word.to_owned()),
        }
    }
    (lines.len() <= 3).then_some(lines)
}

/// The colour class number of series `i`.
pub(super) fn color(i: usize) -> usize {
    i % PALETTE.len()
}

/// The alignment of a text relative to its position.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// The part of a plot in which the data is drawn, in pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

impl Frame {
    pub(super) fn x(&self, axis: &Fitted, value: f64) -> f64 {
        self.left + (self.right - self.left) * axis.position(value)
    }

    pub(super) fn y(&self, axis: &Fitted, value: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * axis.position(value)
    }
}

/// An SVG under construction.
#[derive(Debug)]
pub(super) struct Canvas {
    pub(super) width: f64,
    body: String,
}

impl Canvas {
    pub(super) fn new(width: u32) -> Self {
        Self { width: f64::from(width.max(200)), body: String::new() }
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(number);
        self.body += &format!("<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>");
    }

    /// A rectangle between two corners, with a text shown on hovering.
    pub(super) fn rect(&mut self, class: &str, a: (f64, f64), b: (f64, f64), tip: &str) {
        let [x, y] = [a.0.min(b.0), a.1.min(b.1)].map(number);
        let [w, h] = [(a.0 - b.0).abs(), (a.1 - b.1).abs()].map(number);
        let shape = format!("<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"");
        self.close(&shape, "rect", tip);
    }

    pub(super) fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<String> =
            points.iter().map(|&(x, y)| format!("{},{}", number(x), number(y))).collect();
        self.body += &format!("<polyline class=\"{class}\" points=\"{}\"/>", points.join(" "));
    }

    /// The mark of series `i`: shape and colour, with a text shown on hovering.
    pub(super) fn marker(&mut self, i: usize, at: (f64, f64), tip: &str) {
        self.marker_class("", i, at, tip);
    }

    /// Like [`marker`](Self::marker), half transparent: for crowds.
    pub(super) fn faint_marker(&mut self, i: usize, at: (f64, f64)) {
        self.marker_class(" p", i, at, "");
    }

    fn marker_class(&mut self, class: &str, i: usize, (x, y): (f64, f64), tip: &str) {
        const SHAPES: [&str; 4] = [
            "M-3.5,0a3.5,3.5 0 1,0 7,0a3.5,3.5 0 1,0-7,0z",
            "M-3,-3h6v6h-6z",
            "M0,-4l4,7h-8z",
            "M0,-4.5l4,4.5l-4,4.5l-4,-4.5z",
        ];
        let (path, color) = (SHAPES[i % SHAPES.len()], color(i));
        let shape = format!(
            "<path class=\"f{color}{class}\" transform=\"translate({},{})\" d=\"{path}\"",
            number(x),
            number(y)
        );
        self.close(&shape, "path", tip);
    }

    fn close(&mut self, shape: &str, name: &str, tip: &str) {
        self.body += shape;
        if tip.is_empty() {
            self.body += "/>";
        } else {
            self.body += &format!("><title>{}</title></{name}>", escape(&one_line(tip)));
        }
    }

    pub(super) fn text(&mut self, class: &str, anchor: Anchor, (x, y): (f64, f64), text: &str) {
        self.rotated_text(class, anchor, (x, y), 0, text);
    }

    /// A text turned by `degrees` around its position.
    pub(super) fn rotated_text(
        &mut self,
        class: &str,
        anchor: Anchor,
        (x, y): (f64, f64),
        degrees: i32,
        text: &str,
    ) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let [x, y] = [x, y].map(number);
        let turn = match degrees {
            0 => String::new(),
            _ => format!(" transform=\"rotate({degrees} {x} {y})\""),
        };
        self.body += &format!(
            "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{x}\" y=\"{y}\"{turn}>{}</text>",
            escape(&one_line(text))
        );
    }

    /// Names the series, wrapped to the width, from `top` down; gives where it ends. A single series needs no
    /// legend.
    pub(super) fn legend(&mut self, top: f64, names: &[&str], marks: bool) -> f64 {
        if names.len() < 2 {
            return top;
        }
        let (mut x, mut y) = (0.0, top);
        for (i, name) in names.iter().enumerate() {
            let name = fit_text(name, self.width - 20.0);
            let needed = 16.0 + text_width(&name) + 14.0;
            if x > 0.0 && x + needed > self.width + 14.0 {
                (x, y) = (0.0, y + LINE);
            }
            if marks {
                self.line(&stroke(i), (x, y + 8.0), (x + 12.0, y + 8.0));
                self.marker(i, (x + 6.0, y + 8.0), "");
            } else {
                self.rect(&format!("f{}", color(i)), (x, y + 3.0), (x + 11.0, y + 13.0), "");
            }
            self.text("t", Anchor::Start, (x + 16.0, y + 12.0), &name);
            x += needed;
        }
        y + LINE + 3.0
    }

    /// Horizontal grid lines with the labels of the y axis to the left of them.
    pub(super) fn y_grid(&mut self, frame: &Frame, axis: &Fitted) {
        for (value, label) in &axis.ticks {
            let y = frame.y(axis, *value);
            let class = if *value == 0.0 { "a" } else { "g" };
            self.line(class, (frame.left, y), (frame.right, y));
            self.text("k", Anchor::End, (frame.left - 5.0, y + 4.0), label);
        }
    }

    /// Vertical grid lines with the labels of the x axis under them.
    pub(super) fn x_grid(&mut self, frame: &Frame, axis: &Fitted) {
        for (value, label) in &axis.ticks {
            let x = frame.x(axis, *value);
            self.line("g", (x, frame.top), (x, frame.bottom));
            // Digits of some fonts are wider than the estimate.
            let half = text_width(label) * 0.58 + 1.0;
            let centre = x.clamp(half, (self.width - half).max(half));
            self.text("k", Anchor::Middle, (centre, frame.bottom + 14.0), label);
        }
    }

    /// Adds a note under the plot with the number of values that could not be drawn; returns the bottom of
    /// the note.
    pub(super) fn note_missing(&mut self, bottom: f64, missing: usize) -> f64 {
        if missing == 0 {
            return bottom;
        }
        let what = if missing == 1 { "value has" } else { "values have" };
        let text = format!("{missing} {what} no position on these axes");
        self.text("k", Anchor::Start, (0.0, bottom + 12.0), &text);
        bottom + LINE
    }

    /// Closes the plot at this height. `label` describes it for screen readers.
    pub(super) fn finish(self, height: f64, label: &str) -> String {
        let (width, height) = (number(self.width), number(height.ceil()));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"{}\" width=\"{width}\" \
             height=\"{height}\" viewBox=\"0 0 {width} {height}\">{}</svg>",
            escape(&one_line(label)),
            self.body
        )
    }
}

/// The classes of the line of series `i`: its colour and its dash pattern.
pub(super) fn stroke(i: usize) -> String {
    format!("l s{} d{}", color(i), i % 4)
}

/// A coordinate with one decimal at most.
fn number(v: f64) -> String {
    let text = super::super::units::fixed(v, 1);
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}
