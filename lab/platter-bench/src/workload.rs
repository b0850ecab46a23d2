//! The definition of a synthetic workload: its offsets, their order, its rate, the contents of its blocks.
//!
//! Nothing here does I/O or reads a clock. All random numbers come from one seed, so a workload is the same
//! on every machine.

#![forbid(unsafe_code)]

mod job;
mod offsets;
mod rate;
mod rw;
mod stream;
mod verify;

pub use job::{DEFAULT_SEED, DeviceFacts, JobError, JobOptions, RateProcess};
pub use offsets::{Offsets, RandomMap, RandomOffsets, ReadWriteMix, Region, Sequential};
pub use rate::{Arrivals, MAX_RATE_IOPS, Pacer, Poisson};
pub use rw::{ParseRwError, Rw};
pub use stream::{Io, IoStream};
pub use verify::{HEADER_BYTES, Verifier, VerifyError, VerifyKind};
