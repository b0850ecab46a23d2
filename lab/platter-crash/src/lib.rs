//! Crash tests of programs that are not changed for it: a program runs once and its file system calls are recorded; then power
//! is cut at each of them, and a check looks at what may be left.
//!
//! [`tracer::record`] runs a program and gives a [`Recording`](recording::Recording). A [`Volume`](volume::Volume) takes its steps and says what
//! a power cut may leave, by the rules of a file system. [`explore::explore`] has each such state checked, and reduces the
//! first finding; [`history::history`] shows the calls that led to it, [`plan::Plan`] repeats it.
//!
//! The tracer uses `ptrace`, with a filter of the kernel (seccomp) that stops the program at file system calls only. So static
//! programs and calls that bypass the C library are seen as well, which a preloaded library does not see.

#![deny(unsafe_code)]

#[cfg(not(all(target_os = "linux", target_pointer_width = "64", target_endian = "little")))]
compile_error!("platter-crash knows the system calls of 64-bit little-endian Linux");

mod calls;
pub mod change;
pub mod check;
pub mod error;
pub mod explore;
pub mod history;
mod observe;
pub mod plan;
mod ptrace;
pub mod recording;
mod snapshot;
mod stores;
mod tracee;
pub mod tracer;
pub mod tree;
pub mod volume;
