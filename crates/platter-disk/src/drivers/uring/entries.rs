//! Requests as entries of the submission ring.

use super::super::iovec::Iovecs;
use super::super::target::{Target, zero_mode};
use super::regions::Regions;
use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::{Fixed, FsyncFlags};
use platter_block::bio::Op;
use platter_block::driver::Started;

/// Places of the registered files.
const DIRECT: Fixed = Fixed(0);
const BUFFERED: Fixed = Fixed(1);

/// The entry for a request: one segment as it is, from its registered buffer if it lies in one; several as
/// an array.
#[inline]
pub(super) fn entry(
    request: &Started<'_>,
    target: &Target,
    regions: &mut Regions,
    list: &mut Iovecs,
) -> Entry {
    match request.op {
        Op::Read | Op::Write => {
            let buffered = target.needs_buffered(request.pos, request.len);
            let transfer = Transfer {
                file: if buffered { BUFFERED } else { DIRECT },
                write: request.op == Op::Write,
                pos: request.pos,
                ioprio: request.ioprio.raw(),
                flags: if request.fua { libc::RWF_DSYNC } else { 0 },
            };
            match request.single_segment() {
                Some(segment) => match regions.find(&segment) {
                    Some(place) => transfer.fixed(segment.addr(), segment.len(), place),
                    None => transfer.plain(segment.addr(), segment.len()),
                },
                None => {
                    let region = list.fill(request);
                    match regions.find_for_vector(region) {
                        Some(place) => transfer.vector_fixed(list, place),
                        None => transfer.vector(list),
                    }
                }
            }
        }
        Op::Flush => opcode::Fsync::new(DIRECT).flags(FsyncFlags::DATASYNC).build(),
        // A block device's discards do not come here.
        Op::Discard | Op::WriteZeroes => opcode::Fallocate::new(DIRECT, request.len)
            .offset(request.pos)
            .mode(zero_mode(target.is_block))
            .build(),
    }
}

struct Transfer {
    file: Fixed,
    write: bool,
    pos: u64,
    ioprio: u16,
    flags: i32,
}

/// The same operation in its reading and its writing form, with the same fields set.
macro_rules! build {
    ($self:ident, $read:ident, $write:ident, ($($argument:expr),*)) => {
        if $self.write {
            let op = opcode::$write::new($self.file, $($argument),*);
            op.offset($self.pos).ioprio($self.ioprio).rw_flags($self.flags).build()
        } else {
            let op = opcode::$read::new($self.file, $($argument),*);
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
