//! Kernels and machines of the past as data, and the processes that read disks on them.

pub(super) mod kernel;
pub(super) mod machine;
pub(super) mod readers;
pub(super) mod show;
