//! The functions of `<aio.h>`.
//!
//! Each has a second name that ends in `64`, under which programs with large files know it: on 64-bit machines both are
//! the same.

use crate::block::{Block, BlockRef, Status};
use crate::board::Ended;
use crate::engine::{AIO_ALLDONE, AIO_CANCELED, AIO_NOTCANCELED};
use crate::event::Event;
use crate::group::Group;
use crate::inbox::{Cancel, Command, Reply};
use crate::options::Personality;
use crate::process::{self, BOARD, Running};
use crate::request::{self, Request};
use libc::{c_int, ssize_t, timespec};
use platter_block::time::Time;
use platter_disk::drivers::descriptors::CallOp;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// `lio_listio` waits.
pub const LIO_WAIT: c_int = 0;
/// `lio_listio` returns at once.
pub const LIO_NOWAIT: c_int = 1;
/// The operation of a block: read.
pub const LIO_READ: c_int = 0;
/// The operation of a block: write.
pub const LIO_WRITE: c_int = 1;
/// The operation of a block: none.
pub const LIO_NOP: c_int = 2;

fn fail(error: c_int) -> c_int {
    // SAFETY: the address is that of this thread's number.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// A request whose place is reserved and whose block is in progress. A refused block has the error.
fn prepare(
    running: &Running,
    block: BlockRef,
    op: CallOp,
    personality: Personality,
) -> Result<Request, c_int> {
    let generation = process::generation();
    if block.status(generation) == Status::InProgress {
        // Its status belongs to the request that it has.
        return Err(libc::EINVAL);
    }
    let prepared = Request::new(block, op, personality);
    let prepared =
        prepared.and_then(|request| running.inbox.reserve().then_some(request).ok_or(libc::EAGAIN));
    match prepared {
        Ok(request) => {
            block.begin(generation);
            Ok(request)
        }
        Err(error) => {
            block.refuse(generation, error);
            Err(error)
        }
    }
}

/// A block that asks for nothing. With glibc, which leaves it alone, a block of zeroes says that it has ended.
fn nothing_to_do(block: BlockRef) {
    let generation = process::generation();
    if block.status(generation) == Status::None {
        block.begin(generation);
        block.end(0);
    }
}

/// # Safety
/// As for `aio_read`.
unsafe fn submit(block: *mut Block, op: CallOp) -> c_int {
    // SAFETY: by this function's contract.
    let Some(block) = (unsafe { BlockRef::new(block) }) else { return fail(libc::EINVAL) };
    let started = process::engine().and_then(|running| {
        let request = prepare(running, block, op, running.personality)?;
        running.push([Command::Start(request)]);
        Ok(())
    });
    started.map_or_else(fail, |()| 0)
}

/// Starts a read. Returns 0, or -1 and `errno`.
///
/// # Safety
/// The block is null or a control block; it and its buffer stay in place, and are used for nothing else, until the
/// request has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aio_read(block: *mut Block) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { submit(block, CallOp::Read) }
}

/// Starts a write. Returns 0, or -1 and `errno`.
///
/// # Safety
/// As for [`aio_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aio_write(block: *mut Block) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { submit(block, CallOp::Write) }
}

/// Starts a sync (`O_SYNC` or `O_DSYNC`) of everything queued before it on the descriptor. Returns 0, or -1 and
/// `errno`.
///
/// # Safety
/// As for [`aio_read`], without a buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aio_fsync(op: c_int, block: *mut Block) -> c_int {
    let op = match op {
        libc::O_SYNC => CallOp::Sync,
        libc::O_DSYNC => CallOp::DataSync,
        _ => return fail(libc::EINVAL),
    };
    // SAFETY: by this function's contract.
    unsafe { submit(block, op) }
}

/// The status of a request: 0, `EINPROGRESS` or its error. May be called in a handler of a signal.
///
/// # Safety
/// The pointer is null or that of a control block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aio_error(block: *const Block) -> c_int {
    // SAFETY: by this function's contract; the block is only read.
    let Some(block) = (unsafe { BlockRef::new(block.cast_mut()) }) else { return fail(libc::EINVAL) };
    match block.status(process::generation()) {
        Status::None => fail(libc::EINVAL),
        Status::InProgress => libc::EINPROGRESS,
        Status::Ended(error) | Status::Collected(error) => error,
    }
}

