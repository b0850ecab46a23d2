//! What the tests of elevators share.

pub(crate) mod contract;
pub(crate) mod wrong;
