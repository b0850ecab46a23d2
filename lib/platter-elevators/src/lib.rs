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
pub mod presets;
#[cfg(test)]
mod vectors;

pub use anticipatory::{Anticipatory, Estimators, Rule};
pub use bfq::Bfq;
pub use cfq1::Cfq1;
pub use cfq2::Cfq2;
pub use cfq3::Cfq;
pub use kyber::Kyber;
pub use linus::{Accounting, Linus};

use platter_block::elevator::{DEADLINE, ElevatorType, MQ_DEADLINE, NOOP};

/// Every elevator that can be chosen by name, those of the core included. `none` (no elevator at all) is a mode of
/// the queue and has no row.
pub static TABLE: &[ElevatorType] = &[
    NOOP,
    DEADLINE,
    linus::TYPE,
    anticipatory::TYPE,
    cfq1::TYPE,
    cfq2::TYPE,
    cfq3::TYPE,
    MQ_DEADLINE,
    kyber::TYPE,
    bfq::TYPE,
];

/// Looks an elevator up by name.
pub fn by_name(name: &str) -> Option<&'static ElevatorType> {
    TABLE.iter().find(|row| row.name == name)
}
