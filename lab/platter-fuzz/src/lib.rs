//! Fuzzing of every parser of untrusted bytes in Platter: device specs, the contents of disks and files, and the kernel's
//! text files.
//!
//! A [`Target`](run::Target) is a format with its parser: it generates valid inputs, mutates them, repairs
//! their checksums, and parses them. A [`Campaign`](campaign::Campaign) runs it many times. [`run`](run::run)
//! checks the properties of every format: the parser does not panic, it ends, its memory is in proportion to
//! the input, and error messages are safe to show. Each target checks the rest, for example that a printed
//! value parses as the same value, and that no disk is read past its end.
//!
//! The seed and the corpus repeat every run. See `docs/fuzzing.md` in the repository.

#![deny(unsafe_code)]

pub mod archive;
pub mod bytes;
pub mod campaign;
#[allow(unsafe_code)]
pub mod edges;
pub mod guard;
#[allow(unsafe_code)]
pub mod image;
pub mod input_name;
#[allow(unsafe_code)]
pub mod memory;
pub mod rng;
pub mod run;
pub mod targets;
pub mod text;
