//! Metrics in Prometheus' text format, and the HTTP server that hands them out.
//!
//! Names follow Prometheus' conventions: base units (seconds, bytes), `_total` for counters. docs/metrics.md lists them.
//! The server answers one request at a time and keeps no connection, so that a flood of scrapes costs one thread.

mod http;
mod text;

pub use http::{MAX_REQUEST_BYTES, MetricsServer, REQUEST_TIMEOUT};
pub use text::{CONTENT_TYPE, FAMILIES, Family, render};
