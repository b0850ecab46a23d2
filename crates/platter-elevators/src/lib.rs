//! I/O schedulers for Platter, one file or folder each, and the table of all elevators.
//!
//! [`platter_block::elevator`] has the trait, the elevators of the core (`noop`, `deadline`, `mq-deadline`) and the
//! data structures that elevators are built from.

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod anticipatory;
mod bfq;
mod cfq;
mod cfq1;
mod cfq2;
mod cfq3;
mod kyber;
mod linus;
#[cfg(test)]
mod vectors;

pub use anticipatory::{Anticipatory, Estimators, Rule};
pub use bfq::Bfq;
pub use cfq1::Cfq1;
pub use cfq2::Cfq2;
pub use cfq3::Cfq;
pub use kyber::Kyber;
pub use linus::{Accounting, Linus};

use platter_block::elevator::{DEADLINE, MQ_DEADLINE, NOOP, Row};

/// Every elevator that can be chosen by name, those of the core included. `none` (no elevator at all) is a mode of
/// the queue and has no row.
pub static TABLE: &[Row] = &[
    NOOP,
    DEADLINE,
    linus::ROW,
    anticipatory::ROW,
    cfq1::ROW,
    cfq2::ROW,
    cfq3::ROW,
    MQ_DEADLINE,
    kyber::ROW,
    bfq::ROW,
];

/// Looks an elevator up by name.
pub fn by_name(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == name)
}