/// The result of a request that has ended, once. May be called in a handler of a signal.
///
/// # Safety
/// The pointer is null or that of a control block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aio_return(block: *mut Block) -> ssize_t {
    // SAFETY: by this function's contract.
    let Some(block) = (unsafe { BlockRef::new(block) }) else { return fail(libc::EINVAL) as ssize_t };
    match block.status(process::generation()) {
        Status::None | Status::Collected(_) => fail(libc::EINVAL) as ssize_t,
        Status::InProgress => fail(libc::EINPROGRESS) as ssize_t,
        Status::Ended(_) => block.collect(),
    }
}

/// The time of the monotonic clock after this span; `None` if the span is invalid. A time too far away for the clock
/// is its end.
fn deadline(span: &timespec) -> Option<Time> {
    let mut now = MaybeUninit::<timespec>::uninit();
    // SAFETY: the call fills the structure.
    let now = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, now.as_mut_ptr());
        now.assume_init()
    };
    if !(0..1_000_000_000).contains(&span.tv_nsec) || span.tv_sec < 0 {
        return None;
    }
    let nanos = |time: &timespec| {
        (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
    };
    Some(Time(nanos(&now).saturating_add(nanos(span)).min(i64::MAX as u64)))
}

/// Waits until one of the requests has ended. Returns 0, or -1 and `EAGAIN` when the time has passed, `EINTR` when a
/// handler of a signal has run. May be called in one.
///
/// # Safety
/// `list` has `count` pointers, each null or that of a control block; `timeout` is null or a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aio_suspend(
    list: *const *const Block,
    count: c_int,
    timeout: *const timespec,
) -> c_int {
    let Ok(count) = usize::try_from(count) else { return fail(libc::EINVAL) };
    // SAFETY: by this function's contract.
    let list = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(list, count) } };
    // SAFETY: as above.
    let deadline = match unsafe { timeout.as_ref() }.map(deadline) {
        Some(None) => return fail(libc::EINVAL),
        given => given.flatten(),
    };
    let generation = process::generation();
    let is_done = || {
        let mut none = true;
        for block in list {
            // SAFETY: by this function's contract; the blocks are only read.
            let Some(block) = (unsafe { BlockRef::new(block.cast_mut()) }) else { continue };
            if block.status(generation) != Status::InProgress {
                return true;
            }
            none = false;
        }
        // There is nothing to wait for.
        none
    };
    match BOARD.wait(is_done, deadline) {
        Ok(()) => 0,
        Err(Ended::TimedOut) => fail(libc::EAGAIN),
        Err(Ended::Interrupted) => fail(libc::EINTR),
    }
}

/// Cancels a request of a descriptor, or all of them if the block is null. Returns `AIO_CANCELED`, `AIO_NOTCANCELED` if
/// one of them could not be cancelled, `AIO_ALLDONE` if all had ended; or -1 and `errno`.
///
/// # Safety
/// The pointer is null or that of a control block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aio_cancel(fd: c_int, block: *mut Block) -> c_int {
    // SAFETY: by this function's contract.
    let block = unsafe { BlockRef::new(block) };
    if request::flags(fd).is_none() {
        return fail(libc::EBADF);
    }
    if let Some(block) = block {
        if block.fields().fd != fd {
            return fail(libc::EINVAL);
        }
        if block.status(process::generation()) != Status::InProgress {
            return AIO_ALLDONE;
        }
    }
    let Some(running) = process::running() else { return AIO_ALLDONE };
    let reply = Arc::new(Reply::default());
    running.push([Command::Cancel(Cancel { fd, block, reply: Arc::clone(&reply) })]);
    let answer = reply.wait();
    debug_assert!([AIO_CANCELED, AIO_NOTCANCELED, AIO_ALLDONE].contains(&answer));
    // An engine whose descriptors were closed may have it.
    let in_progress = |block: BlockRef| block.status(process::generation()) == Status::InProgress;
    if answer == AIO_ALLDONE && block.is_some_and(in_progress) { AIO_NOTCANCELED } else { answer }
}

