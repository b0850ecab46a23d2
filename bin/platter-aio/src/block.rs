//! The control block of a request, `struct aiocb`, as glibc lays it out on 64-bit machines.
//!
//! The program fills in the public fields and keeps the block in place until the request has ended. The private fields
//! hold the status. They are all that is known of a request after it has ended, so a program that never asks for the
//! result costs nothing.

use crate::event::Event;
use libc::{c_int, c_void, off_t, size_t, ssize_t};
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicIsize, AtomicU32, AtomicUsize, Ordering};

/// `struct aiocb`.
#[repr(C)]
pub struct Block {
    /// The descriptor.
    pub aio_fildes: c_int,
    /// For `lio_listio`: `LIO_READ`, `LIO_WRITE` or `LIO_NOP`.
    pub aio_lio_opcode: c_int,
    /// By how much the priority is lowered, 0 to 20.
    pub aio_reqprio: c_int,
    /// The memory.
    pub aio_buf: *mut c_void,
    /// Its length in bytes.
    pub aio_nbytes: size_t,
    /// The notification.
    pub aio_sigevent: Event,
    /// The address of the block and a fixed pattern, if the block has been submitted.
    mark: AtomicUsize,
    /// The generation of the process (see `fork`) that has submitted it.
    generation: AtomicU32,
    unused: c_int,
    /// `EINPROGRESS`, or the outcome.
    error: AtomicI32,
    /// The result after success.
    result: AtomicIsize,
    /// The position in bytes.
    pub aio_offset: off_t,
    reserved: [u8; 32],
}

// SAFETY: its address of memory is a number until a request is made of it, whose maker keeps both in place.
unsafe impl Send for Block {}
// SAFETY: as above; what changes while it is shared is atomic.
unsafe impl Sync for Block {}

impl Default for Block {
    /// A block of zeroes, as C programs begin with, except that it asks for no notification.
    fn default() -> Block {
        Block {
            aio_fildes: 0,
            aio_lio_opcode: 0,
            aio_reqprio: 0,
            aio_buf: std::ptr::null_mut(),
            aio_nbytes: 0,
            aio_sigevent: Event::NONE,
            mark: AtomicUsize::new(0),
            generation: AtomicU32::new(0),
            unused: 0,
            error: AtomicI32::new(0),
            result: AtomicIsize::new(0),
            aio_offset: 0,
            reserved: [0; 32],
        }
    }
}

const _: () = {
    assert!(size_of::<Block>() == size_of::<libc::aiocb>());
    assert!(align_of::<Block>() == align_of::<libc::aiocb>());
    assert!(offset_of!(Block, aio_fildes) == offset_of!(libc::aiocb, aio_fildes));
    assert!(offset_of!(Block, aio_lio_opcode) == offset_of!(libc::aiocb, aio_lio_opcode));
    assert!(offset_of!(Block, aio_reqprio) == offset_of!(libc::aiocb, aio_reqprio));
    assert!(offset_of!(Block, aio_buf) == offset_of!(libc::aiocb, aio_buf));
    assert!(offset_of!(Block, aio_nbytes) == offset_of!(libc::aiocb, aio_nbytes));
    assert!(offset_of!(Block, aio_sigevent) == offset_of!(libc::aiocb, aio_sigevent));
    assert!(offset_of!(Block, aio_offset) == offset_of!(libc::aiocb, aio_offset));
    assert!(size_of::<Event>() == size_of::<libc::sigevent>());
};

/// Tells a submitted block from memory that was never one.
const PATTERN: usize = 0x706c_6174_7465_7261;

/// A block of the program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockRef(NonNull<Block>);

// SAFETY: an address. The status fields are atomic, and the program leaves the others alone until the request has
// ended, as POSIX asks of it.
unsafe impl Send for BlockRef {}

/// What a block says about its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// It was never submitted.
    None,
    /// The request has not ended.
    InProgress,
    /// It has ended with this error, or `0`.
    Ended(c_int),
    /// Its result has been collected.
    Collected(c_int),
}

/// The public fields of a block.
pub(crate) struct Fields {
    pub(crate) fd: c_int,
    pub(crate) lio_opcode: c_int,
    pub(crate) reqprio: c_int,
    pub(crate) memory: *mut u8,
    pub(crate) len: usize,
    pub(crate) offset: off_t,
    pub(crate) event: Event,
}

impl BlockRef {
    /// `None` for a null pointer.
    ///
    /// # Safety
    /// The pointer is null or that of a block which stays in place and is changed only through it, until the request
    /// that is made of it has ended.
    pub(crate) unsafe fn new(block: *mut Block) -> Option<BlockRef> {
        NonNull::new(block).map(BlockRef)
    }

    fn get(&self) -> &Block {
        // SAFETY: valid by the contract of `new`: every caller is before the end of the request, or was given the
        // block by the program just now.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn fields(&self) -> Fields {
        let block = self.get();
        Fields {
            fd: block.aio_fildes,
            lio_opcode: block.aio_lio_opcode,
            reqprio: block.aio_reqprio,
            memory: block.aio_buf.cast(),
            len: block.aio_nbytes,
            offset: block.aio_offset,
            event: block.aio_sigevent,
        }
    }

    fn expected_mark(&self) -> usize {
        self.0.as_ptr() as usize ^ PATTERN
    }

    /// The request is in progress from now on.
    pub(crate) fn begin(&self, generation: u32) {
        let block = self.get();
        block.error.store(libc::EINPROGRESS, Ordering::Relaxed);
        block.generation.store(generation, Ordering::Relaxed);
        block.mark.store(self.expected_mark(), Ordering::Release);
    }

    /// The request ends with the bytes done or a negative errno. The block is the program's again afterwards.
    pub(crate) fn end(self, result: i64) {
        let block = self.get();
        let error = if result < 0 { (-result) as c_int } else { 0 };
        block.result.store(if error == 0 { result as isize } else { -1 }, Ordering::Relaxed);
        // The last access: a thread that sees this may free the block.
        block.error.store(error, Ordering::Release);
    }

    /// The request was refused with this error.
    pub(crate) fn refuse(self, generation: u32, error: c_int) {
        self.begin(generation);
        self.end(-i64::from(error));
    }

    /// The status, as a process of this generation sees it. Requests of the parent process have no end in the child:
    /// they count as cancelled there.
    pub(crate) fn status(&self, generation: u32) -> Status {
        let block = self.get();
        let mark = block.mark.load(Ordering::Acquire);
        let error = block.error.load(Ordering::Acquire);
        if mark == self.expected_mark() {
            match error {
                libc::EINPROGRESS if block.generation.load(Ordering::Relaxed) != generation => {
                    Status::Ended(libc::ECANCELED)
                }
                libc::EINPROGRESS => Status::InProgress,
                error => Status::Ended(error),
            }
        } else if mark == !self.expected_mark() {
            Status::Collected(error)
        } else {
            Status::None
        }
    }

    /// Takes the result of a request that has ended.
    pub(crate) fn collect(&self) -> ssize_t {
        let block = self.get();
        block.mark.store(!self.expected_mark(), Ordering::Relaxed);
        let failed = block.error.load(Ordering::Acquire) != 0;
        if failed { -1 } else { block.result.load(Ordering::Relaxed) }
    }
}
