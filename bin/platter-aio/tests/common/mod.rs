//! Requests and files for the tests.

use platter_aio::block::Block;
use platter_aio::posix::{aio_error, aio_fsync, aio_read, aio_return, aio_suspend, aio_write};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::null;

/// A request with memory of its own, at a fixed address.
pub(crate) struct Request {
    pub(crate) block: Box<Block>,
    pub(crate) memory: Vec<u8>,
}

impl Request {
    pub(crate) fn new(fd: &impl AsRawFd, offset: i64, mut memory: Vec<u8>) -> Request {
        let mut block = Box::<Block>::default();
        block.aio_fildes = fd.as_raw_fd();
        block.aio_buf = memory.as_mut_ptr().cast();
        block.aio_nbytes = memory.len();
        block.aio_offset = offset;
        Request { block, memory }
    }

    /// Starts a request with one of the functions; the error is `errno`.
    pub(crate) fn start(&mut self, function: unsafe extern "C" fn(*mut Block) -> i32) -> Result<(), i32> {
        // SAFETY: block and memory stay in place; each test waits for its requests, or leaks them.
        outcome(unsafe { function(&raw mut *self.block) }.into()).map(drop)
    }

    pub(crate) fn read(mut self) -> Request {
        self.start(aio_read).unwrap();
        self
    }

    pub(crate) fn write(mut self) -> Request {
        self.start(aio_write).unwrap();
        self
    }

    pub(crate) fn sync(mut self, op: i32) -> Request {
        // SAFETY: as above.
        outcome(unsafe { aio_fsync(op, &raw mut *self.block) }.into()).unwrap();
        self
    }

    pub(crate) fn error(&self) -> i32 {
        // SAFETY: the block is one.
        unsafe { aio_error(&raw const *self.block) }
    }

    /// Waits for the end of the request.
    pub(crate) fn error_when_ended(&self) -> i32 {
        while self.error() == libc::EINPROGRESS {
            suspend(&[self]);
        }
        self.error()
    }

    /// Waits for the end of the request and takes its result.
    pub(crate) fn finish(&mut self) -> Result<usize, i32> {
        suspend(&[self]);
        let error = self.error();
        let result = self.result();
        if error == 0 { Ok(result.unwrap()) } else { Err(error) }
    }

    /// Takes the result; the error is `errno`.
    pub(crate) fn result(&mut self) -> Result<usize, i32> {
        // SAFETY: the block is one.
        outcome(unsafe { aio_return(&raw mut *self.block) } as i64).map(|result| result as usize)
    }
}

/// `errno` if a call has failed.
pub(crate) fn outcome(result: i64) -> Result<i64, i32> {
    if result >= 0 { Ok(result) } else { Err(io::Error::last_os_error().raw_os_error().unwrap()) }
}

/// Waits until one has ended, whatever signals arrive.
pub(crate) fn suspend(requests: &[&Request]) {
    let list: Vec<*const Block> = requests.iter().map(|request| &raw const *request.block).collect();
    // SAFETY: the list has that many blocks.
    while let Err(errno) = outcome(unsafe { aio_suspend(list.as_ptr(), list.len() as i32, null()) }.into()) {
        assert_eq!(errno, libc::EINTR);
    }
}

pub(crate) fn file() -> File {
    tempfile::tempfile().unwrap()
}

/// Sets the most descriptors of this process; returns the limit from before.
pub(crate) fn limit_descriptors(most: u64) -> u64 {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is on this stack.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits) }, 0);
    let before = std::mem::replace(&mut limits.rlim_cur, most);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limits) }, 0);
    before
}

/// Reading and writing end.
pub(crate) fn pipe() -> (OwnedFd, OwnedFd) {
    let mut ends: [RawFd; 2] = [0; 2];
    // SAFETY: the call fills in two descriptors, which nothing else owns.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    }
}

pub(crate) fn put(fd: &impl AsRawFd, bytes: &[u8]) {
    // SAFETY: the memory has that length.
    let written = unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
    assert_eq!(written, bytes.len() as isize);
}

pub(crate) fn get(fd: &impl AsRawFd, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    // SAFETY: the memory has that length.
    let read = unsafe { libc::read(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), len) };
    bytes.truncate(usize::try_from(read).unwrap());
    bytes
}
