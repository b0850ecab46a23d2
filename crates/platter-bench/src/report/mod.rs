//! How results are shown: tables for the terminal, and a self-contained HTML page with plots.

#![forbid(unsafe_code)]

mod html;
pub mod svg;
mod table;
mod text;
pub mod units;

pub use html::HtmlReport;
pub use table::{Align, Column, Table};
