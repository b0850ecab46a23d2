//! Shared parts of the tests of elevators.

pub(crate) mod contract;
pub(crate) mod wrong;
