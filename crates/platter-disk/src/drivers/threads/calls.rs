//! The blocking system calls that do a request.

use super::super::iovec::Iovecs;
use super::super::target::{Target, zero_mode};
use crate::aligned::Aligned;
use platter_block::bio::{IoPrio, Op};
use std::os::fd::AsRawFd;

/// A request without its tag.
pub(super) struct Call {
    pub(super) op: Op,
    pub(super) fua: bool,
    pub(super) ioprio: IoPrio,
    pub(super) pos: u64,
    pub(super) len: u64,
    pub(super) iovecs: Iovecs,
}

impl Call {
    pub(super) fn new() -> Call {
        let iovecs = Iovecs::default();
        Call { op: Op::Flush, fua: false, ioprio: IoPrio::NONE, pos: 0, len: 0, iovecs }
    }
}

/// Does a request, blocking: bytes done, or a negative errno.
///
/// Reads and writes are `preadv2` and `pwritev2`, FUA their `RWF_DSYNC`, a flush is `fdatasync`. Discard and
/// write-zeroes of a file both punch a hole, as the kernel's own loop driver does; a block device is told to
/// discard, or to zero the range by the best means it has.
pub(super) fn run(target: &Target, call: &Call) -> i64 {
    loop {
        let result = once(target, call);
        if result >= 0 {
            return if call.op.has_data() { result } else { call.len as i64 };
        }
        match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::EINTR) => {}
            Some(errno) => return -i64::from(errno),
            None => return -i64::from(libc::EIO),
        }
    }
}

fn once(target: &Target, call: &Call) -> i64 {
    let fd = target.file_at(call.pos, call.len).as_raw_fd();
    let flags = if call.fua { libc::RWF_DSYNC } else { 0 };
    let iovecs = call.iovecs.as_slice();
    let (list, count) = (iovecs.as_ptr(), iovecs.len() as i32);
    match call.op {
        // SAFETY: the request is in flight, so the memory of its segments is valid for writes and nobody
        // else's; the array lives until the call returns.
        Op::Read => unsafe { libc::preadv2(fd, list, count, call.pos as libc::off_t, flags) as i64 },
        // SAFETY: as above, for reads.
        Op::Write => unsafe { libc::pwritev2(fd, list, count, call.pos as libc::off_t, flags) as i64 },
        // SAFETY: takes no memory.
        Op::Flush => unsafe { libc::fdatasync(fd).into() },
        Op::Discard if target.is_block => discard(fd, call.pos, call.len),
        Op::Discard | Op::WriteZeroes => {
            let mode = zero_mode(target.is_block);
            // SAFETY: takes no memory.
            unsafe { libc::fallocate(fd, mode, call.pos as libc::off_t, call.len as libc::off_t).into() }
        }
    }
}

fn discard(fd: i32, pos: u64, len: u64) -> i64 {
    /// `BLKDISCARD`, from `linux/fs.h`.
    const BLKDISCARD: u32 = rustix::ioctl::opcode::none(0x12, 119);
    let range = [pos, len];
    // SAFETY: this request reads two 64-bit numbers, which live until the call returns.
    unsafe { libc::ioctl(fd, BLKDISCARD as _, range.as_ptr()).into() }
}

/// Whether reads can be asked not to block. Where they cannot (`EOPNOTSUPP`; zram is one such device), io_uring
/// hands each request to a thread of the kernel.
pub(in super::super) fn can_avoid_blocking(target: &Target) -> bool {
    let probe = &target.disk.probe;
    let len = probe.logical_block.max(512) as usize;
    let align = (probe.dio_mem_align.max(1) as usize).next_power_of_two().max(len.next_power_of_two());
    let Some(memory) = Aligned::new(len, align) else { return true };
    let entry = libc::iovec { iov_base: memory.as_ptr().cast(), iov_len: memory.len() };
    // SAFETY: the memory is owned and as long as the entry says; both live until the call returns.
    let read = unsafe { libc::preadv2(target.disk.fd.as_raw_fd(), &raw const entry, 1, 0, libc::RWF_NOWAIT) };
    read >= 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::EOPNOTSUPP)
}

/// Gives the calling thread a priority for its I/O: 0, or a negative errno.
pub(super) fn set_ioprio(ioprio: IoPrio) -> i64 {
    /// `IOPRIO_WHO_PROCESS` with id 0: the calling thread.
    const WHO_PROCESS: i32 = 1;
    // SAFETY: takes no memory.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, i32::from(ioprio.raw())) };
    if result == 0 {
        return 0;
    }
    -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL))
}
