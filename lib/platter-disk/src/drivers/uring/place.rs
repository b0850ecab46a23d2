//! Rings that the kernel keeps for a thread at a place of its own (Linux 5.18), so that they need no descriptor.

use io_uring::types::{SubmitArgs, Timespec};
use platter_block::time::Span;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `IORING_ENTER_EXT_ARG`.
pub(super) const EXT_ARG: u32 = 1 << 3;
/// `IORING_ENTER_REGISTERED_RING`.
const REGISTERED_RING: u32 = 1 << 4;
/// `IORING_REGISTER_RING_FDS`.
const REGISTER_RING_FDS: u32 = 20;
/// `IORING_UNREGISTER_RING_FDS`.
const UNREGISTER_RING_FDS: u32 = 21;

/// `struct io_uring_rsrc_update`.
#[repr(C)]
struct Update {
    offset: u32,
    reserved: u32,
    data: u64,
}

fn register(ring: BorrowedFd<'_>, operation: u32, update: &mut Update) -> bool {
    // SAFETY: the structure lives until the call returns.
    let done = unsafe {
        libc::syscall(libc::SYS_io_uring_register, ring.as_raw_fd(), operation, std::ptr::from_mut(update), 1)
    };
    done == 1
}

/// Gives the ring a place of this thread. `None`: the kernel cannot, or there is none.
pub(super) fn take(ring: BorrowedFd<'_>) -> Option<u32> {
    let mut update = Update { offset: u32::MAX, reserved: 0, data: ring.as_raw_fd() as u64 };
    register(ring, REGISTER_RING_FDS, &mut update).then_some(update.offset)
}

/// The kernel no longer keeps the ring.
pub(super) fn leave(ring: BorrowedFd<'_>, place: u32) {
    register(ring, UNREGISTER_RING_FDS, &mut Update { offset: place, reserved: 0, data: 0 });
}

/// Enters the ring at this place.
#[cold]
pub(super) fn enter(
    place: u32,
    submit: usize,
    complete: u32,
    flags: u32,
    timeout: Option<Span>,
) -> io::Result<usize> {
    let time = timeout.map(timespec);
    let arguments = time.as_ref().map(|time| SubmitArgs::new().timespec(time));
    let flags = flags | REGISTERED_RING | if arguments.is_some() { EXT_ARG } else { 0 };
    let (argument, size) = match &arguments {
        Some(arguments) => (std::ptr::from_ref(arguments).cast::<libc::c_void>(), size_of_val(arguments)),
        None => (std::ptr::null(), 0),
    };
    // SAFETY: submits the entries put on the ring by `push`, under its contract; time and arguments live until the call
    // returns.
    let taken = unsafe {
        libc::syscall(libc::SYS_io_uring_enter, place, submit as u32, complete, flags, argument, size)
    };
    if taken < 0 { Err(io::Error::last_os_error()) } else { Ok(taken as usize) }
}

pub(super) fn timespec(span: Span) -> Timespec {
    let (secs, nanos) = (span.as_nanos() / 1_000_000_000, span.as_nanos() % 1_000_000_000);
    Timespec::new().sec(secs.min(i64::MAX as u64)).nsec(nanos as u32)
}
