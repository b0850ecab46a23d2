//! Requests as entries of the submission ring.

use super::super::iovec::Iovecs;
use super::super::target::{Target, rw_flags, zero_mode};
use super::regions::Regions;
use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::{Fixed, FsyncFlags};
use platter_block::bio::Op;
use platter_block::driver::Started;
use std::os::fd::AsRawFd;

/// Indices of the registered files.
const DISK: Fixed = Fixed(0);
const FLUSHED: Fixed = Fixed(1);

/// The files that a ring must register, in this order.
pub(super) fn files(target: &Target) -> [i32; 2] {
    [target.disk.fd.as_raw_fd(), target.flushed().as_raw_fd()]
}

/// The entry for the first `len` bytes of a request: a single segment directly, from its registered buffer if it lies
/// in one; several as an array.
#[inline]
pub(super) fn entry(
    request: &Started<'_>,
    len: u64,
    target: &Target,
    regions: &mut Regions,
    list: &mut Iovecs,
) -> Entry {
    match request.op {
        Op::Read | Op::Write => {
            let transfer = Transfer {
                write: request.op == Op::Write,
                pos: request.pos,
                ioprio: request.ioprio.raw(),
                flags: rw_flags(request),
            };
            match request.single_segment() {
                Some(segment) => {
                    let len = u64::from(segment.len()).min(len) as u32;
                    // The kernel accepts no atomic writes from registered memory.
                    match if request.atomic { None } else { regions.find(&segment) } {
                        Some(place) => transfer.fixed(segment.addr(), len, place),
                        None => transfer.plain(segment.addr(), len),
                    }
                }
                None => {
                    let region = list.fill(request, len);
                    match regions.find_for_vector(region) {
                        Some(place) => transfer.vector_fixed(list, place),
                        None => transfer.vector(list),
                    }
                }
            }
        }
        Op::Flush => opcode::Fsync::new(FLUSHED).flags(FsyncFlags::DATASYNC).build(),
        // Discards of block devices are not submitted here.
        Op::Discard | Op::WriteZeroes => opcode::Fallocate::new(DISK, request.len)
            .offset(request.pos)
            .mode(zero_mode(target.is_block))
            .build(),
    }
}

struct Transfer {
    write: bool,
    pos: u64,
    ioprio: u16,
    flags: i32,
}

/// The same operation in its read and write form, with the same fields set.
macro_rules! build {
    ($self:ident, $read:ident, $write:ident, ($($argument:expr),*)) => {
        if $self.write {
            let op = opcode::$write::new(DISK, $($argument),*);
            op.offset($self.pos).ioprio($self.ioprio).rw_flags($self.flags).build()
        } else {
            let op = opcode::$read::new(DISK, $($argument),*);
            op.offset($self.pos).ioprio($self.ioprio).rw_flags($self.flags).build()
        }
    };
}

impl Transfer {
    #[inline]
    fn fixed(&self, addr: *mut u8, len: u32, place: u16) -> Entry {
        build!(self, ReadFixed, WriteFixed, (addr, len, place))
    }

    #[inline]
    fn plain(&self, addr: *mut u8, len: u32) -> Entry {
        build!(self, Read, Write, (addr, len))
    }

    fn vector(&self, list: &Iovecs) -> Entry {
        let list = list.as_slice();
        build!(self, Readv, Writev, (list.as_ptr(), list.len() as u32))
    }

    fn vector_fixed(&self, list: &Iovecs, place: u16) -> Entry {
        let list = list.as_slice();
        build!(self, ReadvFixed, WritevFixed, (list.as_ptr(), list.len() as u32, place))
    }
}
