//! `memcpy` and `memmove` of this program, which count: all code that is linked into it calls these in place of the C
//! library's, whatever crate it is from. They know nothing of the server and its own counts.

use std::arch::asm;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Shorter copies move headers and structures. Payload comes in blocks of at least this length.
const SMALLEST: usize = 512;

static BYTES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static IS_LEFT_OUT: Cell<bool> = const { Cell::new(false) };
}

/// The copies of this thread do not count from now on.
pub(crate) fn leave_out() {
    IS_LEFT_OUT.with(|left_out| left_out.set(true));
}

/// Bytes in copies of at least [`SMALLEST`] bytes so far, without those of the threads that are left out.
pub(crate) fn copied_bytes() -> u64 {
    BYTES.load(Ordering::SeqCst)
}

fn count(bytes: usize) {
    // A thread that ends has no such variable any more.
    if bytes >= SMALLEST && !IS_LEFT_OUT.try_with(Cell::get).unwrap_or(true) {
        BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// The C library's `memcpy`, counted.
///
/// # Safety
/// As for the C function.
// SAFETY: it does what the C function of this name does.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    count(bytes);
    // SAFETY: the caller promises that both ranges are valid and do not overlap. An instruction, because a loop could be
    // compiled to a call of this very function.
    unsafe {
        asm!("rep movsb", inout("rcx") bytes => _, inout("rdi") to => _, inout("rsi") from => _, options(nostack, preserves_flags));
    }
    to
}

/// The C library's `memmove`, counted.
///
/// # Safety
/// As for the C function.
// SAFETY: it does what the C function of this name does.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    count(bytes);
    let distance = (to as usize).wrapping_sub(from as usize);
    if distance >= bytes {
        // SAFETY: the caller promises that both ranges are valid; going up, no byte is overwritten before it is read.
        unsafe {
            asm!("rep movsb", inout("rcx") bytes => _, inout("rdi") to => _, inout("rsi") from => _, options(nostack, preserves_flags));
        }
    } else if bytes > 0 {
        // SAFETY: as above, going down from the last byte.
        unsafe {
            asm!("std", "rep movsb", "cld", inout("rcx") bytes => _,
                inout("rdi") to.wrapping_add(bytes - 1) => _, inout("rsi") from.wrapping_add(bytes - 1) => _, options(nostack));
        }
    }
    to
}

/// The functions do what they are for. Part of the only test, because the count is one for the whole process.
pub(crate) fn check() {
    let mut bytes: Vec<u8> = (0..2000).map(|at| (at % 251) as u8).collect();
    let before = copied_bytes();
    let copy = std::hint::black_box(&bytes).clone();
    assert!(copied_bytes() - before >= 2000);
    bytes.copy_within(0..1500, 500);
    assert!(bytes[500..] == copy[..1500] && bytes[..500] == copy[..500]);
    bytes.copy_within(500..2000, 0);
    assert!(bytes[..1500] == copy[..1500]);
}
