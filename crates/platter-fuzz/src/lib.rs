//! Fuzzing of everything in Platter that reads bytes of others: device specs, what disks and files hold, and the texts
//! of the kernel.
//!
//! A [`Target`](run::Target) is a format: it makes inputs that are sound, changes them with their checksums mended,
//! and reads them with the parser of the project. A [`Campaign`](campaign::Campaign) runs it many times.
//! Of every run it must hold that it does not panic, takes memory in proportion to the input, and that what is
//! refused is refused with a message that can be shown. What else must hold, each target says: what is written is
//! read as the same again, a disk is not read past its end.
//!
//! A seed repeats every run. See `docs/fuzzing.md` in the repository.

#![deny(unsafe_code)]

pub mod archive;
pub mod bytes;
pub mod campaign;
#[allow(unsafe_code)]
pub mod edges;
#[allow(unsafe_code)]
pub mod image;
#[allow(unsafe_code)]
pub mod memory;
pub mod rng;
pub mod run;
pub mod targets;
pub mod text;