/// Starts the requests of a list; `LIO_WAIT` waits until all have ended, `LIO_NOWAIT` returns at once and notifies by
/// `event` when all have ended. Returns 0; or -1 and `EAGAIN` if some could not be queued, `EIO` if some have failed,
/// `EINTR` if a handler of a signal has ended the wait, `EINVAL`.
///
/// # Safety
/// `list` has `count` pointers, each null or that of a control block, for which the contract of [`aio_read`] holds;
/// `event` is null or a notification.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lio_listio(
    mode: c_int,
    list: *const *mut Block,
    count: c_int,
    event: *const Event,
) -> c_int {
    let Ok(count) = usize::try_from(count) else { return fail(libc::EINVAL) };
    // SAFETY: by this function's contract.
    let event = unsafe { event.as_ref() }.filter(|_| mode == LIO_NOWAIT).copied().unwrap_or(Event::NONE);
    if ![LIO_WAIT, LIO_NOWAIT].contains(&mode) || !event.is_valid() {
        return fail(libc::EINVAL);
    }
    // SAFETY: as above.
    let list = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(list, count) } };
    let running = match process::engine() {
        Ok(running) => running,
        Err(error) => return fail(error),
    };
    let (mut requests, mut worst) = (Vec::new(), 0);
    for block in list {
        // SAFETY: as above.
        let Some(block) = (unsafe { BlockRef::new(*block) }) else { continue };
        let op = match block.fields().lio_opcode {
            LIO_READ => CallOp::Read,
            LIO_WRITE => CallOp::Write,
            LIO_NOP => {
                nothing_to_do(block);
                continue;
            }
            _ => {
                block.refuse(process::generation(), libc::EINVAL);
                worst = if worst == 0 { libc::EIO } else { worst };
                continue;
            }
        };
        match prepare(running, block, op, running.personality) {
            Ok(request) => requests.push(request),
            Err(libc::EAGAIN) => worst = libc::EAGAIN,
            Err(_) if worst == 0 => worst = libc::EIO,
            Err(_) => {}
        }
    }
    finish_list(running, mode, requests, event, worst)
}

/// Hands the requests of a list over, and waits for them if that is asked for.
fn finish_list(
    running: &Running,
    mode: c_int,
    mut requests: Vec<Request>,
    event: Event,
    worst: c_int,
) -> c_int {
    if requests.is_empty() {
        // All requests of the list have ended.
        if worst == 0 && event.is_sent() && !event.send() {
            return fail(libc::EAGAIN);
        }
        return if worst == 0 { 0 } else { fail(worst) };
    }
    let group = Arc::new(Group::new(requests.len() as u32, event));
    requests.iter_mut().for_each(|request| request.group = Some(Arc::clone(&group)));
    running.push(requests.into_iter().map(Command::Start));
    if mode == LIO_WAIT && BOARD.wait(|| group.is_over(), None).is_err() {
        return fail(libc::EINTR);
    }
    match worst {
        0 if mode == LIO_WAIT && group.has_failed() => fail(libc::EIO),
        0 => 0,
        worst => fail(worst),
    }
}

/// The second names.
macro_rules! also {
    ($($name:ident = $of:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            #[doc = concat!("The same as [`", stringify!($of), "`].")]
            ///
            /// # Safety
            /// The same.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                // SAFETY: by the same contract.
                unsafe { $of($($argument),*) }
            }
        )*
    };
}

also! {
    aio_read64 = aio_read(block: *mut Block) -> c_int;
    aio_write64 = aio_write(block: *mut Block) -> c_int;
    aio_fsync64 = aio_fsync(op: c_int, block: *mut Block) -> c_int;
    aio_error64 = aio_error(block: *const Block) -> c_int;
    aio_return64 = aio_return(block: *mut Block) -> ssize_t;
    aio_suspend64 = aio_suspend(list: *const *const Block, count: c_int, timeout: *const timespec) -> c_int;
    aio_cancel64 = aio_cancel(fd: c_int, block: *mut Block) -> c_int;
    lio_listio64 = lio_listio(mode: c_int, list: *const *mut Block, count: c_int, event: *const Event) -> c_int;
}
