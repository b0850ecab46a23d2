//! How results are shown: tables for the terminal, and a self-contained HTML page with plots.

#![forbid(unsafe_code)]

mod grid;
mod html;
pub mod json;
pub mod svg;
mod table;
mod terminal;
mod text;
pub mod units;

pub use grid::Align;
pub use html::HtmlReport;
pub use table::{Column, Shade, Table};
pub use terminal::Terminal;
