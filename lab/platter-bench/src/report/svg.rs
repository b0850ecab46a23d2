//! Plots as inline SVG.
//!
//! Colours and fonts come from the style sheet of the page ([`HtmlReport`](super::HtmlReport)), so a plot
//! follows its light and dark mode. A plot is drawn for a given width instead of being scaled, which keeps its
//! text legible on a narrow screen.

mod axis;
mod bars;
mod canvas;
mod heat;
mod intervals;
mod lines;

pub use axis::{Axis, Format, Scale};
pub use bars::{Bar, BarChart};
pub use heat::HeatChart;
pub use intervals::IntervalChart;
pub use lines::{LineChart, Style};

pub(super) use canvas::PALETTE;

/// A plot.
pub trait Chart {
    /// A short title.
    fn title(&self) -> &str;

    /// The plot as an `svg` element, `width` pixels wide (at least 200) and as high as necessary.
    ///
    /// Values without a position on an axis (not finite, or not above 0 on a logarithmic one) are left out; a
    /// line under the plot gives their number.
    fn svg(&self, width: u32) -> String;
}

#[cfg(test)]
mod tests;
