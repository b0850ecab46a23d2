//! The random numbers that this program gets from the system are always the same.
//!
//! `HashMap` draws the keys of its hash function from `getrandom`, once for each thread, and engines that go
//! through one to write pages write them in another order in each run. Then a power cut cannot be repeated.
//! This module defines the function in the program, before the one of the C library, and runs engines in
//! threads of their own, so that each begins with the same keys.
//!
//! The price: nothing in a program that links this crate gets random numbers from `getrandom`. It is for
//! tests alone.

use std::error::Error;
use std::ffi::{c_uint, c_void};
use std::thread;

/// What the system is asked for: `getrandom(2)`, with the same bytes for each call.
///
/// # Safety
/// As for the function of the C library: `len` bytes from `buffer` on can be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut c_void, len: usize, _flags: c_uint) -> isize {
    // SAFETY: the caller guarantees that these bytes can be written.
    unsafe { buffer.cast::<u8>().write_bytes(0x5a, len) };
    len as isize
}

/// Calls a function in a new thread, whose maps then have the order that they have in every run.
///
/// # Errors
/// That of the call, as its text.
pub(crate) fn in_own_thread(
    call: impl FnOnce() -> Result<(), Box<dyn Error>> + Send,
) -> Result<(), Box<dyn Error>> {
    let ended = thread::scope(|scope| scope.spawn(|| call().map_err(|error| error.to_string())).join());
    match ended {
        Ok(result) => Ok(result?),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
