//! Results side by side: whether a difference is real, and how large it is. The implementation of `platter compare`.
//!
//! A [`Side`] is one thing that was measured, in one or several runs: results of `platter bench io` or of fio, from files or
//! directories. Each figure of a job (rate, latency) is compared with that of the same job on the other side; the interval of
//! the ratio comes from exchanging runs between the sides ([`Permutation`](crate::stats::Permutation)), or, if there are too few
//! runs and they have a series, from exchanging blocks of the series ([`blocks`](crate::stats::blocks)). The intervals of all figures
//! of a comparison hold together: with 4 figures at 95 %, each is one of 98.75 % (Bonferroni), so that of 100 comparisons
//! of equal things at most 5 tell any difference at all.

mod fio;
mod judge;
mod ours;
mod page;
mod run;
mod side;
mod text;

pub use judge::{Comparison, Evidence, Plan, Row, Verdict, compare};
pub use page::page;
pub use run::{Figures, Metric, Run};
pub use side::{CompareError, Side};

#[cfg(test)]
mod tests;
