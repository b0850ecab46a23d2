//! Linux native AIO, as SysBench's `async` uses it: reads and writes are submitted one by one, an fsync is a call.

#![allow(unsafe_code)]

use super::Open;
use crate::fileio::FileioError;
use crate::fileio::engine::{Engine, buffers};
use crate::fileio::plan::Plan;
use crate::fileio::requests::Request;
use platter_disk::pool::PoolBuf;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// The kernel's `struct iocb` (`linux/aio_abi.h`), without unused fields.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Iocb {
    data: u64,
    /// `aio_key` and `aio_rw_flags`, which are 0 in either order.
    key: [u32; 2],
    opcode: u16,
    reqprio: u16,
    fd: u32,
    buf: u64,
    nbytes: u64,
    offset: u64,
    rest: [u64; 2],
}

const PREAD: u16 = 0;
const PWRITE: u16 = 1;

/// The kernel's `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    obj: u64,
    result: i64,
    result2: i64,
}

/// A context; dropping it waits for requests in flight.
struct Context(libc::c_ulong);

fn check(result: libc::c_long) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

impl Context {
    fn new(depth: u32) -> io::Result<Context> {
        let mut id: libc::c_ulong = 0;
        // SAFETY: the kernel writes the id to `id`, which lives until the call returns.
        check(unsafe { libc::syscall(libc::SYS_io_setup, libc::c_long::from(depth), &raw mut id) })?;
        Ok(Context(id))
    }

    /// # Safety
    /// The memory that the request names is valid, and used by nothing else, until it has completed.
    unsafe fn submit(&self, mut iocb: Iocb) -> io::Result<()> {
        let list = [&raw mut iocb];
        // SAFETY: the list has one pointer, to a request that the kernel copies before the call returns; the
        // rest by this function's contract.
        check(unsafe { libc::syscall(libc::SYS_io_submit, self.0, 1 as libc::c_long, list.as_ptr()) })
            .map(drop)
    }

    /// Waits for at least one completion; how many were stored.
    fn wait(&self, events: &mut [Event]) -> io::Result<usize> {
        let (most, none) = (events.len() as libc::c_long, std::ptr::null::<libc::timespec>());
        let least: libc::c_long = 1;
        loop {
            // SAFETY: the kernel stores at most `most` events, for which there is room.
            let got = check(unsafe {
                libc::syscall(libc::SYS_io_getevents, self.0, least, most, events.as_mut_ptr(), none)
            });
            match got {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: this value owns the context; the call returns when no request is in flight.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

/// A thread with its own context.
pub(super) struct Aio {
    // Dropped before the memory that it reads into and writes from.
    context: Context,
    buffers: Vec<PoolBuf>,
    files: Arc<Open>,
    /// The request of each slot.
    requests: Vec<Request>,
    events: Vec<Event>,
    out: usize,
    /// Slots of calls that are done.
    called: Vec<u32>,
}

impl Aio {
    pub(super) fn new(plan: &Plan, files: Arc<Open>, thread: u32) -> Result<Aio, FileioError> {
        let depth = plan.depth();
        let context = Context::new(depth).map_err(|error| files.error("set up AIO for", 0, None, error))?;
        Ok(Aio {
            context,
            buffers: buffers(plan, thread, 1, depth)?,
            files,
            requests: vec![Request::Sync { file: 0 }; depth as usize],
            events: vec![Event::default(); depth as usize],
            out: 0,
            called: Vec::new(),
        })
    }

    fn submit(&mut self, slot: u32, opcode: u16, file: u32, pos: u64) -> io::Result<()> {
        let buffer = &mut self.buffers[slot as usize];
        let iocb = Iocb {
            data: slot.into(),
            opcode,
            fd: self.files.files[file as usize].as_raw_fd() as u32,
            buf: buffer.as_mut_ptr().expose_provenance() as u64,
            nbytes: buffer.len() as u64,
            offset: pos,
            ..Iocb::default()
        };
        // SAFETY: the buffer of a slot is used by one request at a time and has the length of the request.
        // The context is dropped before the buffers, which waits for its requests.
        unsafe { self.context.submit(iocb) }?;
        self.out += 1;
        Ok(())
    }

    /// Checks the result of a completion.
    fn check(&self, event: &Event) -> Result<u32, FileioError> {
        let slot = event.data as u32;
        let (what, file, pos) = match self.requests[slot as usize] {
            Request::Read { file, pos } => ("read", file, pos),
            Request::Write { file, pos } => ("write", file, pos),
            Request::Sync { file } => ("fsync", file, 0),
        };
        let error = match i32::try_from(event.result) {
            Ok(result) if result < 0 => io::Error::from_raw_os_error(-result),
            Ok(result) if result as usize == self.buffers[slot as usize].len() => return Ok(slot),
            _ => io::Error::new(io::ErrorKind::UnexpectedEof, format!("{} bytes only", event.result)),
        };
        Err(self.files.error(what, file, Some(pos), error))
    }
}

impl Engine for Aio {
    fn start(&mut self, slot: u32, request: Request) -> Result<(), FileioError> {
        self.requests[slot as usize] = request;
        let (what, opcode, file, pos) = match request {
            Request::Read { file, pos } => ("read", PREAD, file, pos),
            Request::Write { file, pos } => ("write", PWRITE, file, pos),
            Request::Sync { file } => {
                self.files.sync(file)?;
                self.called.push(slot);
                return Ok(());
            }
        };
        self.submit(slot, opcode, file, pos).map_err(|error| self.files.error(what, file, Some(pos), error))
    }

    fn wait(&mut self, done: &mut Vec<u32>) -> Result<(), FileioError> {
        if !self.called.is_empty() || self.out == 0 {
            done.append(&mut self.called);
            return Ok(());
        }
        let got = self.context.wait(&mut self.events);
        let got = got.map_err(|error| self.files.error("wait for", 0, None, error))?;
        self.out -= got;
        for event in &self.events[..got] {
            done.push(self.check(event)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_as_large_as_the_kernels() {
        assert_eq!((size_of::<Iocb>(), size_of::<Event>()), (64, 32));
    }
}
