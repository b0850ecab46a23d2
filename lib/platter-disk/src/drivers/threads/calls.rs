//! The blocking system calls that carry out a request.

use super::super::file_target::{Target, rw_flags, zero_mode};
use super::super::iovec::Iovecs;
use crate::aligned::Aligned;
use platter_block::bio::{IoPrio, Op};
use platter_block::driver::Started;
use std::os::fd::AsRawFd;

/// A request without its tag.
pub(in super::super) struct Call {
    pub(in super::super) op: Op,
    atomic: bool,
    rw_flags: i32,
    /// Whether it uses the buffered descriptor.
    buffered: bool,
    pub(super) ioprio: IoPrio,
    pub(in super::super) pos: u64,
    pub(in super::super) len: u64,
    pub(in super::super) iovecs: Iovecs,
}

impl Call {
    pub(super) fn new() -> Call {
        Call {
            op: Op::Flush,
            atomic: false,
            rw_flags: 0,
            buffered: false,
            ioprio: IoPrio::NONE,
            pos: 0,
            len: 0,
            iovecs: Iovecs::default(),
        }
    }

    /// Stores the first `len` bytes of a request.
    pub(super) fn fill(&mut self, request: &Started<'_>, buffered: bool, len: u64) {
        self.op = request.op;
        self.atomic = request.atomic;
        self.rw_flags = rw_flags(request);
        self.buffered = buffered;
        self.ioprio = request.ioprio;
        self.pos = request.pos;
        self.len = len;
        self.iovecs.fill(request, len);
    }

    /// Stores a direct transfer that was started elsewhere.
    pub(in super::super) fn take_over(&mut self, op: Op, pos: u64, rw_flags: i32, ioprio: IoPrio) {
        (self.op, self.pos, self.rw_flags, self.ioprio) = (op, pos, rw_flags, ioprio);
        (self.atomic, self.buffered) = (false, false);
        self.len = self.iovecs.bytes();
    }
}

/// Carries out a request, blocking; returns the bytes done, or a negative errno.
///
/// Reads and writes are `preadv2` and `pwritev2`, FUA is their `RWF_DSYNC`, a flush is `fdatasync`. Discard and
/// write-zeroes of a file both punch a hole, as the kernel's own loop driver does; a block device is told to discard,
/// or to zero the range by its best method.
pub(super) fn run(target: &Target, call: &Call) -> i64 {
    if call.op == Op::Command {
        // Files take no commands. Their geometry says so, so no queue sends any.
        return -i64::from(libc::EOPNOTSUPP);
    }
    let result = match call.atomic && call.iovecs.as_slice().len() > 1 {
        true => write_gathered(target, call),
        false => until_done(|| once(target, call, call.iovecs.as_slice())),
    };
    let result = target.judged(result);
    match result {
        0 if call.op == Op::Read => target.came_short(crate::clock::now()),
        0.. if !call.op.has_data() => return call.len as i64,
        _ => {}
    }
    result
}

/// Repeats a system call until no signal interrupts it.
pub(super) fn until_done(mut once: impl FnMut() -> i64) -> i64 {
    loop {
        match once() {
            result @ 0.. => return result,
            _ => match std::io::Error::last_os_error().raw_os_error() {
                Some(libc::EINTR) => {}
                errno => return -i64::from(errno.unwrap_or(libc::EIO)),
            },
        }
    }
}

/// The kernel accepts an atomic write only from one piece of memory.
fn write_gathered(target: &Target, call: &Call) -> i64 {
    let len = call.len as usize;
    let align = (target.disk.probe.dio_mem_align.max(1) as usize).next_power_of_two();
    let Some(memory) = Aligned::new(len, align) else { return -i64::from(libc::ENOMEM) };
    // SAFETY: the request is in flight with this thread, and the memory is new.
    unsafe { call.iovecs.copy_to(memory.as_ptr(), len) };
    let whole = [libc::iovec { iov_base: memory.as_ptr().cast(), iov_len: len }];
    until_done(|| once(target, call, &whole))
}

fn once(target: &Target, call: &Call, iovecs: &[libc::iovec]) -> i64 {
    let fd = if call.buffered { target.buffered() } else { &target.disk.fd }.as_raw_fd();
    let (list, count) = (iovecs.as_ptr(), iovecs.len() as i32);
    match call.op {
        // SAFETY: the request is in flight, so the memory of its segments is valid for writes and used by nothing
        // else; the array lives until the call returns.
        Op::Read => unsafe { libc::preadv2(fd, list, count, call.pos as libc::off_t, call.rw_flags) as i64 },
        // SAFETY: as above, for reads; or the array names memory of our own.
        Op::Write => unsafe {
            libc::pwritev2(fd, list, count, call.pos as libc::off_t, call.rw_flags) as i64
        },
        // SAFETY: takes no memory.
        Op::Flush => unsafe { libc::fdatasync(target.flushed().as_raw_fd()).into() },
        Op::Discard if target.is_block => discard(fd, call.pos, call.len),
        Op::Discard | Op::WriteZeroes => {
            let mode = zero_mode(target.is_block);
            // SAFETY: takes no memory.
            unsafe { libc::fallocate(fd, mode, call.pos as libc::off_t, call.len as libc::off_t).into() }
        }
        Op::Command => -1,
    }
}

/// Carries out a read through the page cache at once if all of it is cached, at a tenth of the cost of a thread.
pub(super) fn from_cache(target: &Target, call: &Call) -> Option<i64> {
    if call.op != Op::Read || !(call.buffered || target.is_cached()) {
        return None;
    }
    let fd = if call.buffered { target.buffered() } else { &target.disk.fd }.as_raw_fd();
    let iovecs = call.iovecs.as_slice();
    let (list, count) = (iovecs.as_ptr(), iovecs.len() as i32);
    // SAFETY: the request is in flight, so the memory of its segments is valid for writes and used by nothing else;
    // the array lives until the call returns.
    let read = unsafe { libc::preadv2(fd, list, count, call.pos as libc::off_t, libc::RWF_NOWAIT) as i64 };
    (read == call.len as i64).then_some(read)
}

fn discard(fd: i32, pos: u64, len: u64) -> i64 {
    /// `BLKDISCARD`, from `linux/fs.h`.
    const BLKDISCARD: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(0x12, 119);
    let range = [pos, len];
    // SAFETY: this request reads two 64-bit numbers, which live until the call returns.
    unsafe { libc::ioctl(fd, BLKDISCARD as _, range.as_ptr()).into() }
}

/// Whether non-blocking reads are supported. If not (`EOPNOTSUPP`; zram is one such device), io_uring hands each
/// request to a thread of the kernel.
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

/// Sets the I/O priority of the calling thread; returns 0 or a negative errno.
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
