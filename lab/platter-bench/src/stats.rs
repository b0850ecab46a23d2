//! Statistics over the results of repeated runs, and the latency histogram of a single run.
//!
//! All functions are deterministic: random draws come from [`Seeded`], so the same input and the same seed give the
//! same answer on every machine.

#![forbid(unsafe_code)]

pub mod blocks;
mod bootstrap;
mod error;
mod latency;
mod permutation;
mod sample;
mod seeded;
mod summary;

pub use bootstrap::{Bootstrap, Interval, median_interval, ratio_interval};
pub use error::StatsError;
pub use latency::{Bucket, LatencyHistogram};
pub use permutation::{Permutation, runs_needed};
pub use sample::{Sample, jain_index};
pub use seeded::Seeded;
pub(crate) use seeded::mix64;
pub use summary::LatencySummary;
