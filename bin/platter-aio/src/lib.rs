//! The POSIX aio interface on Platter's drivers, for programs that know no other: a C library, `libplatter_aio.so`, to
//! preload or to link. Part of Platter, a block I/O layer in user space.
//!
//! glibc has threads carry out asynchronous requests, one request at a time for each file. Here one thread hands all
//! requests to a ring, where they run in parallel as far as POSIX requires no order.

#![deny(unsafe_code)]

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("platter-aio has the layout of glibc's structures on 64-bit Linux");

#[allow(unsafe_code)]
pub mod block;
mod board;
#[allow(unsafe_code)]
pub mod disk;
pub mod engine;
#[allow(unsafe_code)]
pub mod event;
mod group;
mod inbox;
pub mod options;
mod order;
#[allow(unsafe_code)]
pub mod posix;
#[allow(unsafe_code)]
mod process;
#[allow(unsafe_code)]
mod request;
pub mod statistics;
#[allow(unsafe_code)]
mod sync;
